package services

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/osb"
)

// A rotation gives bindings new credentials and keeps their guids. For each binding a job
// binds again, under another id of the broker, and stores the result in one transaction with
// the instances that run with the old credentials:
//
//	bind ──▶ store new credentials ──▶ restart, or new files ──▶ none uses the old ──▶ grace ──▶ unbind the old id
//	         (job rotate)              (job revoke, from here on)
//
// The job of the request is complete when all apps were told.

const (
	// MaxGrace limits how long old credentials stay valid after nothing uses them.
	MaxGrace = 7 * 24 * time.Hour
	// maxUnfinished is how many old credentials of a binding may still be valid: each is a user
	// at the broker.
	maxUnfinished = 5
	// keptRotations is how many finished rotations of an instance are kept.
	keptRotations = 100
	// maxSpaceUnfinished is how many rotations of a space may be unfinished, so that no space
	// can fill the jobs of all.
	maxSpaceUnfinished = 200
	// longestWait is how long a job waits for instances that use old credentials if nothing
	// wakes it. It is woken when one of them stops; see also Config.Sweep.
	longestWait = 24 * time.Hour
	// requestPoll is how often the job of a request looks at its rotations, if none wakes it.
	// It grows to maxRequestPoll.
	requestPoll    = 50 * time.Millisecond
	maxRequestPoll = time.Minute
)

// Rotate is a request for new credentials.
type Rotate struct {
	Instance *platform.ServiceInstance
	// Bindings are those that get new credentials: of apps, and service keys.
	Bindings []*platform.ServiceBinding
	Grace    time.Duration
	// Restart allows to restart apps that cannot see new credentials while they run. Without
	// it the old ones are kept until no instance uses them, unless Force is set.
	Restart, Force bool
}

// Rotate starts to replace the credentials of bindings. The job that it returns is complete
// when the apps were told; the old credentials are revoked later.
func (s *Services) Rotate(tx platform.Tx, by actions.Actor, r Rotate) (*platform.Job, error) {
	i := r.Instance
	switch {
	case i.Type == platform.ServiceUserProvided:
		return nil, fault.New(fault.Unprocessable,
			"The service instance '%s' is user-provided: its credentials are what you set. Change them with 'cf "+
				"update-user-provided-service' and restart the apps.", i.Name)
	case r.Grace < 0 || r.Grace > MaxGrace:
		return nil, fault.New(fault.Unprocessable, "The grace period must be between 0 and %d seconds.",
			int(MaxGrace.Seconds()))
	case i.Last.InProgress():
		return nil, platform.InstanceBusy(i)
	case len(r.Bindings) == 0:
		return nil, fault.New(fault.Unprocessable,
			"The service instance '%s' has no bindings to rotate. Service keys are rotated only if the request says so.", i.Name)
	}
	parts, err := partsOf(tx, i.PlanGUID)
	if err != nil {
		return nil, err
	}
	request, err := s.insertJob(tx, "service_instance.rotate_credentials", "service_instance", i.GUID,
		&work{Kind: rotation, Actor: by})
	if err != nil {
		return nil, err
	}
	for _, b := range r.Bindings {
		if err := s.rotateBinding(tx, by, r, parts, b, request.GUID); err != nil {
			return nil, err
		}
	}
	return request, s.forgetRotations(tx, i.GUID)
}

// rotateBinding stores the rotation of one binding and its job.
func (s *Services) rotateBinding(tx platform.Tx, by actions.Actor, r Rotate, parts planParts,
	b *platform.ServiceBinding, request string) error {
	if b.Last.InProgress() || !b.Last.Exists() {
		name, err := boundName(tx, b)
		if err != nil {
			return err
		}
		return bindingBusy(name, r.Instance.Name)
	}
	unfinished, err := tx.CredentialRotations().Count(platform.Where("binding_guid", b.GUID).
		And(platform.In("state", platform.UnfinishedRotations...)))
	if err != nil {
		return err
	}
	if unfinished >= maxUnfinished {
		return fault.New(fault.Unprocessable,
			"The service instance '%s' has a binding with %d old credentials that are still valid. Wait until they are "+
				"revoked, or restart the apps that still use them.", r.Instance.Name, unfinished)
	}
	if err := roomInSpace(tx, b.SpaceGUID); err != nil {
		return err
	}
	row := &platform.CredentialRotation{
		RequestGUID: request, InstanceGUID: b.InstanceGUID, BindingGUID: b.GUID, AppGUID: b.AppGUID, SpaceGUID: b.SpaceGUID,
		OldID: b.AtBroker(), NewID: uuid.NewString(), State: platform.RotationCreating,
		GraceSeconds: int(r.Grace.Seconds()), Restart: r.Restart, Forced: r.Force,
	}
	if err := tx.CredentialRotations().Insert(row); err != nil {
		return err
	}
	now := time.Now()
	b.Last = platform.LastOperation{Type: platform.OperationUpdate, State: platform.OperationInProgress, Created: now,
		Updated: now}
	if err := s.Platform.UpdateBinding(tx, b); err != nil {
		return err
	}
	w := parts.work(rotate, by, r.Instance.GUID)
	w.Binding, w.BindingID, w.Rotation = b.GUID, row.NewID, row.GUID
	if parts.plan.BindingRotatable {
		w.Predecessor = row.OldID
	}
	operation, resource := operationOf(b, "rotate")
	_, err = s.insertJob(tx, operation, resource, b.GUID, w)
	return err
}

