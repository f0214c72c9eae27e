package system

import (
	"slices"
	"testing"

	"ingot/internal/platform/run/recorder"
)

// TestRecordedFigures: every metric of the history of the platform exists in a server.
func TestRecordedFigures(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	var r *runtime
	c.seams.runtime = func(made *runtime) { r = made }
	startSystem(t, c)
	var got []recorder.Figure
	for _, f := range r.recorder.Platform() {
		f.Value = 0
		got = append(got, f)
	}
	for name, want := range recordedFigures {
		if !slices.Contains(got, want) {
			t.Errorf("no metric %q; there are %v", name, got)
		}
	}
}
