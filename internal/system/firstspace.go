package system

import (
	"context"

	"ingot/internal/platform"
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
		var found FirstSpace
		oldest := platform.Query{Page: 1, PerPage: 1}
		spaces, _, err := tx.Spaces().List(oldest)
		if err != nil {
			return err
		}
		orgs, _, err := tx.Organizations().List(oldest)
		if err != nil {
			return err
		}
		if len(orgs) > 0 {
			found.Org = orgs[0].Name
		}
		if len(spaces) > 0 {
			org, err := tx.Organizations().Get(spaces[0].OrgGUID)
			if err != nil {
				return err
			}
			found = FirstSpace{org.Name, spaces[0].Name}
		}
		s.first.Store(&found)
		return nil
	})
}
