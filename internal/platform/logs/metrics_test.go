package logs_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform/logs"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logs.Options{})
	registry := prometheus.NewPedanticRegistry() // also compares Describe with Collect
	registry.MustRegister(s)
	check := func(apps, lost float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		want := map[string]float64{
			"ingot_log_lines_lost_total": lost, "ingot_log_store_bytes": float64(diskUse(t, dir)), "ingot_log_store_apps": apps,
			"ingot_log_tails": 0, "ingot_log_streams": 0, "ingot_log_stream_lines_dropped_total": 0,
		}
		if !maps.Equal(got, want) {
			t.Errorf("metrics are %v, want %v", got, want)
		}
	}
	check(0, 0)
	add(t, s, line("a", "s1", 1, t0, "one"), line("b", "s2", 1, t0, "two"))
	check(2, 0)
	gap := line("a", "s1", 2, t0, "3 lines were lost")
	gap.Lost = 3
	add(t, s, gap)
	check(2, 3)
	if err := s.DeleteApp("b"); err != nil {
		t.Fatal(err)
	}
	check(1, 3)
}
