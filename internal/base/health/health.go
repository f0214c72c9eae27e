package health

import (
	"context"
	"maps"
	"net/http"
	"slices"
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

// missing returns the parts that are not ready, in the order they start.
func (h *Readiness) missing(ctx context.Context) []string {
	h.mu.Lock()
	out := []string{}
	ask := map[string]func(context.Context) error{}
	order := slices.Clone(h.order)
	for _, part := range order {
		if !h.state[part] {
			out = append(out, part)
		} else if check := h.checks[part]; check != nil {
			ask[part] = check
		}
	}
	h.mu.Unlock()
	for _, part := range order {
		if check := ask[part]; check != nil && check(ctx) != nil {
			out = append(out, part)
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

// degraded returns the parts that are degraded, with the reasons.
func (h *Readiness) degraded() map[string]string {
	h.mu.Lock()
	ask := maps.Clone(h.limited)
	h.mu.Unlock()
	out := map[string]string{}
	for part, why := range ask {
		if text := why(); text != "" {
			out[part] = text
		}
	}
	return out
}

const readyTimeout = 2 * time.Second

// Routes registers /healthz and /readyz for the public listeners.
func Routes(m *web.Mux, h *Readiness) { register(m, h, false) }

// OperatorRoutes registers the same with reasons, which only the operator may see.
func OperatorRoutes(m *web.Mux, h *Readiness) { register(m, h, true) }

// publicReason replaces a reason that only the operator may see.
const publicReason = "no instances are started at the moment; the server's log and /readyz of its admin listener say why"

func register(m *web.Mux, h *Readiness, operator bool) {
	g := m.Group("health", web.FormatV3, nil)
	const probe = "load balancers and supervisors call it and have no token; it contains only which parts work"
	g.Handle(http.MethodGet, "/healthz", web.Public(probe), func(w http.ResponseWriter, _ *http.Request) error {
		write(w, http.StatusOK, map[string]any{"status": "ok"})
		return nil
	})
	g.Handle(http.MethodGet, "/readyz", web.Public(probe), func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if missing := h.missing(ctx); len(missing) > 0 {
			w.Header().Set("Retry-After", "1")
			write(w, http.StatusServiceUnavailable, map[string]any{"status": "not ready", "not_ready": missing})
			return nil
		}
		degraded := h.degraded()
		if len(degraded) == 0 {
			write(w, http.StatusOK, map[string]any{"status": "ok"})
			return nil
		}
		// The server is ready nevertheless: the API and the running instances must
		// still get requests.
		if !operator {
			for part := range degraded {
				degraded[part] = publicReason
			}
		}
		write(w, http.StatusOK, map[string]any{"status": "degraded", "degraded": degraded})
		return nil
	})
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, status, body)
}
