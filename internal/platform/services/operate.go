package services

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/services/osb"
)

// How often a step is tried before the operation fails.
const (
	busyTries  = 12
	fetchTries = 6
)

// scene is the data of a step, from the store.
type scene struct {
	broker   osb.Broker
	instance *platform.ServiceInstance // nil in a cleanup if it was deleted
	binding  *platform.ServiceBinding
	plan     *platform.ServicePlan // the current plan, or the new one
	offering *platform.ServiceOffering
	previous *platform.ServicePlan // of an update
	context  map[string]any
	org      string
	route    string
}

func brokerOf(b *platform.ServiceBroker) osb.Broker {
	return osb.Broker{GUID: b.GUID, Name: b.Name, URL: b.URL, Username: b.Username, Password: b.Password,
		Guarded: b.SpaceGUID != ""}
}

func (s *Services) sceneOf(ctx context.Context, w *work) (*scene, error) {
	var out *scene
	err := s.Store.View(ctx, func(tx platform.Tx) error {
		out = &scene{}
		b, err := tx.ServiceBrokers().Get(w.Broker)
		if fault.Is(err, fault.NotFound) {
			return fault.Wrap(err, fault.Unprocessable, "The service broker was removed.")
		}
		if err != nil {
			return err
		}
		out.broker = brokerOf(b)
		if w.Kind == cleanup || w.Kind == revoke {
			return nil
		}
		if out.instance, err = tx.ServiceInstances().Get(w.Instance); err != nil {
			return err
		}
		if w.binding() {
			if out.binding, err = tx.ServiceBindings().Get(w.Binding); err != nil {
				return err
			}
		}
		return out.read(tx, w)
	})
	return out, err
}

// read adds plan, offering and context.
func (c *scene) read(tx platform.Tx, w *work) (err error) {
	if c.plan, err = tx.ServicePlans().Get(c.instance.PlanGUID); err != nil {
		return err
	}
	c.previous = c.plan
	name := c.instance.Name
	if w.Change != nil {
		if w.Change.PlanGUID != "" {
			if c.plan, err = tx.ServicePlans().Get(w.Change.PlanGUID); err != nil {
				return err
			}
		}
		if w.Change.Name != nil {
			name = *w.Change.Name
		}
	}
	if c.offering, err = tx.ServiceOfferings().Get(c.plan.OfferingGUID); err != nil {
		return err
	}
	space, err := tx.Spaces().Get(c.instance.SpaceGUID)
	if err != nil {
		return err
	}
	if c.context, err = contextOf(tx, space); err != nil {
		return err
	}
	c.org = space.OrgGUID
	if c.binding == nil {
		c.context["instance_name"] = name
		c.context["instance_annotations"] = annotations(&c.instance.Metadata)
		return nil
	}
	return c.readBound(tx)
}

// readBound adds the app or route of a binding. The context is that of the app's
// space.
func (c *scene) readBound(tx platform.Tx) error {
	if c.binding.AppGUID != "" {
		app, err := tx.Apps().Get(c.binding.AppGUID)
		if err != nil {
			return err
		}
		space, err := tx.Spaces().Get(app.SpaceGUID)
		if err != nil {
			return err
		}
		if c.context, err = contextOf(tx, space); err != nil {
			return err
		}
		c.context["app_guid"], c.context["app_name"], c.context["app_annotations"] = app.GUID, app.Name,
			annotations(&app.Metadata)
		c.org = space.OrgGUID
	}
	if c.binding.RouteGUID != "" {
		route, err := tx.Routes().Get(c.binding.RouteGUID)
		if err != nil {
			return err
		}
		domain, err := tx.Domains().Get(route.DomainGUID)
		if err != nil {
			return err
		}
		c.route = platform.RouteURL(route, domain)
	}
	return nil
}

