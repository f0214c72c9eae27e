package health

import (
	"net/http"
	"net/http/pprof"
	"path"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ingot/internal/base/background"
	"ingot/internal/base/web"
)

// NewRegistry returns a registry with the metrics of this process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		panics{})
	return r
}

// panics collects the number of recovered panics by job.
type panics struct{}

var panicked = prometheus.NewDesc("ingot_panics_total",
	"Recovered panics by the part of the server. Each is a defect, whose stack is in the log.", []string{"part"}, nil)

func (panics) Describe(to chan<- *prometheus.Desc) { to <- panicked }

func (panics) Collect(to chan<- prometheus.Metric) {
	for job, n := range background.Panics() {
		to <- prometheus.MustNewConstMetric(panicked, prometheus.CounterValue, float64(n), job)
	}
}

// Recovering is a collector whose panics are recovered. The registry calls
// collectors in its own goroutines, which do not recover.
type Recovering struct{ prometheus.Collector }

// Collect implements prometheus.Collector.
func (c Recovering) Collect(to chan<- prometheus.Metric) {
	background.Safely("metrics", func() { c.Collector.Collect(to) })
}

// DebugRoutes registers metrics and profiles, for the operator's listener only.
func DebugRoutes(m *web.Mux, r *prometheus.Registry) {
	g := m.Group("admin", web.FormatV3, nil)
	const operators = "on the operator's own listener, which is on loopback by default; it contains no secrets"
	g.Handle(http.MethodGet, "/metrics", web.Public(operators),
		plain(promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r})))

	// A profile takes as long as the request says.
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

// headOnly answers HEAD without taking the profile that GET would return.
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

// plain turns an http.Handler into a web.Handler.
func plain(h http.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// Figures returns the gauges and counters of a registry, and the counts of its histograms, by their name,
// followed by the values of their labels, separated by spaces. A collector that fails has none.
func Figures(r *prometheus.Registry) map[string]float64 {
	figures := map[string]float64{}
	families, _ := r.Gather() // returns what could be gathered
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			switch {
			case m.GetGauge() != nil:
				figures[name] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				figures[name] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				figures[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return figures
}
