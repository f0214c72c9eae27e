package services

import (
	"context"
	"errors"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// revokeStep performs one step of the job that follows new credentials: it tells the app,
// waits until nothing uses the old credentials, waits for the grace period, and unbinds them.
func (s *Services) revokeStep(ctx context.Context, job *platform.Job, w *work) error {
	switch w.Phase {
	case "":
		return s.applyStep(ctx, job, w)
	case calling:
		return s.unbindOld(ctx, job, w)
	case polling, fetching:
	}
	return s.operate(ctx, job, w)
}

// applyStep tells the app if that has to be done, and begins the grace period if nothing uses
// the old credentials. Otherwise it leaves the job until something has changed.
func (s *Services) applyStep(ctx context.Context, job *platform.Job, w *work) error {
	row, err := s.rotationOf(ctx, w)
	if err != nil {
		return err
	}
	if row != nil && untold(row) {
		if err := s.tellOnce(ctx, job, w); err != nil {
			return err
		}
	}
	return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		next := w.copied()
		row, err := tx.CredentialRotations().Get(w.Rotation)
		switch {
		case fault.Is(err, fault.NotFound) || err == nil && row.State.Over():
			finish(mine, platform.JobComplete) // the service instance was deleted
			return nil
		case err != nil:
			return err
		case row.State == platform.RotationApplying:
			return s.awaitUnused(tx, mine, &next, row)
		}
		next.Phase = calling // a job of an earlier version, after the grace period
		return reschedule(mine, &next, clock.Steady())
	})
}

// rotationOf returns the rotation of a job, or nil if it is over or was deleted.
func (s *Services) rotationOf(ctx context.Context, w *work) (*platform.CredentialRotation, error) {
	row, err := db.Within(ctx, s.Store.View, func(tx platform.Tx) (*platform.CredentialRotation, error) {
		return tx.CredentialRotations().Get(w.Rotation)
	})
	if err != nil || row.State.Over() {
		return nil, ignoreGone(err)
	}
	return row, nil
}

// unbindOld asks the broker to delete the old credentials.
func (s *Services) unbindOld(ctx context.Context, job *platform.Job, w *work) error {
	row, err := s.rotationOf(ctx, w)
	if err != nil {
		return err
	}
	if row == nil {
		return s.commit(ctx, job, func(_ platform.Tx, mine *platform.Job) error {
			finish(mine, platform.JobComplete) // the service instance was deleted
			return nil
		})
	}
	var parts planParts
	err = s.Store.View(ctx, func(tx platform.Tx) error {
		// The plan may have changed since.
		i, err := tx.ServiceInstances().Get(row.InstanceGUID)
		if err != nil {
			return err
		}
		parts, err = partsOf(tx, i.PlanGUID)
		return err
	})
	if err != nil {
		return err
	}
	w.Broker, w.ServiceID, w.PlanID = parts.broker.GUID, parts.offering.CatalogID, parts.plan.CatalogID
	return s.operate(ctx, job, w)
}

// awaitUnused begins the grace period if nothing uses the old credentials. Otherwise the job
// waits until it is woken, by actions.CredentialsReleased or the end of a deployment.
func (s *Services) awaitUnused(tx platform.Tx, mine *platform.Job, next *work, row *platform.CredentialRotation) error {
	left, err := stillWaits(tx, row)
	if err != nil {
		return err
	}
	next.Tries = 0
	if len(left) > 0 && !row.Forced {
		if len(left) != len(row.Waits) {
			row.Waits = left
			if err := tx.CredentialRotations().Update(row); err != nil {
				return err
			}
		}
		return reschedule(mine, next, clock.Steady().Add(longestWait))
	}
	grace := time.Duration(row.GraceSeconds) * time.Second
	row.State, row.Waits, row.RevokeAt = platform.RotationGrace, nil, time.Now().Add(grace)
	if err := tx.CredentialRotations().Update(row); err != nil {
		return err
	}
	next.Phase = calling
	return reschedule(mine, next, clock.Steady().Add(grace))
}

// untold reports whether it has to be decided how an app gets its new credentials.
func untold(row *platform.CredentialRotation) bool {
	return row.State == platform.RotationApplying && row.Method == "" || row.AwaitsDeployment()
}