// roomInSpace refuses a rotation if its space has too many that are unfinished.
func roomInSpace(tx platform.Tx, space string) error {
	n, err := tx.CredentialRotations().Count(platform.Where("space_guid", space).
		And(platform.In("state", platform.UnfinishedRotations...)))
	if err != nil || n < maxSpaceUnfinished {
		return err
	}
	return fault.New(fault.Unprocessable,
		"The space has %d rotations of credentials that are not finished; no more are allowed. Restart the apps that still "+
			"use old credentials, wait until grace periods are over, or rotate the credentials of fewer apps at a time "+
			"('ingot rotate-credentials SERVICE_INSTANCE --app APP').", n)
}

// wakeRequest makes the job of a request look at its rotations.
func (s *Services) wakeRequest(tx platform.Tx, row *platform.CredentialRotation) error {
	j, err := tx.Jobs().Get(row.RequestGUID)
	if err != nil || !active(j) {
		return ignoreGone(err)
	}
	return actions.WakeJob(tx, j)
}

// forgetRotations removes the oldest finished rotations of an instance.
func (s *Services) forgetRotations(tx platform.Tx, instance string) error {
	q := platform.Where("instance_guid", instance).And(platform.In("state", platform.RotationRevoked,
		platform.RotationFailed))
	q.Desc, q.Page, q.PerPage = true, 2, keptRotations
	old, _, err := tx.CredentialRotations().List(q)
	if err != nil {
		return err
	}
	for _, row := range old {
		if err := tx.CredentialRotations().Delete(row.GUID); err != nil {
			return err
		}
	}
	return nil
}

// awaitRotations finishes the job of a request when its apps were told, or no new credentials
// could be made.
func (s *Services) awaitRotations(ctx context.Context, job *platform.Job, w *work) error {
	return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		rows, _, err := tx.CredentialRotations().List(platform.Where("request_guid", mine.GUID))
		if err != nil {
			return err
		}
		var errs []platform.JobError
		for _, row := range rows {
			switch {
			case row.State == platform.RotationCreating, row.State == platform.RotationApplying && row.Method == "":
				next := *w
				next.Tries++
				return reschedule(mine, &next, clock.Steady().Add(pause(next.Tries, requestPoll, maxRequestPoll)))
			case row.State == platform.RotationFailed:
				errs = append(errs, platform.JobError{Code: s.Number(fault.BadBroker), Title: "CF-" + string(fault.BadBroker),
					Detail: row.Description})
			}
		}
		if len(errs) > 0 {
			finish(mine, platform.JobFailed, errs...)
			return nil
		}
		finish(mine, platform.JobComplete)
		return nil
	})
}

// rotateStep performs one step of the job that makes new credentials. A broker that does not
// make successors is asked for the parameters of the binding first.
func (s *Services) rotateStep(ctx context.Context, job *platform.Job, w *work) error {
	if (w.Phase == "" || w.Phase == calling) && w.Predecessor == "" && w.Parameters == nil {
		parameters, err := s.parametersToRepeat(ctx, w)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
				next := w.copied()
				finish(mine, platform.JobFailed, s.jobError(ctx, err))
				return s.fail(tx, &next, describe(err))
			})
		}
		w.Parameters = parameters
	}
	return s.operate(ctx, job, w)
}

