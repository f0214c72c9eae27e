package logs

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/logs/promql"
	"ingot/internal/platform/logs/recorded"
)

const (
	// historyKept is how long measurements are kept, and for how long after the last query
	// an app is measured.
	historyKept = 15 * time.Minute
	// Limits of the apps that are measured, and of their instances.
	historyApps      = 200
	historyInstances = 2000
)

// History measures the instances of apps that were queried recently, every gaugeEvery, and
// keeps the measurements for a while, so that queries can look back. It is a
// background.Service, and the promql.Source of one.
type History struct {
	part   background.Part
	access Access
	// Past has the metrics that are recorded for longer, if not nil.
	Past promql.Source

	mu    sync.Mutex
	until map[string]time.Time         // when the interest in an app ends
	of    map[string]map[string]*track // by app and instance
}

// track are the measurements of an instance.
type track struct {
	last   Gauge
	times  []time.Time
	values map[string][]float64 // by metric; as many as times
}

// NewHistory returns a history that is not running.
func NewHistory(access Access) *History {
	return &History{access: access, until: map[string]time.Time{}, of: map[string]map[string]*track{}}
}

// Start starts to measure.
func (h *History) Start(ctx context.Context) error {
	return h.part.Run(ctx, func(work context.Context) {
		for now := range background.Ticks(work, gaugeEvery, nil) {
			h.measure(work, now)
		}
	})
}

// Stop stops it.
func (h *History) Stop() { h.part.Halt(nil) }

// measure measures all apps of interest and forgets what is old.
func (h *History) measure(ctx context.Context, now time.Time) {
	h.mu.Lock()
	var apps []string
	for app, until := range h.until {
		if now.After(until) {
			delete(h.until, app)
			delete(h.of, app)
		} else {
			apps = append(apps, app)
		}
	}
	h.mu.Unlock()
	if len(apps) == 0 {
		return
	}
	if gauges, err := h.access.Gauges(ctx, apps); err == nil {
		h.add(gauges, now)
	}
}

// add keeps measurements, and drops old ones.
func (h *History) add(gauges []Gauge, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := 0
	for _, of := range h.of {
		for id, t := range of {
			if t.forget(now.Add(-historyKept)); len(t.times) == 0 {
				delete(of, id)
			}
		}
		count += len(of)
	}
	for _, g := range gauges {
		if _, wanted := h.until[g.App]; !wanted {
			continue
		}
		if h.of[g.App] == nil {
			h.of[g.App] = map[string]*track{}
		}
		t := h.of[g.App][g.Instance]
		if t == nil {
			if count++; count > historyInstances {
				continue
			}
			t = &track{values: map[string][]float64{}}
			h.of[g.App][g.Instance] = t
		}
		t.add(g)
	}
}

func (t *track) add(g Gauge) {
	if n := len(t.times); n > 0 && !g.Time.After(t.times[n-1]) {
		return // the same measurement
	}
	t.last, t.times = g, append(t.times, g.Time)
	for name, m := range g.Metrics {
		for len(t.values[name]) < len(t.times)-1 {
			t.values[name] = append(t.values[name], m.Value) // it is new
		}
		t.values[name] = append(t.values[name], m.Value)
	}
}

func (t *track) forget(before time.Time) {
	n := 0
	for n < len(t.times) && t.times[n].Before(before) {
		n++
	}
	if n == 0 {
		return
	}
	t.times = append([]time.Time(nil), t.times[n:]...)
	for name, values := range t.values {
		t.values[name] = append([]float64(nil), values[min(n, len(values)):]...)
	}
}

// watch measures an app now and for a while, unless too many are measured.
func (h *History) watch(ctx context.Context, app string) error {
	now := time.Now()
	h.mu.Lock()
	_, known := h.until[app]
	if known || len(h.until) < historyApps {
		h.until[app], known = now.Add(historyKept), true
	}
	fresh := false
	for _, t := range h.of[app] {
		fresh = fresh || now.Sub(t.times[len(t.times)-1]) < gaugeEvery
	}
	h.mu.Unlock()
	if fresh || !known {
		return nil
	}
	gauges, err := h.access.Gauges(ctx, []string{app})
	if err == nil {
		h.add(gauges, now)
	}
	return err
}

// Select implements promql.Source.
func (h *History) Select(ctx context.Context, app, metric string, from, to time.Time) ([]promql.Series, error) {
	if h.Past != nil && recorded.Has(metric) && (!measuredHere[metric] || from.Before(time.Now().Add(-historyKept))) {
		return h.selectPast(ctx, app, metric, from, to)
	}
	if err := h.watch(ctx, app); err != nil {
		return nil, err
	}
	about := h.access.About(ctx, app)
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []promql.Series
	for _, t := range h.of[app] {
		values, ok := t.values[metric]
		if !ok {
			continue
		}
		s := promql.Series{Labels: gaugeTags(&t.last, about)}
		for i, at := range t.times {
			if i < len(values) && !at.Before(from) && !at.After(to) {
				s.Samples = append(s.Samples, promql.Sample{Time: at, Value: values[i]})
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// measuredHere are the metrics that are both measured here and recorded. Measurements are more recent, and
// have the instance's GUID; recorded points go back further.
var measuredHere = map[string]bool{"cpu": true, "cpu_entitlement": true, "memory": true, "disk": true, "log_rate": true}

// selectPast returns recorded samples, with the tags of their app.
func (h *History) selectPast(ctx context.Context, app, metric string, from, to time.Time) ([]promql.Series, error) {
	all, err := h.Past.Select(ctx, app, metric, from, to)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	about := h.access.About(ctx, app)
	for i, one := range all {
		tags := gaugeTags(&Gauge{App: app, Process: strings.ToUpper(one.Labels["process_type"])}, about)
		delete(tags, "instance_id")
		maps.Copy(tags, one.Labels)
		all[i].Labels = tags
	}
	return all, nil
}

// gaugeTags returns the tags of a gauge.
func gaugeTags(g *Gauge, about *About) map[string]string {
	e := platform.LogLine{App: g.App, Source: "APP/PROC/" + g.Process, Instance: strconv.Itoa(g.Index), Stream: g.Instance}
	tags := Tags(&e, about)
	if g.ProcessGUID != "" {
		tags["process_id"] = g.ProcessGUID // during a deployment there are two of a type
	}
	delete(tags, "source_type") // for log lines only
	return tags
}
