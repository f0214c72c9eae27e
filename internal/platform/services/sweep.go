package services

import (
	"context"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// sweepRotations looks for rotations that wait although they could go on, until ctx is done.
// Whatever stops an instance wakes them in the same transaction; this is for servers of earlier
// versions that share the store, which do not.
func (s *Services) sweepRotations(ctx context.Context) {
	for range background.Ticks(ctx, s.Sweep, nil) {
		err := background.Do("sweep of rotations", func() error { return s.sweepOnce(ctx) })
		if err != nil && ctx.Err() == nil {
			s.Log.Error("rotations of credentials could not be read", "error", err)
		}
	}
}

// sweepOnce wakes the rotations that could go on. It writes only if there are some.
func (s *Services) sweepOnce(ctx context.Context) error {
	q := platform.Where("state", platform.RotationApplying)
	q.Order, q.PerPage = "created_at", duePage
	for q.Page = 1; ; q.Page++ {
		var rows []*platform.CredentialRotation
		var ready []string
		err := s.Store.View(ctx, func(tx platform.Tx) (err error) {
			if rows, _, err = tx.CredentialRotations().List(q); err != nil {
				return err
			}
			ready, err = goOn(tx, rows)
			return err
		})
		if err == nil && len(ready) > 0 {
			err = s.Store.Update(ctx, func(tx platform.Tx) error {
				for _, guid := range ready {
					if err := actions.WakeRotation(tx, guid); err != nil {
						return err
					}
				}
				return nil
			})
			s.Kick()
		}
		if err != nil || len(rows) < duePage {
			return err
		}
	}
}

// goOn returns those of the rotations that a step would change.
func goOn(tx platform.Tx, rows []*platform.CredentialRotation) (guids []string, err error) {
	users := map[string][]string{} // by app, which may have many rotations
	for _, row := range rows {
		now, known := users[row.AppGUID]
		if !known {
			if now, err = usersOf(tx, row.AppGUID); err != nil {
				return nil, err
			}
			users[row.AppGUID] = now
		}
		left := len(awaited(row, now))
		ready := row.Forced || left == 0 || left != len(row.Waits)
		if !ready && row.AwaitsDeployment() {
			active, err := actions.ActiveDeployment(tx, row.AppGUID)
			if err != nil {
				return nil, err
			}
			ready = active == nil
		}
		if ready {
			guids = append(guids, row.GUID)
		}
	}
	return guids, nil
}
