package services_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/brokertest"
)

// endings are the events about the ends of operations, oldest first.
func (k *bench) endings() (all []string) {
	k.Helper()
	k.view(func(tx platform.Tx) error {
		events, _, err := tx.AuditEvents().List(platform.Where("type", services.EventOperationFinished))
		all = nil
		for _, e := range events {
			if e.SpaceGUID != k.space.GUID || e.OrgGUID != k.space.OrgGUID || e.ActorGUID != actor.GUID ||
				e.TargetType != "service_instance" {
				k.Errorf("event %+v", e)
			}
			all = append(all, fmt.Sprintf("%v of %s %v: %v", e.Data["operation"], e.TargetName, e.Data["state"],
				e.Data["description"]))
		}
		return err
	})
	slices.Sort(all)
	return all
}

// TestEndsOfOperationsAreRecorded sees that operations which took time leave one
// event at their end, and those that were answered at once leave none.
func TestEndsOfOperationsAreRecorded(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			testEnds(t, dialect)
		})
	}
}

func testEnds(t *testing.T, dialect db.Dialect) {
	k := setupOn(t, dialect, &brokertest.Broker{Polls: 2})
	k.start(k.Services)
	// A second worker looks for the same work.
	k.start(k.worker(services.Config{}))
	later, job := k.create("later", brokertest.Async, nil)
	k.complete(job.GUID)
	at, job := k.create("at-once", brokertest.Sync, nil)
	k.complete(job.GUID)
	_, job = k.create("broken", brokertest.Breaks, nil)
	broken := k.ended(job.GUID)
	_, job = k.create("refused", brokertest.Fails, nil)
	k.ended(job.GUID)
	bound, job := k.bind(later)
	k.complete(job.GUID)
	k.update(func(tx platform.Tx) (err error) {
		if bound, err = tx.ServiceBindings().Get(bound.GUID); err != nil {
			return err
		}
		job, err = k.Unbind(tx, actor, bound)
		return err
	})
	k.complete(job.GUID)

	k.update(func(tx platform.Tx) error {
		i, err := tx.ServiceInstances().Get(later.GUID)
		if err != nil {
			return err
		}
		name := "much-later"
		job, err = k.UpdateInstance(tx, actor, i, services.Change{Name: &name, Parameters: map[string]any{"size": 2}})
		return err
	})
	k.complete(job.GUID)
	for _, guid := range []string{later.GUID, at.GUID} {
		k.update(func(tx platform.Tx) error {
			i, err := tx.ServiceInstances().Get(guid)
			if err != nil {
				return err
			}
			job, err = k.DeleteInstance(tx, actor, i)
			return err
		})
		k.complete(job.GUID)
	}
	k.quiet()
	want := []string{
		"create of broken failed: " + broken.Errors[0].Detail,
		"create of later succeeded: done " + later.GUID,
		"delete of much-later succeeded: done " + later.GUID,
		"update of much-later succeeded: done " + later.GUID,
	}
	if got := k.endings(); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// contended is a store on which every change is tried twice. At the first time
// another instance has the name, and everything is undone.
type contended struct {
	platform.Store
	taken *platform.ServiceInstance
}

func (c contended) Update(ctx context.Context, f func(platform.Tx) error) error {
	undo := errors.New("undo")
	err := c.Store.Update(ctx, func(tx platform.Tx) error {
		other := *c.taken
		if err := tx.ServiceInstances().Insert(&other); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		return err
	}
	return c.Store.Update(ctx, f)
}

// TestRenamedAfterAll sees that nothing of a transaction that was undone is left
// in the one that holds: the name that was taken is free then.
func TestRenamedAfterAll(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	i, job := k.create("early", brokertest.Sync, nil)
	name := "late"
	sure := k.store
	k.store = contended{sure, &platform.ServiceInstance{Name: name, SpaceGUID: k.space.GUID,
		PlanGUID: k.plans[brokertest.Sync], Type: platform.ServiceManaged}}
	worker := k.worker(services.Config{})
	k.store = sure
	k.start(worker)
	k.complete(job.GUID)
	k.update(func(tx platform.Tx) error {
		now, err := tx.ServiceInstances().Get(i.GUID)
		if err != nil {
			return err
		}
		job, err = k.UpdateInstance(tx, actor, now, services.Change{Name: &name, Parameters: map[string]any{"size": 2}})
		return err
	})
	k.complete(job.GUID)
	if got := k.instance(i.GUID).Name; got != name {
		t.Errorf("it is %q", got)
	}
}
