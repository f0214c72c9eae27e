package recorded_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/logs/promql"
	"ingot/internal/platform/logs/recorded"
	"ingot/internal/platform/series"
)

// busy is an app with one instance of web that has been busy in the same way for 30 days: 5 requests a second, two
// of them errors, a tenth of a processor and 10 MB.
type busy struct{ scopes []string }

func (b busy) History(_ context.Context, _ string, in series.Range, now time.Time) (*series.History, error) {
	from, to := in.Window(now.Unix())
	var blocks []series.Stored
	for _, r := range series.Resolutions() {
		if r.Step != in.Step {
			continue
		}
		p := series.None()
		p[series.Status2xx], p[series.Status5xx], p[series.P95] = 3*float64(r.Step), 2*float64(r.Step), 0.025
		p[series.CPU], p[series.Memory], p[series.LogBytes] = 0.1, 10<<20, 100*float64(r.Step)
		p[series.Crashes], p[series.Instances] = 0, 1
		for start := r.Block(from); start < to; start += r.Span() {
			one := series.NewBlock(r, start)
			for _, scope := range b.scopes {
				for i := range r.Points {
					one.Add(scope, start+int64(i)*r.Step, &p)
				}
			}
			blocks = append(blocks, series.Stored{Resolution: r.ID, Start: start, Data: one.Encode()})
		}
	}
	return series.Merge(blocks, from, to, in.Step), nil
}

func query(t *testing.T, text string, s promql.Source, at time.Time) []promql.Series {
	t.Helper()
	q, err := promql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := q.Instant(t.Context(), s, at)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

// TestMetrics: every metric has the same value an hour, two days and three weeks ago, where points have
// different lengths.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := &recorded.Source{Reader: busy{[]string{"", "web", "web/0"}}}
	for _, ago := range []time.Duration{0, time.Minute, 20 * time.Hour, 21 * 24 * time.Hour} {
		at := time.Now().Add(-ago)
		for text, want := range map[string]float64{
			`cpu{source_id="a",process_type="web",instance_id="0"}`:     10,
			`memory{source_id="a"}`:                                     10 << 20,
			`log_rate{source_id="a"}`:                                   100,
			`instances{source_id="a",process_type="web"}`:               1,
			`sum(rate(http_requests_total{source_id="a"}[5m]))`:         5,
			`rate(http_requests_total{source_id="a",status="5xx"}[5m])`: 2,
			`http_duration_seconds{source_id="a",quantile="0.95"}`:      0.025,
			`increase(log_bytes_total{source_id="a"}[30m])`:             180000,
			`increase(crashes_total{source_id="a"}[1h])`:                0,
			`avg_over_time(cpu{source_id="a"}[2h])`:                     10,
		} {
			got := query(t, text, s, at)
			if len(got) != 1 || math.Abs(got[0].Samples[0].Value-want) > want/50 {
				t.Errorf("%s, %v ago: %v, want %v", text, ago, got, want)
			}
		}
	}
	if got := query(t, `memory_quota{source_id="a"}`, s, time.Now()); len(got) > 0 {
		t.Errorf("a metric that is not recorded has %v", got)
	}
}

// TestWithoutInstances: an app whose blocks were too large for its instances and processes still has its sums.
func TestWithoutInstances(t *testing.T) {
	t.Parallel()
	s := &recorded.Source{Reader: busy{[]string{""}}}
	got := query(t, `http_requests_total{source_id="a",status="2xx"}`, s, time.Now())
	if len(got) != 1 || got[0].Labels["process_type"] != "" {
		t.Errorf("got %v, want one series without a process", got)
	}
}

// TestTooMuch: a query over 30 days in steps of five minutes ends; one that reads all of it at each step is refused.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	scopes := []string{"", "web"}
	for i := range 32 {
		scopes = append(scopes, series.Scope("web", i))
	}
	s, to := &recorded.Source{Reader: busy{scopes}}, time.Now()
	from := to.Add(-30 * 24 * time.Hour)
	run := func(text string) ([]promql.Series, error) {
		q, err := promql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return q.Range(t.Context(), s, from, to, 5*time.Minute)
	}
	got, err := run(`sum(rate(http_requests_total{source_id="a"}[30m]))`)
	if err != nil || len(got) != 1 || len(got[0].Samples) < 8600 {
		t.Fatalf("%d series, %v; want one of 8,640 samples", len(got), err)
	}
	for _, one := range got[0].Samples[10:] {
		if math.Abs(one.Value-5) > 0.1 {
			t.Fatalf("at %v: %v requests a second, want 5", one.Time, one.Value)
		}
	}
	if _, err := run(`max_over_time(cpu{source_id="a"}[30d])`); err == nil || !strings.Contains(err.Error(), "samples") {
		t.Errorf("a query of 32 × 8,640 × 17,280 samples: %v, want a refusal", err)
	}
}

func ExampleHas() {
	names := []string{"cpu", "http_requests_total", "memory_quota"}
	fmt.Println(slices.DeleteFunc(names, func(name string) bool { return !recorded.Has(name) }))
	// Output: [cpu http_requests_total]
}
