package actions

import (
	"slices"
	"time"

	"ingot/internal/platform"
)

// CredentialsReleased makes rotations of credentials go on that wait for instances or tasks of
// an app. It belongs to the transaction that stores that they have stopped: the jobs of
// rotations do not poll for it.
func CredentialsReleased(tx platform.Tx, app string, stopped ...string) error {
	if len(stopped) == 0 {
		return nil
	}
	return wakeRotations(tx, app, func(row *platform.CredentialRotation) bool {
		return slices.ContainsFunc(row.Waits, func(guid string) bool { return slices.Contains(stopped, guid) })
	})
}

// wakeRotations makes the jobs of some of an app's rotations due.
func wakeRotations(tx platform.Tx, app string, which func(*platform.CredentialRotation) bool) error {
	rows, _, err := tx.CredentialRotations().List(platform.Where("app_guid", app).
		And(platform.In("state", platform.RotationApplying)))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if which(row) {
			if err := WakeRotation(tx, row.GUID); err != nil {
				return err
			}
		}
	}
	return nil
}

// WakeRotation makes the job of a rotation due.
func WakeRotation(tx platform.Tx, guid string) error {
	jobs, _, err := tx.Jobs().List(platform.Where("resource_guid", guid).
		And(platform.In("state", platform.JobProcessing, platform.JobPolling)))
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if err := WakeJob(tx, j); err != nil {
			return err
		}
	}
	return nil
}

// WakeJob makes a job due. The due time is the zero time, because servers do not share a clock.
func WakeJob(tx platform.Tx, j *platform.Job) error {
	j.Due = time.Time{}
	return tx.Jobs().Update(j)
}

// CreateJob stores a job whose work was done or refused before it was answered.
func (p *Platform) CreateJob(tx platform.Tx, j platform.Job) (*platform.Job, error) {
	return &j, tx.Jobs().Insert(&j)
}
