package apps

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/digits"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// historyColumns is how many characters a curve has.
const historyColumns = 48

// historyResult is what an app did over time.
type historyResult struct {
	Name string `json:"name"`
	cfapi.Series
}

// blocks are the heights of a curve.
var blocks = []rune("▁▂▃▄▅▆▇█")

func (h *historyResult) Show(p *term.Printer) {
	p.Println("")
	p.Pairs([2]string{"name", p.Bold(h.Name)},
		[2]string{"from", core.Date(h.Start)}, [2]string{"to", core.Date(h.End)})
	p.Println("")
	size := func(v float64) string { return term.Size(int64(v)) }
	t := term.Table{Heading: []string{"", "now", "average", "most", "curve"}}
	for _, row := range []struct {
		name, key string
		say       func(float64) string
		most      float64 // of the scale; 0 means the largest value
	}{
		{"requests", "requests", perSecond, 0}, {"5xx", "requests_5xx", perSecond, 0},
		{"p50", "latency_p50", digits.Milliseconds, 0}, {"p95", "latency_p95", digits.Milliseconds, 0},
		{"p99", "latency_p99", digits.Milliseconds, 0},
		{"cpu", "cpu", percent, 0}, {"memory", "memory", size, float64(h.Limits.Memory)},
		{"disk", "disk", size, float64(h.Limits.Disk)}, {"crashes", "crashes", plainNumber, 0},
		{"log rate", "log_rate", func(v float64) string { return size(v) + "/s" }, 0},
		{"instances", "instances", plainNumber, float64(h.Limits.Instances)},
	} {
		cells := []term.Cell{{Text: row.name, Paint: p.Bold}}
		for _, text := range describeSeries(h.Values[row.key], row.say, row.most) {
			cells = append(cells, term.Cell{Text: text})
		}
		t.Rows = append(t.Rows, cells)
	}
	p.Table(t)
	if len(h.Markers) == 0 {
		return
	}
	p.Println("")
	events := term.Table{Heading: []string{"time", "event"}}
	for _, m := range h.Markers {
		events.Rows = append(events.Rows, []term.Cell{{Text: core.Date(m.Time)}, {Text: m.Text}})
	}
	p.Table(events)
}

func perSecond(v float64) string   { return plainNumber(v) + "/s" }
func plainNumber(v float64) string { return digits.Short(v, 4) }

// describeSeries returns the last value, the average, the largest one and a curve.
func describeSeries(values []*float64, say func(float64) string, most float64) []string {
	var last, peak *float64
	sum, n := 0.0, 0
	for _, v := range values {
		if v == nil {
			continue
		}
		last, sum, n = v, sum+*v, n+1
		if peak == nil || *v > *peak {
			peak = v
		}
	}
	if n == 0 {
		return []string{"-", "-", "-", ""}
	}
	return []string{say(*last), say(sum / float64(n)), say(*peak), curve(values, max(most, *peak))}
}

// curve draws averages of values from 0 to most; a gap is a space.
func curve(values []*float64, most float64) string {
	var b strings.Builder
	columns := min(historyColumns, len(values))
	for i := range columns {
		sum, n := 0.0, 0
		for _, v := range values[i*len(values)/columns : (i+1)*len(values)/columns] {
			if v != nil {
				sum, n = sum+*v, n+1
			}
		}
		switch {
		case n == 0:
			b.WriteByte(' ')
		case most <= 0:
			b.WriteRune(blocks[0])
		default:
			height := int(sum / float64(n) / most * float64(len(blocks)))
			b.WriteRune(blocks[min(max(0, height), len(blocks)-1)])
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// ranges are those of the history; the first is meant by --history alone.
var ranges = []string{"1h", "24h", "7d", "30d"}

// nameAndRange returns the name of the app, and the range of its history if it is to be shown. The parser takes a
// range as the flag's value only after "=", because --history also stands alone: after a space it is an argument,
// before or after the name.
func (f *appFlags) nameAndRange(name, word string) (app, span string, err error) {
	switch {
	case word == "":
		return name, f.History, nil
	case f.History == "":
		return "", "", core.UsageError(fmt.Sprintf("unexpected argument %q", word))
	case f.History != ranges[0]:
		return "", "", core.UsageError(fmt.Sprintf("unexpected argument %q: the range is %s", word, f.History))
	case slices.Contains(ranges, name) && !slices.Contains(ranges, word):
		name, word = word, name
	}
	if !slices.Contains(ranges, word) {
		return "", "", core.UsageError(fmt.Sprintf("%q is not a range of the history. Valid ranges: %s", word,
			strings.Join(ranges, ", ")))
	}
	return name, word, nil
}

// showHistory shows what an app did in a range of time.
func showHistory(ctx context.Context, s *core.Session, app cfapi.App, in string) (core.Result, error) {
	found := &historyResult{Name: app.Name}
	err := s.API.Get(ctx, "/v3/ingot/apps/"+app.GUID+"/series", url.Values{"range": {in}}, &found.Series)
	if err != nil {
		return nil, err
	}
	return found, nil
}
