package engine

import (
	"context"
	"slices"
	"strconv"
)

// InSegments returns an engine that starts only instances without an isolation segment,
// and those of served segments. Others are refused as Diego refuses them: there is no
// machine for them.
func InSegments(e Engine, served []string) Engine { return segmented{e, served} }

type segmented struct {
	Engine
	served []string
}

func (s segmented) Start(ctx context.Context, spec Spec) error {
	if spec.Segment != "" && !slices.Contains(s.served, spec.Segment) {
		return NoSegment(spec.Segment)
	}
	return s.Engine.Start(ctx, spec)
}

// Fetch implements Fetcher if the engine does.
func (s segmented) Fetch(ctx context.Context, i Image, limit int64) (Fetched, error) {
	return Fetch(ctx, s.Engine, i, limit)
}

// NoSegment is the error for an isolation segment without machines, in Diego's words.
func NoSegment(name string) *PlacementError {
	return &PlacementError{Reason: "found no compatible cell with placement tag " + strconv.Quote(name)}
}
