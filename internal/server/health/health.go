package health

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/web"
)

// Readiness is the state of the parts of a server. The zero value has no parts.
type Readiness struct {
	mu     sync.Mutex
	order  []string
	checks map[string]func(context.Context) error
	state  map[string]bool
	// limited are parts that can be degraded, with functions that return why.
	limited map[string]func() string
}

// Expect adds parts. They are not ready until Ready is called for them.
func (h *Readiness) Expect(parts ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == nil {
		h.state, h.checks = map[string]bool{}, map[string]func(context.Context) error{}
	}
	for _, p := range parts {
		if !slices.Contains(h.order, p) {
			h.order = append(h.order, p)
		}
		h.state[p] = false
	}
}

// Ready marks a part as ready. From then on check, if not nil, is called for each
// request.
func (h *Readiness) Ready(part string, check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state[part] = true
	h.checks[part] = check
}

// States of a part.
const (
	stateReady    = "ready"
	stateStarting = "starting"
	stateFailing  = "failing"  // it was ready
	stateDegraded = "degraded" // it works in part
)

// partState is the state of a part of a server.
type partState struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // only operators may see it
}

// up reports whether the server is ready with the part in this state.
func (p partState) up() bool { return p.State == stateReady || p.State == stateDegraded }

// maxReason is the longest reason, in bytes.
const maxReason = 500

// parts returns all parts, in the order they start and then by name, with the reasons of
// those that do not work.
func (h *Readiness) parts(ctx context.Context) []partState {
	h.mu.Lock()
	order := slices.Clone(h.order)
	checks, state, limited := maps.Clone(h.checks), maps.Clone(h.state), maps.Clone(h.limited)
	h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(limited)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
			state[name] = true
		}
	}
	out := make([]partState, 0, len(order))
	for _, name := range order {
		p := partState{Name: name, State: stateReady}
		if !state[name] {
			p.State, p.Reason = stateStarting, "it has not started yet"
		} else if check := checks[name]; check != nil {
			if err := check(ctx); err != nil {
				p.State, p.Reason = stateFailing, err.Error()
			}
		}
		if why := limited[name]; why != nil && p.State == stateReady {
			if p.Reason = why(); p.Reason != "" {
				p.State = stateDegraded
			}
		}
		p.Reason = strings.ToValidUTF8(p.Reason[:min(len(p.Reason), maxReason)], "")
		out = append(out, p)
	}
	return out
}

// missing returns the names of the parts without which the server is not ready.
func missing(parts []partState) []string {
	out := []string{}
	for _, p := range parts {
		if !p.up() {
			out = append(out, p.Name)
		}
	}
	return out
}

// Watch adds a part that can be degraded: why returns the reason while it is, and
// "" otherwise.
func (h *Readiness) Watch(part string, why func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limited == nil {
		h.limited = map[string]func() string{}
	}
	h.limited[part] = why
}

const readyTimeout = 2 * time.Second

// Routes registers /healthz and /readyz for the public listeners.
func Routes(m *web.Mux, h *Readiness) { register(m, h, false) }

// OperatorRoutes registers the same with reasons, which only the operator may see. With
// ?verbose both list every part with its state.
func OperatorRoutes(m *web.Mux, h *Readiness) { register(m, h, true) }

// publicReason replaces a reason that only the operator may see.
const publicReason = "it works only in part at the moment; the server's log and /readyz of its admin listener say why"

func register(m *web.Mux, h *Readiness, operator bool) {
	g := m.Group("health", web.FormatV3, nil)
	const probe = "load balancers and supervisors call it and have no token; it contains only which parts work"
	g.Handle(http.MethodGet, "/healthz", web.Public(probe), func(w http.ResponseWriter, _ *http.Request) error {
		write(w, http.StatusOK, answer{Status: "ok"})
		return nil
	})
	g.Handle(http.MethodGet, "/readyz", web.Public(probe), func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		status, a := answerOf(h.parts(ctx), operator, r.URL.Query().Has("verbose"))
		if status != http.StatusOK {
			w.Header().Set("Retry-After", "1")
		}
		write(w, status, a)
		return nil
	})
}

// answer is the body of a response.
type answer struct {
	Status   string            `json:"status"`
	NotReady []string          `json:"not_ready,omitempty"`
	Degraded map[string]string `json:"degraded,omitempty"`
	Parts    []partState       `json:"parts,omitempty"`
}

// answerOf returns the response of /readyz. A server with degraded parts is ready
// nevertheless: the API and the running instances must still get requests.
func answerOf(parts []partState, operator, verbose bool) (int, answer) {
	a, status := answer{Status: "ok"}, http.StatusOK
	if a.NotReady = missing(parts); len(a.NotReady) > 0 {
		a.Status, status = "not ready", http.StatusServiceUnavailable
	}
	for i := range parts {
		p := &parts[i]
		if p.State == stateDegraded {
			if !operator {
				p.Reason = publicReason
			}
			if status == http.StatusOK {
				a.Status = stateDegraded
				if a.Degraded == nil {
					a.Degraded = map[string]string{}
				}
				a.Degraded[p.Name] = p.Reason
			}
		}
		if !operator {
			p.Reason = "" // it may contain addresses, paths and names
		}
	}
	if verbose {
		a.Parts = parts
	}
	return status, a
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, status, body)
}