func contextOf(tx platform.Tx, space *platform.Space) (map[string]any, error) {
	org, err := tx.Organizations().Get(space.OrgGUID)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"platform": "cloudfoundry", "organization_guid": org.GUID, "organization_name": org.Name,
		"organization_annotations": annotations(&org.Metadata),
		"space_guid":               space.GUID, "space_name": space.Name, "space_annotations": annotations(&space.Metadata),
	}, nil
}

func annotations(m *platform.Metadata) map[string]string {
	if m.Annotations == nil {
		return map[string]string{}
	}
	return m.Annotations
}

// result is the response of a broker to any call.
type result struct {
	osb.Answer
	binding *osb.Binding
}

// operate performs one step of an operation on an instance or binding.
func (s *Services) operate(ctx context.Context, job *platform.Job, w *work) error {
	at, err := s.sceneOf(ctx, w)
	switch {
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Unprocessable):
		// The instance or binding was deleted meanwhile, for example by purging.
		return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
			finish(mine, platform.JobFailed,
				s.jobError(ctx, fault.Wrap(err, fault.Unprocessable, "The resource was deleted meanwhile.")))
			if w.Kind != rotate {
				return nil
			}
			return s.rotationFailed(tx, w, "The binding was deleted meanwhile.")
		})
	case err != nil:
		return err
	}
	w.Phase = cmp.Or(w.Phase, calling)
	r, err := s.ask(ctx, at, w)
	if ctx.Err() != nil {
		return ctx.Err() // the step is repeated
	}
	var outcome osb.Outcome
	var said *osb.Error
	switch {
	case errors.As(err, &said):
		outcome = said.Outcome
		// An earlier attempt reached the broker, but its response was lost.
		if said.Status == http.StatusConflict && w.Phase == calling && job.Attempt > 1 {
			outcome = osb.Unknown
		}
	case err != nil:
		return err
	default:
		outcome = r.Outcome
	}
	v := judge(w.Kind, w.binding(), w.Phase, outcome, s.late(job, w))
	return s.conclude(ctx, job, w, at, r, v, err)
}

// late reports whether a phase has lasted long enough. The first call has: a broker
// that is busy then is so with something else, and the operation fails at once. A
// repeated call may meet what the call before it began.
func (s *Services) late(job *platform.Job, w *work) bool {
	switch w.Phase {
	case polling:
		most := s.MaxPolling
		if w.MaxPolling > 0 {
			most = w.MaxPolling
		}
		return clock.Steady().Sub(w.Begun) > most
	case fetching:
		return w.Tries >= fetchTries
	case calling:
	}
	return job.Attempt <= 1 || w.Tries >= busyTries
}

// ask performs the call of this step.
func (s *Services) ask(ctx context.Context, at *scene, w *work) (*result, error) {
	id := osb.Instance{ID: w.Instance, ServiceID: w.ServiceID, PlanID: w.PlanID}
	user := w.Actor.GUID
	plain := func(a *osb.Answer, err error) (*result, error) {
		if err != nil {
			return nil, err
		}
		return &result{Answer: *a}, nil
	}
	bound := func(b *osb.Binding, err error) (*result, error) {
		if err != nil {
			return nil, err
		}
		return &result{Answer: b.Answer, binding: b}, nil
	}
	switch {
	case w.Phase == polling && w.binding():
		return plain(s.client.PollBinding(ctx, at.broker, id, w.bindingID(), w.Operation, user))
	case w.Phase == polling:
		return plain(s.client.Poll(ctx, at.broker, id, w.Operation, user))
	case w.Phase == fetching:
		return bound(s.client.FetchBinding(ctx, at.broker, id, w.bindingID(), user))
	case w.binding() && (w.Kind == create || w.Kind == rotate):
		return bound(s.client.Bind(ctx, at.broker, osb.BindChange{
			Instance: id, BindingID: w.bindingID(), User: user, Context: at.context, Parameters: w.Parameters,
			AppGUID: at.binding.AppGUID, SpaceGUID: at.binding.SpaceGUID, Route: at.route, Predecessor: w.Predecessor,
		}))
	case w.binding():
		return plain(s.client.Unbind(ctx, at.broker, id, w.bindingID(), user))
	case w.Kind == create, w.Kind == update:
		k := osb.Change{
			Instance: id, User: user, Context: at.context, Parameters: w.Parameters, Maintenance: at.plan.MaintenanceVersion,
			OrgGUID: at.org, SpaceGUID: at.instance.SpaceGUID, PreviousPlanID: at.previous.CatalogID,
			PreviousMaintenance: at.instance.MaintenanceVersion,
		}
		if w.Kind == create {
			return plain(s.client.Provision(ctx, at.broker, k))
		}
		if w.Change == nil || w.Change.PlanGUID == "" && w.Change.Maintenance == "" {
			k.Maintenance = at.instance.MaintenanceVersion
		}
		return plain(s.client.Update(ctx, at.broker, k))
	}
	return plain(s.client.Deprovision(ctx, at.broker, id, user))
}

