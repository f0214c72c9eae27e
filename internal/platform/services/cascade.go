package services

import (
	"context"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Jobs that wait for other jobs: a manifest waits for its bindings, deleting apps,
// routes, spaces and organizations for deleting their services, and deleting
// service instances for deleting their bindings.

// Such a job waits between two checks for a part of the time that it has waited for already,
// because each check is a commit: a broker may take a week.
const (
	shortestCheck = 200 * time.Millisecond
	longestCheck  = time.Minute
)

// nextCheck returns the time until the next check, after the job has waited.
func nextCheck(waited time.Duration) time.Duration {
	return min(max(waited/8, shortestCheck), longestCheck)
}

// Follow stores a job that is complete when all children are.
func (s *Services) Follow(tx platform.Tx, by actions.Actor, operation, resource, guid string, children []Child,
	warnings []string) (*platform.Job, error) {
	return s.insertJob(tx, operation, resource, guid, &work{Actor: by, Children: children}, warnings...)
}

// The operations that delete resources together with their services.
const (
	deleteApp   = "app.delete"
	deleteRoute = "route.delete"
	deleteSpace = "space.delete"
	deleteOrg   = "organization.delete"
	// deleteInstance is also the operation of the job that calls the broker when no
	// bindings are left.
	deleteInstance = "service_instance.delete"
)

// DeleteApp deletes an app: immediately if no broker is involved, otherwise through
// the job that it returns.
func (s *Services) DeleteApp(tx platform.Tx, by actions.Actor, app *platform.App) (*platform.Job, error) {
	return s.delete(tx, by, deleteApp, app.GUID, func() error { return s.Platform.DeleteApp(tx, by, app) })
}

// DeleteRoute is like DeleteApp, for routes.
func (s *Services) DeleteRoute(tx platform.Tx, by actions.Actor, r *platform.Route) (*platform.Job, error) {
	return s.delete(tx, by, deleteRoute, r.GUID, func() error { return s.Platform.DeleteRoute(tx, by, r) })
}

// DeleteSpace is like DeleteApp, for spaces.
func (s *Services) DeleteSpace(tx platform.Tx, by actions.Actor, space *platform.Space) (*platform.Job, error) {
	return s.delete(tx, by, deleteSpace, space.GUID, func() error { return s.Platform.DeleteSpace(tx, by, space) })
}

// DeleteOrganization is like DeleteApp, for organizations.
func (s *Services) DeleteOrganization(tx platform.Tx, by actions.Actor,
	o *platform.Organization) (*platform.Job, error) {
	return s.delete(tx, by, deleteOrg, o.GUID, func() error { return s.Platform.DeleteOrganization(tx, by, o) })
}

func (s *Services) delete(tx platform.Tx, by actions.Actor, operation, guid string,
	now func() error) (*platform.Job, error) {
	bindings, instances, err := belongings(tx, operation, guid)
	if err != nil {
		return nil, err
	}
	if len(bindings)+len(instances) == 0 {
		return nil, now()
	}
	return s.insertJob(tx, operation, "", "", &work{Actor: by, Target: guid})
}

// belongings are the bindings and instances of brokers that have to be deleted
// first.
func belongings(tx platform.Tx, operation, guid string) (bindings []*platform.ServiceBinding,
	instances []*platform.ServiceInstance, err error) {
	var bound []*platform.ServiceBinding
	switch operation {
	case deleteApp:
		bound, _, err = tx.ServiceBindings().List(platform.Where("app_guid", guid))
	case deleteRoute:
		bound, _, err = tx.ServiceBindings().List(platform.Where("route_guid", guid))
	case deleteInstance:
		instance, err := tx.ServiceInstances().Get(guid)
		if err != nil {
			return nil, nil, ignoreGone(err)
		}
		bindings, _, err = tx.ServiceBindings().List(platform.Where("instance_guid", guid))
		return bindings, []*platform.ServiceInstance{instance}, err
	default:
		field := map[string]string{deleteSpace: "space_guid", deleteOrg: "organization_guid"}[operation]
		if instances, _, err = tx.ServiceInstances().List(platform.Where(field, guid).
			And(platform.In("type", platform.ServiceManaged))); err != nil {
			return nil, nil, err
		}
		if bound, _, err = tx.ServiceBindings().List(platform.Where(field, guid)); err != nil {
			return nil, nil, err
		}
		// Instances may be bound in spaces that they are shared with.
		for _, i := range instances {
			more, _, err := tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).
				And(platform.Cond{Field: field, Op: platform.OpNotIn, Values: []any{guid}}))
			if err != nil {
				return nil, nil, err
			}
			bound = append(bound, more...)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	for _, b := range bound {
		i, err := tx.ServiceInstances().Get(b.InstanceGUID)
		if err != nil {
			return nil, nil, err
		}
		if i.Type == platform.ServiceManaged {
			bindings = append(bindings, b)
		}
	}
	return bindings, instances, nil
}

// follow finishes a job if its children have finished.
func (s *Services) follow(ctx context.Context, job *platform.Job, w *work) error {
	err := s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		next := *w
		waiting, errs, err := s.children(tx, &next)
		if err != nil {
			return err
		}
		if len(errs) > 0 && !waiting {
			finish(mine, platform.JobFailed, errs...)
			return s.notDeleted(tx, mine.Operation, &next, errs[0].Detail)
		}
		if !waiting && next.Target != "" {
			if waiting, err = s.clear(tx, mine.Operation, &next); err != nil {
				return err
			}
			if !waiting {
				if err := s.deleteTarget(tx, mine.Operation, &next); err != nil {
					return err
				}
			}
		}
		if waiting {
			now := clock.Steady()
			if next.Begun.IsZero() || len(next.Children) != len(w.Children) {
				next.Begun = now
			}
			return reschedule(mine, &next, now.Add(nextCheck(now.Sub(next.Begun))))
		}
		finish(mine, platform.JobComplete)
		return nil
	})
	switch {
	case fault.Is(err, fault.Unprocessable), fault.Is(err, fault.InstanceBusy), fault.Is(err, fault.BindingBusy),
		fault.Is(err, fault.NotFound):
		return s.commit(ctx, job, func(_ platform.Tx, mine *platform.Job) error {
			finish(mine, platform.JobFailed, s.jobError(ctx, err))
			return nil
		})
	}
	return err
}

