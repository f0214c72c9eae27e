package services

import (
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// The changes of steps to the rows of instances and bindings. They are made in the
// transaction that finishes or reschedules the job.

// started records that the broker has accepted the operation.
func (s *Services) started(tx platform.Tx, w *work, r *result) error {
	if w.Kind == cleanup || w.Kind == revoke {
		return nil
	}
	i, err := tx.ServiceInstances().Get(w.Instance)
	if err != nil {
		return err
	}
	if !w.binding() {
		if said(i, r) {
			if err := tx.ServiceInstances().Update(i); err != nil {
				return err
			}
		}
		return s.Platform.RecordInstance(tx, "start_"+string(w.Kind), w.Actor, i, nil)
	}
	b, err := tx.ServiceBindings().Get(w.Binding)
	if err != nil {
		return err
	}
	return s.Platform.RecordBinding(tx, "start_"+string(w.Kind), w.Actor, b, i)
}

// progress stores the description that the broker gives while it works.
func (s *Services) progress(tx platform.Tx, w *work, description string) error {
	return s.last(tx, w, func(o *platform.LastOperation) { o.Description = description })
}

// last changes the last operation of the instance or binding, if it exists.
func (s *Services) last(tx platform.Tx, w *work, change func(*platform.LastOperation)) error {
	if w.binding() {
		b, err := tx.ServiceBindings().Get(w.Binding)
		if err != nil {
			return ignoreGone(err)
		}
		change(&b.Last)
		return s.Platform.UpdateBinding(tx, b)
	}
	i, err := tx.ServiceInstances().Get(w.Instance)
	if err != nil {
		return ignoreGone(err)
	}
	change(&i.Last)
	return tx.ServiceInstances().Update(i)
}

// said stores the attributes of an instance in a response, and reports whether there
// were any. Responses to polls have none.
func said(i *platform.ServiceInstance, r *result) bool {
	if r.Dashboard != "" {
		i.DashboardURL = r.Dashboard
	}
	if r.Metadata != nil {
		i.BrokerMetadata = r.Metadata
	}
	return r.Dashboard != "" || r.Metadata != nil
}

func ignoreGone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// fail stores that the operation failed.
func (s *Services) fail(tx platform.Tx, w *work, why string) error {
	switch w.Kind {
	case cleanup, revoke:
		return nil
	case rotate:
		if err := s.rotationFailed(tx, w, why); err != nil {
			return err
		}
	case create, update, remove, rotation:
	}
	return s.last(tx, w, func(o *platform.LastOperation) {
		o.State, o.Description, o.Updated = platform.OperationFailed, why, time.Now()
	})
}

// EventOperationFinished is the event for the end of an asynchronous operation of
// a broker, successful or not. Its data are operation, state and description.
const EventOperationFinished = "audit.service_instance.operation-finished"

// recordEnd records the end of an asynchronous operation on an instance. A
// synchronous one has no such event: its client already has the result.
func (s *Services) recordEnd(tx platform.Tx, w *work, at *scene, state platform.OperationState,
	description string) error {
	if w.Kind == cleanup || w.binding() || w.Begun.IsZero() {
		return nil
	}
	i := at.instance
	if w.Kind == update {
		now, err := tx.ServiceInstances().Get(i.GUID)
		if err != nil {
			return err
		}
		i = now // it may have been renamed
	}
	t := actions.Target{GUID: i.GUID, Type: "service_instance", Name: i.Name, SpaceGUID: i.SpaceGUID, OrgGUID: at.org}
	return s.Platform.Record(tx, EventOperationFinished, w.Actor, t, map[string]any{
		"operation": string(w.Kind), "state": string(state), "description": description,
	})
}

// succeed stores the result of a successful operation.
func (s *Services) succeed(tx platform.Tx, w *work, at *scene, r *result) error {
	switch {
	case w.Kind == cleanup:
		return nil
	case w.Kind == rotate:
		return s.rotated(tx, w, r)
	case w.Kind == revoke:
		return s.revoked(tx, w)
	case w.binding():
		return s.bindingDone(tx, w, r)
	}
	i, err := tx.ServiceInstances().Get(w.Instance)
	if err != nil {
		return err
	}
	if w.Kind == remove {
		return s.Platform.RemoveInstance(tx, w.Actor, i, "delete")
	}
	i.Last.State, i.Last.Description, i.Last.Updated = platform.OperationSucceeded, r.Description, time.Now()
	said(i, r)
	if w.Kind == create {
		i.MaintenanceVersion = at.plan.MaintenanceVersion
	} else if w.Change != nil {
		if taken, err := nameTaken(tx, i, w.Change.Name); err != nil {
			return err
		} else if taken {
			w.Change.Name = nil // the name was taken meanwhile; the old one stays
		}
		w.Change.apply(i)
		if w.Change.PlanGUID != "" || w.Change.Maintenance != "" {
			i.MaintenanceVersion = at.plan.MaintenanceVersion
		}
	}
	if err := tx.ServiceInstances().Update(i); err != nil {
		return err
	}
	return s.Platform.RecordInstance(tx, string(w.Kind), w.Actor, i,
		map[string]any{"name": i.Name, "service_plan_guid": i.PlanGUID})
}

func (s *Services) bindingDone(tx platform.Tx, w *work, r *result) error {
	b, err := tx.ServiceBindings().Get(w.Binding)
	if err != nil {
		return err
	}
	i, err := tx.ServiceInstances().Get(w.Instance)
	if err != nil {
		return err
	}
	if w.Kind == remove {
		if _, err := s.revokeNow(tx, "binding_guid", b.GUID); err != nil {
			return err
		}
		return s.Platform.RemoveBinding(tx, w.Actor, b, i)
	}
	b.Credentials, b.SyslogDrainURL, b.RouteServiceURL, b.VolumeMounts = r.binding.Credentials, r.binding.SyslogDrainURL,
		r.binding.RouteServiceURL, r.binding.VolumeMounts
	b.Last.State, b.Last.Description, b.Last.Updated = platform.OperationSucceeded, "", time.Now()
	if err := s.Platform.UpdateBinding(tx, b); err != nil {
		return err
	}
	return s.Platform.RecordBinding(tx, "create", w.Actor, b, i)
}
