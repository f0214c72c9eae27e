package actions

import (
	"testing"

	"ingot/internal/platform"
)

// TestMinHealthy prefers the time of the app's manifest.
func TestMinHealthy(t *testing.T) {
	t.Parallel()
	none, ten := 0, 10
	for _, test := range []struct {
		set  *int
		want int64
	}{{nil, 250}, {&none, 0}, {&ten, 10_000}} {
		if got := *minHealthy(&platform.Process{MinHealthy: test.set}); got != test.want {
			t.Errorf("a new instance has to be ready for %d ms, want %d", got, test.want)
		}
	}
}
