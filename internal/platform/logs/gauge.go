package logs

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Gauge is the resource usage of an instance at a point in time.
type Gauge struct {
	App     string
	Process string // process type, in upper case
	// ProcessGUID is the process; empty means the newest of its type.
	ProcessGUID string
	Instance    string // guid
	Index       int
	Time        time.Time
	Metrics     map[string]Metric
}

// Metric is one value of a gauge.
type Metric struct {
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

const (
	// gaugeEvery is the interval of measurements for readers, as in Cloud Foundry.
	gaugeEvery = 15 * time.Second
	// maxMeasured limits the apps whose last measurement is cached.
	maxMeasured = 1000
)

// measured caches gauges, so that frequent readers cause few measurements, and see each
// once.
type measured struct {
	access Access
	mu     sync.Mutex
	last   map[string]measurement // by app
}

type measurement struct {
	at     time.Time
	gauges []Gauge
}

// of returns the gauges of an app, not older than gaugeEvery, for a read that ends at until; 0
// means now. Clients that read everything until now set the time of their request, before
// which a new measurement counts as made.
func (m *measured) of(ctx context.Context, app string, until int64) ([]Gauge, error) {
	now := time.Now()
	m.mu.Lock()
	last, ok := m.last[app]
	m.mu.Unlock()
	if ok && now.Sub(last.at) < gaugeEvery {
		return last.gauges, nil
	}
	gauges, err := m.access.Gauges(ctx, []string{app})
	if err != nil {
		return nil, err
	}
	for i := range gauges {
		if late := gauges[i].Time.UnixNano() - until; until > 0 && late >= 0 && late < int64(gaugeEvery) {
			gauges[i].Time = time.Unix(0, until-1)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil || len(m.last) >= maxMeasured {
		m.last = map[string]measurement{}
	}
	m.last[app] = measurement{now, gauges}
	return gauges, nil
}

// appendGauge appends the envelope of a gauge.
func appendGauge(b []byte, g *Gauge, about *About) []byte {
	b = append(b, `{"timestamp":"`...)
	b = strconv.AppendInt(b, g.Time.UnixNano(), 10)
	b = append(b, `","source_id":`...)
	b = appendJSON(b, g.App)
	b = append(b, `,"instance_id":`...)
	b = appendJSON(b, strconv.Itoa(g.Index))
	b = append(b, `,"deprecated_tags":{},"tags":`...)
	b = appendJSON(b, gaugeTags(g, about))
	b = append(b, `,"gauge":{"metrics":`...)
	b = appendJSON(b, g.Metrics)
	return append(b, "}}"...)
}

// gaugesFor returns the gauges of an app for a read: the latest ones, if they are in its
// time range.
func (a *api) gaugesFor(ctx context.Context, app string, q ReadQuery) ([]Gauge, error) {
	if len(q.Types) > 0 && !slices.Contains(q.Types, TypeGauge) && !slices.Contains(q.Types, TypeAny) {
		return nil, nil
	}
	all, err := a.measured.of(ctx, app, q.End)
	return slices.DeleteFunc(slices.Clone(all), func(g Gauge) bool {
		at := g.Time.UnixNano()
		return at < q.Start || q.End != 0 && at >= q.End
	}), err
}