// notDeleted stores in an instance that it could not be deleted because one of its
// bindings could not. If the broker refused to delete the instance itself, that is
// stored already.
func (s *Services) notDeleted(tx platform.Tx, operation string, w *work, why string) error {
	if operation != deleteInstance {
		return nil
	}
	i, err := tx.ServiceInstances().Get(w.Target)
	if err != nil || i.Last.Type == platform.OperationDelete {
		return ignoreGone(err)
	}
	now := time.Now()
	i.Last = platform.LastOperation{Type: platform.OperationDelete, State: platform.OperationFailed, Description: why,
		Created: now, Updated: now}
	return tx.ServiceInstances().Update(i)
}

// children reports whether child jobs are unfinished, and returns the errors of
// the others. The work keeps the unfinished ones.
func (s *Services) children(tx platform.Tx, w *work) (waiting bool, errs []platform.JobError, err error) {
	var left []Child
	for _, c := range w.Children {
		j, err := tx.Jobs().Get(c.Job)
		if err != nil {
			return false, nil, err
		}
		if active(j) {
			waiting = true
		}
		if active(j) || j.State == platform.JobFailed {
			left = append(left, c)
		}
		if j.State == platform.JobFailed {
			for _, e := range j.Errors {
				e.Detail = c.Prefix + e.Detail
				errs = append(errs, e)
			}
		}
	}
	w.Children = left
	return waiting, errs, nil
}

// clear starts the deletion of bindings and then of instances, and reports whether
// there are any to wait for.
func (s *Services) clear(tx platform.Tx, operation string, w *work) (waiting bool, err error) {
	bindings, instances, err := belongings(tx, operation, w.Target)
	if err != nil {
		return false, err
	}
	for _, b := range bindings {
		i, err := tx.ServiceInstances().Get(b.InstanceGUID)
		if err != nil {
			return false, err
		}
		if b.Last.InProgress() || i.Last.InProgress() {
			continue // the next check tries again
		}
		j, err := s.Unbind(tx, w.Actor, b)
		if err != nil {
			return false, err
		}
		w.Children = append(w.Children, Child{Job: j.GUID, Prefix: "Unbinding of '" + i.Name + "' failed: "})
	}
	if len(bindings) > 0 {
		return true, nil
	}
	// A broker may refuse to delete an instance that has old credentials.
	for _, i := range instances {
		left, err := s.revokeNow(tx, "instance_guid", i.GUID)
		if err != nil {
			return false, err
		}
		waiting = waiting || left > 0
	}
	if waiting {
		return true, nil
	}
	for _, i := range instances {
		if i.Last.InProgress() {
			continue
		}
		j, err := s.deprovision(tx, w.Actor, i)
		if err != nil {
			return false, err
		}
		w.Children = append(w.Children, Child{Job: j.GUID, Prefix: "Deletion of service instance '" + i.Name + "' failed: "})
	}
	return len(instances) > 0, nil
}

// deleteTarget deletes the resource when its services are deleted.
func (s *Services) deleteTarget(tx platform.Tx, operation string, w *work) error {
	switch operation {
	case deleteApp:
		return deleteFound(tx.Apps(), w, func(app *platform.App) error { return s.Platform.DeleteApp(tx, w.Actor, app) })
	case deleteInstance:
		return nil // it was deleted with the last child
	case deleteRoute:
		return deleteFound(tx.Routes(), w, func(r *platform.Route) error { return s.Platform.DeleteRoute(tx, w.Actor, r) })
	case deleteSpace:
		return deleteFound(tx.Spaces(), w, func(p *platform.Space) error { return s.Platform.DeleteSpace(tx, w.Actor, p) })
	}
	return deleteFound(tx.Organizations(), w, func(o *platform.Organization) error {
		return s.Platform.DeleteOrganization(tx, w.Actor, o)
	})
}

// deleteFound deletes the target of a job, unless it is gone.
func deleteFound[T any](of platform.Repo[T], w *work, remove func(*T) error) error {
	target, err := of.Get(w.Target)
	if err != nil {
		return ignoreGone(err)
	}
	return remove(target)
}
