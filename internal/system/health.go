package system

import (
	"context"
	"maps"
	"net/http"
	"net/http/pprof"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ingot/internal/base/background"
	"ingot/internal/base/web"
	"ingot/internal/platform/engine"
)

// readiness knows which parts work. The zero value knows of none.
type readiness struct {
	mu     sync.Mutex
	order  []string
	checks map[string]func(context.Context) error
	state  map[string]bool
	// partly are parts that can work in part, with what asks for the reason.
	partly map[string]func() string
}

// expect adds parts that are not ready until ready says so.
func (h *readiness) expect(parts ...string) {
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

// ready says that a part works. check, if given, is asked each time from then
// on.
func (h *readiness) ready(part string, check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state[part] = true
	h.checks[part] = check
}

// missing lists the parts that do not work, in the order they start.
func (h *readiness) missing(ctx context.Context) []string {
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

// watch names a part that can work in part: why returns the reason when it does,
// and "" otherwise.
func (h *readiness) watch(part string, why func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.partly == nil {
		h.partly = map[string]func() string{}
	}
	h.partly[part] = why
}

// degraded returns why parts work only in part.
func (h *readiness) degraded() map[string]string {
	h.mu.Lock()
	ask := maps.Clone(h.partly)
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

// healthRoutes registers /healthz and /readyz.
func healthRoutes(m *web.Mux, h *readiness) { registerHealth(m, h, false) }

// operatorHealthRoutes are the same with reasons, which are about the machine.
func operatorHealthRoutes(m *web.Mux, h *readiness) { registerHealth(m, h, true) }

// publicReason stands for a reason that is the operator's.
const publicReason = "no instances are started at the moment; the server's log and /readyz of its admin listener say why"

func registerHealth(m *web.Mux, h *readiness, operator bool) {
	g := m.Group("health", web.FormatV3, nil)
	const probe = "load balancers and supervisors ask it and have no token; it says nothing but which parts work"
	g.Handle(http.MethodGet, "/healthz", web.Public(probe), func(w http.ResponseWriter, _ *http.Request) error {
		writeHealth(w, http.StatusOK, map[string]any{"status": "ok"})
		return nil
	})
	g.Handle(http.MethodGet, "/readyz", web.Public(probe), func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if missing := h.missing(ctx); len(missing) > 0 {
			w.Header().Set("Retry-After", "1")
			writeHealth(w, http.StatusServiceUnavailable, map[string]any{"status": "not ready", "not_ready": missing})
			return nil
		}
		degraded := h.degraded()
		if len(degraded) == 0 {
			writeHealth(w, http.StatusOK, map[string]any{"status": "ok"})
			return nil
		}
		// The server is ready all the same: the API and the instances that run
		// must not lose their requests.
		if !operator {
			for part := range degraded {
				degraded[part] = publicReason
			}
		}
		writeHealth(w, http.StatusOK, map[string]any{"status": "degraded", "degraded": degraded})
		return nil
	})
}

// heldFigure reports whether instances are started.
func heldFigure(e engine.Engine) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ingot_apps_held_back", Help: "1 while no app instances are started because containers do not work.",
	}, func() float64 {
		if e.Describe().Held != "" {
			return 1
		}
		return 0
	})
}

func writeHealth(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, status, body)
}

// newRegistry returns the metrics of this process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), panics{})
	return r
}

// panics tells of the panics that were recovered, each the failure of one job.
type panics struct{}

var panicked = prometheus.NewDesc("ingot_panics_total", "Panics that were recovered since the start, by job; the log has the stack of each. Each is a defect.", []string{"job"}, nil)

func (panics) Describe(to chan<- *prometheus.Desc) { to <- panicked }

func (panics) Collect(to chan<- prometheus.Metric) {
	for job, n := range background.Panics() {
		to <- prometheus.MustNewConstMetric(panicked, prometheus.CounterValue, float64(n), job)
	}
}

// careful is a collector of ours. The registry collects in goroutines of its own,
// where nothing recovers.
type careful struct{ prometheus.Collector }

func (c careful) Collect(to chan<- prometheus.Metric) {
	background.Safely("metrics", func() { c.Collector.Collect(to) })
}

// adminRoutes registers what only the operator's listener has.
func adminRoutes(m *web.Mux, r *prometheus.Registry) {
	g := m.Group("admin", web.FormatV3, nil)
	const operators = "on the operator's own listener, which is on loopback unless told otherwise; it holds no secrets"
	g.Handle(http.MethodGet, "/metrics", web.Public(operators), plain(promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r})))

	// A profile runs for as long as it is asked to.
	long := g.Within(web.Limits{Body: 1 << 20, Read: web.DefaultLimits.Read})
	for pattern, h := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/{name}":  pprof.Index,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		long.Handle(http.MethodGet, pattern, web.Public(operators), plain(headOnly(h)))
	}
}

// headOnly answers HEAD without taking the profile that GET would send.
func headOnly(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		if r.Method == http.MethodHead && (name == "profile" || name == "trace") {
			w.Header().Set("Content-Type", "application/octet-stream")
			return
		}
		h(w, r)
	}
}

// plain makes a web.Handler of an ordinary one.
func plain(h http.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
