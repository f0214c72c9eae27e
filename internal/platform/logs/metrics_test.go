package logs_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

// metrics returns the values of the store's metrics.
func metrics(t *testing.T, s logs.Store) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // also compares Describe with Collect
	registry.MustRegister(logs.Metrics{Store: s})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return got
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s, err := logfiles.Open(t.TempDir(), logfiles.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	check := func(apps, lost float64) {
		t.Helper()
		got := metrics(t, s)
		want := map[string]float64{
			"ingot_log_lines_lost_total": lost, "ingot_log_store_bytes": float64(s.Totals().Bytes), "ingot_log_store_apps": apps,
			"ingot_log_tails": 0, "ingot_log_streams": 0, "ingot_log_stream_lines_dropped_total": 0,
		}
		if !maps.Equal(got, want) {
			t.Errorf("metrics are %v, want %v", got, want)
		}
	}
	check(0, 0)
	logstest.Add(t, s, logstest.Line("a", "s1", 1, logstest.T0, "one"), logstest.Line("b", "s2", 1, logstest.T0, "two"))
	check(2, 0)
	gap := logstest.Line("a", "s1", 2, logstest.T0, "3 lines were lost")
	gap.Lost = 3
	logstest.Add(t, s, gap)
	check(2, 3)
	if err := s.DeleteApp("b"); err != nil {
		t.Fatal(err)
	}
	check(1, 3)
}
