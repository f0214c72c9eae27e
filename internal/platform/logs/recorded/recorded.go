package recorded

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"ingot/internal/platform/logs/promql"
	"ingot/internal/platform/series"
)

// Reader reads the points of an app.
type Reader interface {
	History(ctx context.Context, app string, in series.Range, now time.Time) (*series.History, error)
}

// Source is a source of samples. It has the labels process_type, instance_id, status and quantile; callers add
// those of the app.
type Source struct {
	Reader Reader
}

// maxGap is the longest time between two samples. Points that take longer are repeated, since the value of an
// instant vector may be five minutes old, and a rate over five minutes needs two samples.
const maxGap = 150

// metric says how samples of a metric are made of points.
type metric struct {
	fields []field
	// each means a series for every instance, otherwise for every process.
	each bool
	// total means a counter: samples are sums since the begin of the time that is read.
	total bool
	// value turns the value of a field into that of a sample; nil keeps it. step is the time of a point.
	value func(v, step float64) float64
}

// field is a figure of points, with the label that its series has.
type field struct {
	of          series.Field
	label, text string
}

// metrics has the names of Cloud Foundry for what instances use. Requests, latencies and crashes, which are no
// metrics there, are named in the way of Prometheus.
var metrics = map[string]metric{
	"cpu":             {fields: []field{{of: series.CPU}}, each: true, value: percent},
	"cpu_entitlement": {fields: []field{{of: series.CPU}}, each: true, value: percent},
	"memory":          {fields: []field{{of: series.Memory}}, each: true},
	"disk":            {fields: []field{{of: series.Disk}}, each: true},
	"log_rate":        {fields: []field{{of: series.LogBytes}}, each: true, value: perSecond},
	"instances":       {fields: []field{{of: series.Instances}}},
	"crashes_total":   {fields: []field{{of: series.Crashes}}, total: true},
	"log_bytes_total": {fields: []field{{of: series.LogBytes}}, total: true},
	"http_requests_total": {total: true, fields: []field{
		{series.Status2xx, "status", "2xx"}, {series.Status3xx, "status", "3xx"}, {series.Status4xx, "status", "4xx"},
		{series.Status5xx, "status", "5xx"}, {series.StatusOther, "status", "other"},
	}},
	"http_duration_seconds": {fields: []field{
		{series.P50, "quantile", "0.5"}, {series.P95, "quantile", "0.95"}, {series.P99, "quantile", "0.99"},
	}},
}

func percent(v, _ float64) float64      { return 100 * v }
func perSecond(v, step float64) float64 { return v / step }

// Has reports whether the history has a metric.
func Has(name string) bool {
	_, ok := metrics[name]
	return ok
}

// Select implements promql.Source.
func (s *Source) Select(ctx context.Context, app, name string, from, to time.Time) ([]promql.Series, error) {
	m, ok := metrics[name]
	now := time.Now()
	if to.After(now) {
		to = now
	}
	if !ok || !from.Before(to) {
		return nil, nil
	}
	var all []*series.History
	scopes := map[string]bool{}
	for _, part := range spans(from.Unix(), to.Unix(), now.Unix()) {
		history, err := s.Reader.History(ctx, app, part.in, time.Unix(part.to, 0))
		if err != nil {
			return nil, err
		}
		for _, scope := range history.Scopes {
			scopes[scope] = true
		}
		all = append(all, history)
	}
	var out []promql.Series
	for _, scope := range m.scopes(slices.Sorted(maps.Keys(scopes))) {
		var points []series.Points
		for _, one := range all {
			points = append(points, one.Points(scope))
		}
		for _, f := range m.fields {
			one := promql.Series{Labels: labelsOf(scope), Samples: m.samples(points, f.of)}
			if f.label != "" {
				one.Labels[f.label] = f.text
			}
			if len(one.Samples) > 0 {
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// span is a time to read in one resolution.
type span struct {
	in series.Range
	to int64
}

// spans returns what to read: the finest points that are still there for all of the time, with the point that has
// the last second, and finer ones for what no complete point has yet.
func spans(from, to, now int64) (out []span) {
	r := series.Quarters
	for _, one := range series.Resolutions() {
		if now-from <= one.Keep {
			r = one
			break
		}
	}
	from, end := max(from, now-r.Keep)/r.Step*r.Step, (to+r.Step)/r.Step*r.Step
	complete := min(end, now/r.Step*r.Step)
	if from < complete {
		out = append(out, span{series.Range{Length: complete - from, Step: r.Step}, complete})
	}
	if rest := min(to, now); r.Step > maxGap && rest > complete {
		finer := series.Minutes.Step
		if n := (rest - complete) / finer; n > 0 {
			out = append(out, span{series.Range{Length: n * finer, Step: finer}, complete + n*finer})
		}
	}
	return out
}

// scopes returns those of the scopes that a metric has series of. Without any, the app has one.
func (m *metric) scopes(all []string) (out []string) {
	for _, scope := range all {
		process, index := series.Split(scope)
		if process != "" && m.each == (index >= 0) {
			out = append(out, scope)
		}
	}
	if len(out) == 0 {
		out = []string{""}
	}
	return out
}

func labelsOf(scope string) map[string]string {
	labels := map[string]string{}
	process, index := series.Split(scope)
	if process != "" {
		labels["process_type"] = process
	}
	if index >= 0 {
		labels["instance_id"] = strconv.Itoa(index)
	}
	return labels
}

// samples returns the samples of a field, each at the end of its point. Where nothing was measured there is none.
func (m *metric) samples(all []series.Points, f series.Field) (out []promql.Sample) {
	sum := 0.0
	for _, points := range all {
		for i := range points.All {
			if p := &points.All[i]; p.Has(f) {
				out = m.of(out, points.At(i), points.Step, p[f], &sum)
			}
		}
	}
	return out
}

// of adds the samples of a point with a value.
func (m *metric) of(out []promql.Sample, at, step int64, v float64, sum *float64) []promql.Sample {
	if m.value != nil {
		v = m.value(v, float64(step))
	}
	if m.total && len(out) == 0 {
		out = append(out, promql.Sample{Time: time.Unix(at, 0)}) // where counting begins
	}
	parts := max(1, step/maxGap)
	for part := int64(1); part <= parts; part++ {
		value := v
		if m.total {
			value = *sum + v*float64(part)/float64(parts)
		}
		out = append(out, promql.Sample{Time: time.Unix(at+step*part/parts, 0), Value: value})
	}
	*sum += v
	return out
}
