package system

import (
	"context"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// FirstSpace names the oldest space and its organization. Without a space it names the
// oldest organization only, and nothing without that.
type FirstSpace struct{ Org, Space string }

// FirstSpace returns where the first apps of a server can be pushed to. After a restore it
// is one of the restored ones.
func (s *System) FirstSpace() FirstSpace {
	if f := s.first.Load(); f != nil {
		return *f
	}
	return FirstSpace{}
}

// findFirstSpace remembers what FirstSpace returns.
func (s *System) findFirstSpace(ctx context.Context, r *runtime) error {
	return r.store.View(ctx, func(tx platform.Tx) error {
		org, space, err := actions.FirstSpace(tx)
		s.first.Store(&FirstSpace{org, space})
		return err
	})
}
