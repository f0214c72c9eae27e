package promql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/logs/promql"
)

var t0 = time.Unix(1_700_000_000, 0)

// store has two series of cpu, one of memory and one of a counter that was reset, with a
// sample every 15 s.
type store struct{}

func (store) Select(_ context.Context, source, metric string, from, to time.Time) ([]promql.Series, error) {
	series := func(index string, f func(i int) float64) promql.Series {
		s := promql.Series{Labels: map[string]string{"source_id": source, "instance_id": index}}
		for i := range 41 {
			if at := t0.Add(time.Duration(i) * 15 * time.Second); !at.Before(from) && !at.After(to) {
				s.Samples = append(s.Samples, promql.Sample{Time: at, Value: f(i)})
			}
		}
		return s
	}
	switch metric {
	case "cpu":
		return []promql.Series{series("0", func(i int) float64 { return float64(i) }),
			series("1", func(int) float64 { return 10 })}, nil
	case "memory":
		return []promql.Series{series("0", func(int) float64 { return 100 })}, nil
	case "total":
		return []promql.Series{series("0", func(i int) float64 { return float64(i % 21 * 30) })}, nil
	}
	return nil, nil
}

func shown(all []promql.Series) string {
	var out []string
	for _, s := range all {
		text := s.Labels["instance_id"] + "="
		for i, v := range s.Samples {
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf("%.4g", v.Value)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestInstant(t *testing.T) {
	t.Parallel()
	at := t0.Add(10 * time.Minute) // sample 40
	const x = `{source_id="x"}`
	for query, want := range map[string]string{
		"cpu" + x:                                      "0=40 1=10",
		`{__name__="cpu",source_id="x"}`:               "0=40 1=10",
		`cpu{source_id='x',instance_id="1"}`:           "1=10",
		`cpu{source_id="x",instance_id!="1"}`:          "0=40",
		`cpu{source_id="x",instance_id=~"1|2"}`:        "1=10",
		`cpu{source_id="x",instance_id!~"[1-9]"}`:      "0=40",
		"cpu" + x + " offset 5m":                       "0=20 1=10",
		"avg_over_time(cpu" + x + "[1m])":              "0=38.5 1=10",
		"max_over_time(cpu" + x + "[1m])":              "0=40 1=10",
		"min_over_time(cpu" + x + "[1m])":              "0=37 1=10",
		"sum_over_time(cpu" + x + "[30s] offset 5m)":   "0=39 1=20",
		"count_over_time(cpu" + x + "[1m])":            "0=4 1=4",
		"last_over_time(cpu" + x + "[1m])":             "0=40 1=10",
		"rate(total" + x + "[1m])":                     "0=2",
		"increase(total" + x + "[1m])":                 "0=120",
		"irate(total" + x + "[1m])":                    "0=2",
		"delta(cpu" + x + "[1m])":                      "0=4 1=0",
		"sum(cpu" + x + ")":                            "=50",
		"avg(cpu" + x + ")":                            "=25",
		"min(cpu" + x + ")":                            "=10",
		"max(cpu" + x + ") by (source_id)":             "=40",
		"count by (instance_id) (cpu" + x + ")":        "0=1 1=1",
		"sum without (source_id) (cpu" + x + ")":       "0=40 1=10",
		"cpu" + x + " * 2 + 1":                         "0=81 1=21",
		"2 ^ 3 ^ 2 + 0 * cpu" + x:                      "0=512 1=512",
		"-cpu" + x:                                     "0=-40 1=-10",
		"100 - (cpu" + x + " / memory" + x + ") * 100": "0=60",
		"cpu" + x + " > 20":                            "0=40",
		"cpu" + x + " > bool 20":                       "0=1 1=0",
		"20 < cpu" + x:                                 "0=40",
		"abs(-cpu" + x + ") % 7":                       "0=5 1=3",
		"nothing" + x:                                  "",
		"cpu" + x + " + nothing" + x:                   "",
	} {
		q, err := promql.Parse(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		got, _, err := q.Instant(t.Context(), store{}, at)
		if err != nil || shown(got) != want {
			t.Errorf("%s = %s, %v, want %s", query, shown(got), err, want)
		}
		if s := q.Sources(); len(s) != 1 || s[0] != "x" {
			t.Errorf("%s reads %v", query, s)
		}
	}
	q, err := promql.Parse("cpu" + x)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := q.Instant(t.Context(), store{}, at.Add(6*time.Minute)); len(got) != 0 {
		t.Errorf("a value of 6 minutes ago is shown: %v", got)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	q, err := promql.Parse(`sum(cpu{source_id="x"})`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := q.Range(t.Context(), store{}, t0, t0.Add(time.Minute), 30*time.Second)
	if err != nil || shown(got) != "=10,12,14" {
		t.Errorf("got %s, %v", shown(got), err)
	}
	for _, bad := range []struct {
		to   time.Duration
		step time.Duration
	}{{-time.Minute, time.Second}, {time.Minute, 0}, {24 * time.Hour, time.Second}} {
		if _, err := q.Range(t.Context(), store{}, t0, t0.Add(bad.to), bad.step); err == nil {
			t.Errorf("a range of %s with steps of %s is accepted", bad.to, bad.step)
		}
	}
	for text, want := range map[string]time.Duration{"15": 15 * time.Second, "0.5": 500 * time.Millisecond,
		"1m30s": 90 * time.Second, "100ms": 100 * time.Millisecond} {
		if got, err := promql.ParseStep(text); err != nil || got != want {
			t.Errorf("ParseStep(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "0", "-1", "1x", "5m x"} {
		if got, err := promql.ParseStep(bad); err == nil {
			t.Errorf("ParseStep(%q) = %s", bad, got)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                            "unexpected",
		"1 + 2":                       "does not request any source_ids",
		"cpu":                         "Metric 'cpu' does not have a 'source_id' label.",
		`cpu{source_id=~"x"}`:         "does not have a 'source_id' label",
		`cpu{source_id="x"}[5m]`:      "range vector",
		`rate(cpu{source_id="x"})`:    "expected type range vector",
		`sum(cpu{source_id="x"}[5m])`: "expected type instant vector",
		`abs(cpu{source_id="x"}[5m])`: "expected type instant vector",
		`foo(cpu{source_id="x"})`:     `unknown function with name "foo"`,
		`cpu{source_id="x"`:           "unexpected",
		`cpu{source_id="x"} cpu`:      "unexpected",
		`cpu{source_id="x}`:           "unterminated",
		`cpu{source_id="x",a=~"("}`:   "parse error",
		`cpu{source_id="x"}[5x]`:      "bad duration",
		`cpu{source_id="x"} § 1`:      "unexpected character",
		`{source_id="x"}`:             "name of a metric",
		strings.Repeat("(", 100) + `cpu{source_id="x"}` + strings.Repeat(")", 100): "nested too deeply",
		strings.Repeat("-", 100) + `cpu{source_id="x"}`:                            "nested too deeply",
		strings.Repeat(" ", 5000):                                                  "longer than",
	} {
		if _, err := promql.Parse(query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", query, err, want)
		}
	}
	q, err := promql.Parse(`cpu{source_id="x"} + (1 > 2)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Instant(t.Context(), store{}, t0); err == nil || !strings.Contains(err.Error(), "BOOL") {
		t.Errorf("a comparison of scalars: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`sum by (a) (rate(cpu{source_id="x",b=~"c.*"}[5m] offset 1h)) / 2 > bool -1e3`)
	f.Add("{`")
	f.Fuzz(func(t *testing.T, text string) {
		if q, err := promql.Parse(text); err == nil {
			_, _, _ = q.Instant(t.Context(), store{}, t0)
		}
	})
}
