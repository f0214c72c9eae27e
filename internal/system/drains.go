package system

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/drain"
)

// boundDrains are the log drains that come with service bindings.
type boundDrains struct {
	store platform.Store
	names *appNames
}

// Drains implements drain.Source.
func (d boundDrains) Drains(ctx context.Context) (map[string][]drain.Drain, error) {
	var all map[string][]drain.Drain
	err := d.store.View(ctx, func(tx platform.Tx) error {
		all = map[string][]drain.Drain{}
		bindings, _, err := tx.ServiceBindings().List(platform.Where("type", platform.BindingApp))
		if err != nil {
			return err
		}
		for _, b := range bindings {
			if _, done := all[b.AppGUID]; done {
				continue
			}
			if all[b.AppGUID], err = d.drainsOf(tx, b.AppGUID); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func (d boundDrains) drainsOf(tx platform.Tx, appGUID string) ([]drain.Drain, error) {
	found, err := actions.DrainsOf(tx, appGUID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	about, err := d.names.aboutIn(tx, appGUID)
	if err != nil {
		return nil, err
	}
	out := make([]drain.Drain, 0, len(found))
	for _, f := range found {
		out = append(out, drain.Drain{
			ID: f.BindingGUID, URL: f.URL, Certificate: []byte(f.Certificate), Key: []byte(f.Key), CA: []byte(f.CA),
			Host:  drain.Hostname(about.Tags["organization_name"], about.Tags["space_name"], about.Tags["app_name"]),
			About: about,
		})
	}
	return out, nil
}

// openDrains makes what sends logs on.
func openDrains(store *logs.Store, source drain.Source, dir *dataDir, c Config) (*drain.Manager, error) {
	guard, err := safedial.ParseGuard(c.DrainNetworks)
	if err != nil {
		return nil, err
	}
	guard = guard.With(c.guard())
	return drain.New(store, source, drain.Options{Dir: dir.file("drains"), Guard: guard, Log: c.Log}), nil
}

// logFigures are the metrics of the log store and of the drains. Those of drains
// have the app but not the address, which is its owner's business.
type logFigures struct {
	store  *logs.Store
	drains *drain.Manager
}

var (
	logLost  = prometheus.NewDesc("ingot_log_lines_lost_total", "Lines of apps that are known to be lost since the start; the logs of the apps tell of each.", nil, nil)
	logBytes = prometheus.NewDesc("ingot_log_store_bytes", "What the logs of all apps take on disk.", nil, nil)
	logApps  = prometheus.NewDesc("ingot_log_store_apps", "Apps that have a log.", nil, nil)
	logTails = prometheus.NewDesc("ingot_log_tails", "Readers of live logs.", nil, nil)

	logStreams       = prometheus.NewDesc("ingot_log_streams", "Readers of the log stream of many apps.", nil, nil)
	logStreamDropped = prometheus.NewDesc("ingot_log_stream_lines_dropped_total", "Lines that readers of log streams were too slow for.", nil, nil)

	drainSent    = prometheus.NewDesc("ingot_log_drain_lines_sent_total", "Lines that were sent to drains.", []string{"app", "drain"}, nil)
	drainLost    = prometheus.NewDesc("ingot_log_drain_lines_lost_total", "Lines that drains gave up.", []string{"app", "drain"}, nil)
	drainWaiting = prometheus.NewDesc("ingot_log_drain_lines_waiting", "Lines on their way that are not known to have been taken.", []string{"app", "drain"}, nil)
	drainUp      = prometheus.NewDesc("ingot_log_drain_up", "1 when the last attempt to send worked.", []string{"app", "drain"}, nil)
)

// Describe implements prometheus.Collector.
func (f logFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{logLost, logBytes, logApps, logTails, logStreams, logStreamDropped, drainSent, drainLost, drainWaiting, drainUp} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f logFigures) Collect(to chan<- prometheus.Metric) {
	add := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	t := f.store.Totals()
	add(logLost, prometheus.CounterValue, float64(t.Lost))
	add(logBytes, prometheus.GaugeValue, float64(t.Bytes))
	add(logApps, prometheus.GaugeValue, float64(t.Apps))
	add(logTails, prometheus.GaugeValue, float64(t.Tails))
	add(logStreams, prometheus.GaugeValue, float64(t.Streams))
	add(logStreamDropped, prometheus.CounterValue, float64(t.Dropped))
	for _, s := range f.drains.Stats() {
		up := 1.0
		if s.Error != "" {
			up = 0
		}
		add(drainSent, prometheus.CounterValue, float64(s.Sent), s.App, s.ID)
		add(drainLost, prometheus.CounterValue, float64(s.Lost), s.App, s.ID)
		add(drainWaiting, prometheus.GaugeValue, float64(s.Waiting), s.App, s.ID)
		add(drainUp, prometheus.GaugeValue, up, s.App, s.ID)
	}
}