// conclude stores the result of a step.
func (s *Services) conclude(ctx context.Context, job *platform.Job, w *work, at *scene, r *result, v verdict,
	failure error) error {
	return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		next := w.copied() // the transaction may run again
		switch v.ending {
		case succeeded:
			finish(mine, platform.JobComplete)
			if err := s.succeed(tx, &next, at, r); err != nil {
				return err
			}
			if at.binding != nil && at.binding.AppGUID != "" { // it may add or remove a log drain
				tx.Announce(platform.Changes{Apps: []string{at.binding.AppGUID}})
			}
			description := ""
			if r != nil { // a broker that has nothing to delete answers with an error
				description = r.Description
			}
			return s.recordEnd(tx, &next, at, platform.OperationSucceeded, description)
		case failed:
			if failure == nil { // it took too long
				failure = fault.New(fault.Unprocessable, "The service broker did not finish the operation in time.")
			}
			finish(mine, platform.JobFailed, s.jobError(ctx, failure))
			if v.orphan {
				if err := s.mitigate(tx, &next); err != nil {
					return err
				}
			}
			if err := s.fail(tx, &next, describe(failure)); err != nil {
				return err
			}
			return s.recordEnd(tx, &next, at, platform.OperationFailed, describe(failure))
		case goesOn:
		}
		if v.again {
			next.Tries++
		} else {
			next.Tries = 0
		}
		moved := next.Phase != v.next
		next.Phase = v.next
		if moved && v.next == polling {
			next.Begun, next.Operation = clock.Steady(), r.Operation
			if err := s.started(tx, &next, r); err != nil {
				return err
			}
		}
		if v.next == polling || v.next == fetching {
			mine.State = platform.JobPolling
			if r != nil && r.Description != "" && next.Kind != cleanup && next.Kind != revoke {
				if err := s.progress(tx, &next, r.Description); err != nil {
					return err
				}
			}
		}
		return reschedule(mine, &next, clock.Steady().Add(s.delay(&next, v, r)))
	})
}

// delay returns how long to wait before the next step.
func (s *Services) delay(w *work, v verdict, r *result) time.Duration {
	switch {
	case v.next == fetching && !v.again:
		return 0
	case r != nil && r.RetryAfter > 0:
		return min(r.RetryAfter, time.Hour)
	case v.next == calling && (w.Kind == cleanup || w.Kind == revoke):
		return pause(w.Tries, s.Retry, 10*time.Minute)
	}
	return pause(w.Tries, s.Poll, s.MaxPoll)
}

// mitigate stores a job that deletes what the broker may have created.
func (s *Services) mitigate(tx platform.Tx, w *work) error {
	_, err := s.insertJob(tx, "service.cleanup", "", "", &work{
		Kind: cleanup, Phase: calling, Actor: w.Actor, Broker: w.Broker, Instance: w.Instance, Binding: w.bindingID(),
		ServiceID: w.ServiceID, PlanID: w.PlanID,
	})
	return err
}
