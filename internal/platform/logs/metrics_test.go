package logs_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform/logs"
)

// metric returns the value of a metric of the store.
func metric(t *testing.T, s logs.Store, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(logs.Metrics{Store: s}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