func (s *Services) parametersToRepeat(ctx context.Context, w *work) (map[string]any, error) {
	var i *platform.ServiceInstance
	var b *platform.ServiceBinding
	var parts planParts
	err := s.Store.View(ctx, func(tx platform.Tx) (err error) {
		if b, err = tx.ServiceBindings().Get(w.Binding); err != nil {
			return err
		}
		if i, err = tx.ServiceInstances().Get(w.Instance); err != nil {
			return err
		}
		parts, err = partsOf(tx, i.PlanGUID)
		return err
	})
	if err != nil || !parts.offering.BindingsRetrievable {
		return nil, ignoreGone(err) // operate reports what was deleted
	}
	id := osb.Instance{ID: i.GUID, ServiceID: w.ServiceID, PlanID: w.PlanID}
	found, err := s.client.FetchBindingParameters(ctx, brokerOf(parts.broker), id, b.AtBroker(), w.Actor.GUID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found, nil
}

// rotated stores new credentials, and the instances that run with the old ones.
func (s *Services) rotated(tx platform.Tx, w *work, r *result) error {
	b, err := tx.ServiceBindings().Get(w.Binding)
	if err != nil {
		return err
	}
	i, err := tx.ServiceInstances().Get(w.Instance)
	if err != nil {
		return err
	}
	row, err := tx.CredentialRotations().Get(w.Rotation)
	if err != nil {
		return err
	}
	same := reflect.DeepEqual(b.Credentials, r.binding.Credentials)
	b.Credentials, b.SyslogDrainURL, b.RouteServiceURL, b.VolumeMounts = r.binding.Credentials, r.binding.SyslogDrainURL,
		r.binding.RouteServiceURL, r.binding.VolumeMounts
	b.BrokerID = row.NewID
	b.Last.State, b.Last.Description, b.Last.Updated = platform.OperationSucceeded, "", time.Now()
	if err := s.Platform.UpdateBinding(tx, b); err != nil {
		return err
	}
	row.State = platform.RotationApplying
	if same {
		row.Method = platform.ByNothing
		row.Description = "The service broker returned the same credentials again: it does not support rotation. Nothing " +
			"has changed for the app."
		if err := s.wakeRequest(tx, row); err != nil {
			return err
		}
	} else if row.Waits, err = usersOf(tx, b.AppGUID); err != nil {
		return err
	}
	if err := tx.CredentialRotations().Update(row); err != nil {
		return err
	}
	follow := *w
	follow.Kind, follow.Phase, follow.BindingID, follow.Predecessor, follow.Parameters = revoke, "", row.OldID, "", nil
	follow.Operation, follow.Begun, follow.Tries = "", time.Time{}, 0
	if _, err := s.insertJob(tx, "service_bindings.revoke", "credential_rotation", row.GUID, &follow); err != nil {
		return err
	}
	return s.Platform.RecordBinding(tx, "rotate", w.Actor, b, i)
}

// rotationFailed stores that no new credentials were made. The binding keeps the ones it has.
func (s *Services) rotationFailed(tx platform.Tx, w *work, why string) error {
	row, err := tx.CredentialRotations().Get(w.Rotation)
	if err != nil {
		return ignoreGone(err)
	}
	row.State, row.Description = platform.RotationFailed, why
	if err := s.wakeRequest(tx, row); err != nil {
		return err
	}
	return tx.CredentialRotations().Update(row)
}

// usersOf returns the instances and tasks of an app that run or are about to.
func usersOf(tx platform.Tx, app string) (guids []string, err error) {
	if app == "" {
		return nil, nil
	}
	instances, _, err := tx.Instances().List(platform.Where("app_guid", app))
	if err != nil {
		return nil, err
	}
	for _, one := range instances {
		if one.State != platform.InstanceCrashed && one.State != platform.InstanceDown {
			guids = append(guids, one.GUID)
		}
	}
	tasks, _, err := tx.Tasks().List(platform.Where("app_guid", app).
		And(platform.In("state", platform.TaskPending, platform.TaskRunning, platform.TaskCanceling)))
	for _, task := range tasks {
		guids = append(guids, task.GUID)
	}
	return guids, err
}

// stillWaits returns those of a rotation's instances and tasks that still run.
func stillWaits(tx platform.Tx, row *platform.CredentialRotation) ([]string, error) {
	if len(row.Waits) == 0 {
		return nil, nil
	}
	now, err := usersOf(tx, row.AppGUID)
	if err != nil {
		return nil, err
	}
	return awaited(row, now), nil
}

// awaited returns those of a rotation's instances and tasks that are among the ones that run.
func awaited(row *platform.CredentialRotation, now []string) []string {
	return slices.DeleteFunc(slices.Clone(row.Waits), func(guid string) bool { return !slices.Contains(now, guid) })
}
