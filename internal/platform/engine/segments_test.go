package engine_test

import (
	"context"
	"errors"
	"testing"

	"ingot/internal/platform/engine"
)

type starts struct {
	engine.Engine
	n int
}

func (s *starts) Start(context.Context, engine.Spec) error { s.n++; return nil }
func (s *starts) Describe() engine.Description             { return engine.Description{} }

func (s *starts) Fetch(context.Context, engine.Image, int64) (engine.Fetched, error) {
	return engine.Fetched{Size: 7}, nil
}

// TestInSegments: a machine runs the shared segment and those it serves, and refuses
// others as Diego does.
func TestInSegments(t *testing.T) {
	t.Parallel()
	under := &starts{}
	e := engine.InSegments(under, []string{"gpu"})
	for segment, want := range map[string]string{"": "", "gpu": "",
		"batch": `found no compatible cell with placement tag "batch"`} {
		err := e.Start(t.Context(), engine.Spec{ID: "a", Segment: segment})
		var refused *engine.PlacementError
		switch {
		case want == "" && err != nil:
			t.Errorf("segment %q: got %v, want no error", segment, err)
		case want != "" && (!errors.As(err, &refused) || refused.Reason != want):
			t.Errorf("segment %q: got %v, want %q", segment, err, want)
		}
	}
	if under.n != 2 {
		t.Errorf("got %d starts, want 2", under.n)
	}
	// Images are prepared through it, too.
	if got, err := engine.Fetch(t.Context(), e, engine.Image{}, 0); got.Size != 7 || err != nil {
		t.Errorf("got an image of %d bytes and %v, want 7 and no error", got.Size, err)
	}
}