// tellOnce decides how an app gets its new credentials, and starts that. It returns the app
// if something has to be done for it.
func (s *Services) tellOnce(ctx context.Context, job *platform.Job, w *work) error {
	tell := func(how func(tx platform.Tx, row *platform.CredentialRotation) error) error {
		return s.commit(ctx, job, func(tx platform.Tx, _ *platform.Job) error {
			row, err := tx.CredentialRotations().Get(w.Rotation)
			if err != nil || !untold(row) {
				return ignoreGone(err)
			}
			before := *row
			if err := how(tx, row); err != nil {
				return err
			}
			if before.Method == row.Method && before.DeploymentGUID == row.DeploymentGUID &&
				before.Description == row.Description {
				return nil // another deployment is still active
			}
			if row.AppGUID != "" {
				tx.Announce(platform.Changes{Apps: []string{row.AppGUID}})
			}
			if err := s.wakeRequest(tx, row); err != nil {
				return err
			}
			return tx.CredentialRotations().Update(row)
		})
	}
	err := tell(func(tx platform.Tx, row *platform.CredentialRotation) error { return s.tell(tx, w, row) })
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Code != fault.Internal {
		// Another transaction: what the refused one wrote must not stay.
		err = tell(func(_ platform.Tx, row *platform.CredentialRotation) error {
			row.Method, row.Description = platform.ByNothing, "The app could not be restarted: "+refused.Message+
				" The new credentials take effect when it is restarted."
			return nil
		})
	}
	return err
}

// tell chooses the method of a rotation and starts it.
func (s *Services) tell(tx platform.Tx, w *work, row *platform.CredentialRotation) error {
	row.Method, row.Description = platform.ByNothing, ""
	if row.AppGUID == "" {
		return nil
	}
	app, err := tx.Apps().Get(row.AppGUID)
	if err != nil {
		return ignoreGone(err)
	}
	left, err := stillWaits(tx, row)
	if err != nil {
		return err
	}
	if app.State == platform.AppStopped || len(left) == 0 {
		row.Description = "No instance used the old credentials."
		return nil
	}
	byFiles, err := rereadsFiles(tx, app)
	switch {
	case err != nil:
		return err
	case byFiles:
		row.Method = platform.ByFiles
		return nil
	case !row.Restart:
		row.Description = "The new credentials take effect when the app is restarted."
		return nil
	}
	row.Method = platform.ByRestart
	// Another deployment may be a canary that has to be decided on.
	active, err := tx.Deployments().Count(platform.Where("app_guid", app.GUID).
		And(platform.In("status", platform.DeploymentActive)))
	if err != nil {
		return err
	}
	if active > 0 {
		row.Description = "The app is restarted when its active deployment is finished."
		return nil
	}
	d := &platform.Deployment{Strategy: platform.StrategyRolling, MaxInFlight: 1}
	if err := s.Platform.CreateDeployment(tx, w.Actor, app, d); err != nil {
		return err
	}
	row.DeploymentGUID = d.GUID
	return nil
}

// rereadsFiles reports whether all processes of an app get their credentials from files, and
// have said what they need when the files change.
func rereadsFiles(tx platform.Tx, app *platform.App) (bool, error) {
	if app.FileBased() == "" {
		return false, nil
	}
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return false, err
	}
	for _, p := range processes {
		if p.Instances > 0 && (p.OnCredentials == "" || p.OnCredentials == platform.OnCredentialsRestart) {
			return false, nil
		}
		d, err := tx.Droplets().Get(p.DropletGUID)
		if err != nil {
			return false, ignoreGone(err)
		}
		if d.Container != nil { // the files of an image's instance are mounted read-only
			return false, nil
		}
	}
	return true, nil
}

// revoked stores that the old credentials are gone.
func (s *Services) revoked(tx platform.Tx, w *work) error {
	row, err := tx.CredentialRotations().Get(w.Rotation)
	if err != nil {
		return ignoreGone(err)
	}
	row.State, row.RevokeAt = platform.RotationRevoked, time.Now()
	if err := tx.CredentialRotations().Update(row); err != nil {
		return err
	}
	b, err := tx.ServiceBindings().Get(row.BindingGUID)
	if err != nil {
		return ignoreGone(err)
	}
	i, err := tx.ServiceInstances().Get(row.InstanceGUID)
	if err != nil {
		return ignoreGone(err)
	}
	return s.Platform.RecordBinding(tx, "revoke", w.Actor, b, i)
}

// revokeNow revokes old credentials without waiting, because their binding or their instance
// is being deleted. It returns how many there are.
func (s *Services) revokeNow(tx platform.Tx, field, guid string) (int, error) {
	rows, _, err := tx.CredentialRotations().List(platform.Where(field, guid).
		And(platform.In("state", platform.UnfinishedRotations...)))
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		if row.Forced && row.GraceSeconds == 0 {
			continue // it is under way
		}
		row.Forced, row.GraceSeconds = true, 0
		if err := tx.CredentialRotations().Update(row); err != nil {
			return 0, err
		}
		if err := actions.WakeRotation(tx, row.GUID); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}
