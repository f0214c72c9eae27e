package services_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/brokertest"
)

// counting counts the transactions of a store: those that read, and those that wrote.
type counting struct {
	platform.Store
	views, updates atomic.Int64
}

func (c *counting) View(ctx context.Context, f func(platform.Tx) error) error {
	c.views.Add(1)
	return c.Store.View(ctx, f)
}

func (c *counting) Update(ctx context.Context, f func(platform.Tx) error) error {
	err := c.Store.Update(ctx, f)
	if err == nil { // one that finds that another worker has the job writes nothing
		c.updates.Add(1)
	}
	return err
}

// waitingJob waits until the job of a rotation waits for something to happen, and returns it.
func (k *bench) waitingJob(row *platform.CredentialRotation) *platform.Job {
	k.Helper()
	var job *platform.Job
	testkit.Eventually(k.T, "the job of the rotation waits", func() bool {
		k.view(func(tx platform.Tx) (err error) {
			job, err = tx.Jobs().First(platform.Where("resource_guid", row.GUID))
			return err
		})
		return job.Worker == "" && time.Until(job.Due) > time.Minute
	})
	return job
}

// TestWaitingRotationWritesNothing has a rotation that waits for an instance: however often the
// worker looks, it writes nothing.
func TestWaitingRotationWritesNothing(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	store := &counting{Store: k.store}
	k.store = store
	k.start(k.worker(services.Config{Sweep: time.Millisecond}))
	i, _ := k.bound(brokertest.Sync)
	instance := k.running()
	k.complete(k.rotate(i.GUID, services.Rotate{Restart: false}).GUID)
	before := k.rotation(i.GUID)
	job := k.waitingJob(before)
	views := store.views.Load()
	testkit.Eventually(t, "what was under way has ended", func() bool { return store.views.Load() > views+20 })
	updates, views := store.updates.Load(), store.views.Load()
	testkit.Eventually(t, "the worker looks often", func() bool { return store.views.Load() > views+100 })
	if n := store.updates.Load() - updates; n != 0 {
		t.Errorf("%d transactions wrote while nothing changed", n)
	}
	if now := k.waitingJob(before); !reflect.DeepEqual(now, job) {
		t.Errorf("the job was %+v, now %+v", job, now)
	}
	if now := k.rotation(i.GUID); !reflect.DeepEqual(now, before) {
		t.Errorf("the rotation was %+v, now %+v", before, now)
	}
	// An instance that stops without a word is noticed by the sweep.
	k.update(func(tx platform.Tx) error { return tx.Instances().Delete(instance) })
	k.awaits(i.GUID, platform.RotationRevoked)
}

// TestStoppedInstanceWakesRotation has a worker that does not look by itself: what stops the
// instance makes the job due.
func TestStoppedInstanceWakesRotation(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	k.start(k.Services)
	i, _ := k.bound(brokertest.Sync)
	instance := k.running()
	k.complete(k.rotate(i.GUID, services.Rotate{Restart: false}).GUID)
	k.waitingJob(k.rotation(i.GUID))
	k.stops(instance)
	k.awaits(i.GUID, platform.RotationRevoked)
	if n := k.broker.Bindings(); n != 1 {
		t.Errorf("the broker has %d bindings, want 1", n)
	}
}

// gate is a sink that blocks while it is closed.
type gate struct {
	closed  atomic.Bool
	entered chan struct{}
	open    chan struct{}
}

func (g *gate) Changed(_ context.Context, c platform.Changes) {
	if len(c.Apps) > 0 && g.closed.Load() {
		g.entered <- struct{}{}
		<-g.open
	}
}

// TestWaitingRotationHoldsNoCall has a broker that takes one call at a time, and a step of a
// rotation that does not end although it calls no broker: another instance is created.
func TestWaitingRotationHoldsNoCall(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	g := &gate{entered: make(chan struct{}, 10), open: make(chan struct{})}
	k.store.(*platformdb.Store).Notify(g) //nolint:forcetypeassert // see setupOn
	k.start(k.worker(services.Config{MaxBrokerCalls: 1, Lease: time.Minute}))
	open := sync.OnceFunc(func() { g.closed.Store(false); close(g.open) })
	t.Cleanup(open)
	i, _ := k.bound(brokertest.Sync)
	k.running()
	canary := k.canary()
	k.complete(k.rotate(i.GUID, services.Rotate{Restart: true}).GUID)
	k.waitingJob(k.rotation(i.GUID))
	g.closed.Store(true)
	k.cancel(canary)
	<-g.entered
	_, job := k.create("of another tenant", brokertest.Sync, nil)
	k.complete(job.GUID)
	open()
}

// TestRotationsOfASpaceAreLimited refuses rotations while too many of the space are unfinished.
func TestRotationsOfASpaceAreLimited(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	k.start(k.Services)
	i, b := k.bound(brokertest.Sync)
	row := &platform.CredentialRotation{BindingGUID: "other", InstanceGUID: "other", SpaceGUID: k.space.GUID,
		State: platform.RotationApplying}
	k.update(func(tx platform.Tx) error {
		for range 200 {
			row.Resource = platform.Resource{}
			if err := tx.CredentialRotations().Insert(row); err != nil {
				return err
			}
		}
		return nil
	})
	err := k.store.Update(t.Context(), func(tx platform.Tx) error {
		now, err := tx.ServiceInstances().Get(i.GUID)
		if err != nil {
			return err
		}
		_, err = k.Rotate(tx, actor, services.Rotate{Instance: now, Bindings: []*platform.ServiceBinding{b}})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "200 rotations of credentials that are not finished") ||
		!strings.Contains(err.Error(), "Restart the apps") {
		t.Errorf("got %v", err)
	}
	k.update(func(tx platform.Tx) error {
		row.State = platform.RotationRevoked
		return tx.CredentialRotations().Update(row)
	})
	k.complete(k.rotate(i.GUID, services.Rotate{}).GUID)
}
