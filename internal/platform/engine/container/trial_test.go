//go:build linux

package container

import (
	"context"
	"errors"
	"log/slog"
	"testing"
)

// LeaveTrial removes a trial container as Open does.
func LeaveTrial(e *Engine, id string) { e.leaveTrial(context.Background(), id) }

// TestRemovalPanics: an engine whose trial container may still exist starts nothing, whatever ended its removal.
func TestRemovalPanics(t *testing.T) {
	t.Parallel()
	// The removal panics because the engine was not opened.
	e := &Engine{log: slog.New(slog.DiscardHandler), instances: map[string]*instance{"trial-x": nil}}
	e.leaveTrial(t.Context(), "trial-x")
	<-e.trying
	if !errors.Is(e.held, errUntried) || e.leftTrial != "trial-x" {
		t.Errorf("the engine is held for %v and has left %q, want it held for %v", e.held, e.leftTrial, errUntried)
	}
}
