package services_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/brokertest"
	"ingot/internal/platform/services/osb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a store with a space, a broker and a worker.
type bench struct {
	*testing.T
	store    platform.Store
	platform *actions.Platform
	broker   *brokertest.Broker
	*services.Services
	plans map[string]string // guids by name
	app   *platform.App
	space *platform.Space
}

var actor = actions.Actor{GUID: "user", Type: "user", Name: "u", Admin: true}

func setup(t *testing.T, b *brokertest.Broker) *bench { return setupOn(t, db.SQLite, b) }

func setupOn(t *testing.T, dialect db.Dialect, b *brokertest.Broker) *bench {
	t.Helper()
	d := dbtest.Migrated(t, dialect, platformdb.Migrations)
	k := &bench{T: t, store: platformdb.New(d), platform: actions.New(), broker: brokertest.New(t, b),
		plans: map[string]string{}}
	k.update(func(tx platform.Tx) error {
		org := &platform.Organization{Name: "o"}
		if err := tx.Organizations().Insert(org); err != nil {
			return err
		}
		k.space = &platform.Space{Name: "s", OrgGUID: org.GUID,
			Metadata: platform.Metadata{Annotations: map[string]string{"a": "b"}}}
		if err := tx.Spaces().Insert(k.space); err != nil {
			return err
		}
		k.app = &platform.App{Name: "app", SpaceGUID: k.space.GUID}
		return tx.Apps().Insert(k.app)
	})
	k.Services = k.worker(services.Config{})
	if err := k.Register(t.Context(), "b", k.broker.URL, brokertest.Username, brokertest.Password); err != nil {
		t.Fatal(err)
	}
	k.view(func(tx platform.Tx) error {
		all, _, err := tx.ServicePlans().List(platform.Query{})
		for _, p := range all {
			k.plans[p.Name] = p.GUID
		}
		return err
	})
	return k
}

// worker makes another worker on the same store, with short times.
func (k *bench) worker(c services.Config) *services.Services {
	c.Store, c.Platform = k.store, k.platform
	if c.Sweep == 0 {
		c.Sweep = time.Hour // what happens does not need it
	}
	if c.Poll == 0 {
		c.Poll = 5 * time.Millisecond
	}
	c.MaxPoll, c.Retry, c.Interval = 20*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond
	if c.Lease == 0 {
		c.Lease = 300 * time.Millisecond
	}
	if c.Broker.Timeout == 0 {
		c.Broker = osb.Options{Timeout: 30 * time.Second}
	}
	return services.New(c)
}

func (k *bench) start(s *services.Services) {
	k.Helper()
	if err := s.Start(k.Context()); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(s.Stop)
}

func (k *bench) update(f func(tx platform.Tx) error) {
	k.Helper()
	if err := k.store.Update(k.Context(), f); err != nil {
		k.Fatal(err)
	}
}

func (k *bench) view(f func(tx platform.Tx) error) {
	k.Helper()
	if err := k.store.View(context.WithoutCancel(k.Context()), f); err != nil {
		k.Fatal(err)
	}
}

// create wants an instance.
func (k *bench) create(name, plan string, parameters map[string]any) (i *platform.ServiceInstance, job *platform.Job) {
	k.Helper()
	k.update(func(tx platform.Tx) (err error) {
		i = &platform.ServiceInstance{Name: name, SpaceGUID: k.space.GUID, PlanGUID: k.plans[plan]}
		job, _, err = k.CreateInstance(tx, actor, i, parameters)
		return err
	})
	return i, job
}

func (k *bench) bind(i *platform.ServiceInstance) (b *platform.ServiceBinding, job *platform.Job) {
	k.Helper()
	k.update(func(tx platform.Tx) (err error) {
		now, err := tx.ServiceInstances().Get(i.GUID)
		if err != nil {
			return err
		}
		b, job, err = k.Bind(tx, actor, services.Bind{Type: platform.BindingApp, Instance: now, App: k.app})
		return err
	})
	return b, job
}

// ended waits for a job and returns it.
func (k *bench) ended(guid string) (j *platform.Job) {
	k.Helper()
	for {
		k.view(func(tx platform.Tx) (err error) {
			j, err = tx.Jobs().Get(guid)
			return err
		})
		if j.State == platform.JobComplete || j.State == platform.JobFailed {
			return j
		}
		tick()
	}
}

// tick lets others work between two looks; nothing depends on how long it is.
func tick() { <-time.After(2 * time.Millisecond) }

func (k *bench) complete(guid string) {
	k.Helper()
	if j := k.ended(guid); j.State != platform.JobComplete {
		k.Fatalf("job %s is %s, want complete: %v", j.Operation, j.State, j.Errors)
	}
}

func (k *bench) instance(guid string) (i *platform.ServiceInstance) {
	k.Helper()
	k.view(func(tx platform.Tx) (err error) {
		i, err = tx.ServiceInstances().Get(guid)
		return err
	})
	return i
}

// quiet waits until no job is left to do.
func (k *bench) quiet() {
	k.Helper()
	testkit.Eventually(k.T, "no work is left", func() bool {
		n := 0
		k.view(func(tx platform.Tx) (err error) {
			n, err = tx.Jobs().Count(platform.Where("state", platform.JobProcessing, platform.JobPolling))
			return err
		})
		return n == 0
	})
}

func TestWhatBrokersAreTold(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{Polls: 1})
	k.start(k.Services)
	i, job := k.create("db", brokertest.Async, map[string]any{"size": 3})
	k.complete(job.GUID)
	b, job := k.bind(i)
	k.complete(job.GUID)
	provision := k.broker.Requests("provision")[0]
	contextOf, _ := provision.Body["context"].(map[string]any)
	if contextOf["platform"] != "cloudfoundry" || contextOf["space_guid"] != k.space.GUID ||
		contextOf["instance_name"] != "db" || contextOf["organization_name"] != "o" ||
		fmt.Sprint(contextOf["space_annotations"]) != "map[a:b]" {
		t.Errorf("context: %v", contextOf)
	}
	if provision.Query["accepts_incomplete"] != "true" || provision.Body["space_guid"] != k.space.GUID {
		t.Errorf("provision: %v %v", provision.Query, provision.Body)
	}
	for name, want := range map[string]string{"X-Broker-Api-Version": "2.17",
		"X-Broker-Api-Originating-Identity": "cloudfoundry eyJ1c2VyX2lkIjoidXNlciJ9"} {
		if got := provision.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if provision.Header.Get("X-Broker-Api-Request-Identity") == "" {
		t.Error("no request identity")
	}
	bind := k.broker.Requests("bind")[0]
	if resource, _ := bind.Body["bind_resource"].(map[string]any); resource["app_guid"] != k.app.GUID ||
		bind.Path != "/v2/service_instances/"+i.GUID+"/service_bindings/"+b.GUID {
		t.Errorf("bind: %s %v", bind.Path, bind.Body)
	}
	if len(k.broker.Requests("fetch_binding")) != 1 {
		t.Error("an asynchronous binding is not fetched")
	}
	if i := k.instance(i.GUID); i.DashboardURL != "https://example.org/dashboard" || i.Last.Description != "done "+i.GUID {
		t.Errorf("got %+v", i)
	}
}

// TestOrphans sees that what a broker may have created for a failed request is removed there,
// however it fails.
func TestOrphans(t *testing.T) {
	t.Parallel()
	var down atomic.Int32
	down.Store(3)
	broken := func(r *brokertest.Request) (*brokertest.Reply, bool) {
		switch {
		case r.Operation() == "provision" && r.Body["plan_id"] == brokertest.Sync:
			return &brokertest.Reply{Status: 500, Body: map[string]any{"description": "halfway"}}, true
		case r.Operation() == "deprovision" && down.Add(-1) >= 0:
			return &brokertest.Reply{Status: 503, Body: "no"}, false
		case r.Operation() == "fetch_binding":
			return &brokertest.Reply{Status: 200, Body: "[1]"}, true
		}
		return nil, false
	}
	k := setup(t, &brokertest.Broker{Hook: broken})
	k.start(k.Services)
	for plan, want := range map[string]string{brokertest.Sync: "halfway", brokertest.Garbage: "invalid response"} {
		i, job := k.create(plan, plan, nil)
		if j := k.ended(job.GUID); j.State != platform.JobFailed || len(j.Errors) != 1 ||
			!strings.Contains(j.Errors[0].Detail, want) {
			t.Errorf("plan %s: job is %v, want it failed with %q", plan, j, want)
		}
		if i := k.instance(i.GUID); i.Last.State != platform.OperationFailed || !strings.Contains(i.Last.Description, want) {
			t.Errorf("plan %s: last operation is %+v, want it failed with %q", plan, i.Last, want)
		}
	}
	i, job := k.create("ok", brokertest.Async, nil)
	k.complete(job.GUID)
	_, job = k.bind(i)
	if j := k.ended(job.GUID); j.State != platform.JobFailed {
		t.Errorf("a binding that cannot be fetched: %v", j)
	}
	k.quiet()
	if left := k.broker.Instances(); len(left) != 1 || k.broker.Bindings() != 0 {
		t.Errorf("left at the broker: %v", left)
	}
}

// TestBusyBroker sees that an operation fails at once if the broker is busy with another
// one, as in Cloud Foundry, and that a call that is repeated after a crash waits for the
// operation that it began.
func TestBusyBroker(t *testing.T) {
	t.Parallel()
	var busy atomic.Int32
	k := setup(t, &brokertest.Broker{Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		if r.Operation() == "provision" && busy.Add(-1) >= 0 {
			return &brokertest.Reply{Status: 422, Body: map[string]any{"error": "ConcurrencyError"}}, true
		}
		return nil, false
	}})
	busy.Store(1)
	_, repeated := k.create("repeated", brokertest.Sync, nil)
	k.update(func(tx platform.Tx) error {
		j, err := tx.Jobs().Get(repeated.GUID)
		if err != nil {
			return err
		}
		j.Attempt = 1
		return tx.Jobs().Update(j)
	})
	k.start(k.Services)
	k.complete(repeated.GUID)
	busy.Store(1)
	i, job := k.create("first", brokertest.Sync, nil)
	if j := k.ended(job.GUID); j.State != platform.JobFailed || len(j.Errors) != 1 ||
		j.Errors[0].Title != "CF-AsyncServiceInstanceOperationInProgress" {
		t.Errorf("job is %v, want it failed because of another operation", j)
	}
	if i := k.instance(i.GUID); i.Last.State != platform.OperationFailed {
		t.Errorf("last operation is %+v, want it failed", i.Last)
	}
	k.quiet()
	if n := len(k.broker.Requests("deprovision")); n != 0 {
		t.Errorf("the broker was asked %d times to delete what it refused, want never", n)
	}
}

func TestPollingTakesTooLong(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		if r.Operation() == "last_operation" && r.Query["operation"] == "operation-1" {
			return &brokertest.Reply{Status: 200, Body: map[string]any{"state": "in progress"}}, false
		}
		return nil, false
	}})
	k.start(k.worker(services.Config{MaxPolling: 50 * time.Millisecond}))
	_, job := k.create("db", brokertest.Async, nil)
	if j := k.ended(job.GUID); j.State != platform.JobFailed || !strings.Contains(j.Errors[0].Detail, "did not finish") {
		t.Errorf("got %v", j)
	}
	k.quiet()
	if len(k.broker.Requests("deprovision")) == 0 {
		t.Error("nothing was cleaned up")
	}
}

// TestSlowBrokerBlocksNobody has a broker that does not answer, with more work
// than calls that it may have, beside one that does.
func TestSlowBrokerBlocksNobody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	var entered atomic.Int32
	k := setup(t, &brokertest.Broker{Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		if r.Operation() == "provision" {
			entered.Add(1)
			<-release
		}
		return nil, false
	}})
	t.Cleanup(free)
	k.start(k.Services)
	quick := brokertest.New(t, &brokertest.Broker{Offering: "quick"})
	if err := k.Register(t.Context(), "quick", quick.URL, brokertest.Username, brokertest.Password); err != nil {
		t.Fatal(err)
	}
	var stuck []string
	for n := range 20 {
		_, job := k.create(fmt.Sprint("stuck-", n), brokertest.Sync, nil)
		stuck = append(stuck, job.GUID)
	}
	testkit.Eventually(k.T, "all calls it may have are under way", func() bool { return entered.Load() == 8 })
	k.view(func(tx platform.Tx) error {
		p, err := tx.ServicePlans().First(platform.Where("broker_name", "quick").And(platform.In("name", brokertest.Sync)))
		k.plans["quick"] = p.GUID
		return err
	})
	_, job := k.create("other", "quick", nil)
	k.complete(job.GUID)
	if n := entered.Load(); n != 8 {
		t.Errorf("%d calls at once", n)
	}
	free()
	for _, guid := range stuck {
		k.complete(guid)
	}
}

// TestKilled stops workers in the middle of every call, at any moment, and lets
// others go on: in the end everything is as wanted, and nothing is left over.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			k := setupOn(t, dialect, &brokertest.Broker{Polls: 1, Hook: func(*brokertest.Request) (*brokertest.Reply, bool) {
				calls.Add(1)
				return nil, false
			}})
			ctx, cancel := context.WithCancel(t.Context())
			var killing sync.WaitGroup
			killing.Go(func() {
				for ctx.Err() == nil {
					s := k.worker(services.Config{})
					if s.Start(t.Context()) != nil {
						return
					}
					// It lives for two calls of a broker.
					for from := calls.Load(); ctx.Err() == nil && calls.Load() < from+2; {
						tick()
					}
					s.Stop()
				}
			})
			for round := range map[db.Dialect]int{db.SQLite: 3, db.Postgres: 1}[dialect] {
				for _, plan := range []string{brokertest.Sync, brokertest.Async} {
					i, job := k.create(fmt.Sprint(plan, round), plan, nil)
					k.complete(job.GUID)
					b, job := k.bind(i)
					k.complete(job.GUID)
					k.update(func(tx platform.Tx) (err error) {
						if b, err = tx.ServiceBindings().Get(b.GUID); err != nil {
							return err
						}
						job, err = k.Unbind(tx, actor, b)
						return err
					})
					k.complete(job.GUID)
					k.update(func(tx platform.Tx) (err error) {
						if i, err = tx.ServiceInstances().Get(i.GUID); err != nil {
							return err
						}
						job, err = k.DeleteInstance(tx, actor, i)
						return err
					})
					k.complete(job.GUID)
				}
			}
			k.quiet()
			cancel()
			killing.Wait()
			if left := k.broker.Instances(); len(left) != 0 {
				t.Errorf("left at the broker: %v", left)
			}
			k.view(func(tx platform.Tx) error {
				instances, err := tx.ServiceInstances().Count(platform.Query{})
				if err != nil {
					return err
				}
				bindings, err := tx.ServiceBindings().Count(platform.Query{})
				if instances+bindings != 0 {
					t.Errorf("%d instances and %d bindings are left", instances, bindings)
				}
				return err
			})
		})
	}
}

// TestWorkerDies has a worker that was killed without a word: its lease ends,
// and another one goes on.
func TestWorkerDies(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	i, job := k.create("db", brokertest.Sync, nil)
	k.update(func(tx platform.Tx) error {
		j, err := tx.Jobs().Get(job.GUID)
		if err != nil {
			return err
		}
		j.Worker, j.Lease, j.Attempt = "dead", time.Now().Add(100*time.Millisecond), 1
		return tx.Jobs().Update(j)
	})
	k.start(k.Services)
	k.complete(job.GUID)
	if i := k.instance(i.GUID); i.Last.State != platform.OperationSucceeded {
		t.Errorf("got %+v", i.Last)
	}
}

// TestJobTakenOver has another worker take a job whose broker is being called. The first one
// gives up without an error in its log.
func TestJobTakenOver(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	called, release := make(chan struct{}), make(chan struct{})
	k := setup(t, &brokertest.Broker{Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		if r.Operation() == "provision" && calls.Add(1) == 1 {
			close(called)
			<-release
		}
		return nil, false
	}})
	t.Cleanup(func() { close(release) })
	var log bytes.Buffer
	s := k.worker(services.Config{MaxBrokerCalls: 1,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	k.start(s)
	_, job := k.create("db", brokertest.Sync, nil)
	<-called
	k.update(func(tx platform.Tx) error {
		j, err := tx.Jobs().Get(job.GUID)
		if err != nil {
			return err
		}
		j.Worker, j.Lease, j.Attempt = "other", time.Now().Add(24*time.Hour), j.Attempt+1
		return tx.Jobs().Update(j)
	})
	_, next := k.create("next", brokertest.Sync, nil) // it waits until the first call is over
	k.complete(next.GUID)
	s.Stop()
	if log.Len() > 0 {
		t.Errorf("the log has %s", &log)
	}
}

// TestWorkerComesBack has the worker itself come back: it need not wait.
func TestWorkerComesBack(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	_, job := k.create("db", brokertest.Sync, nil)
	k.update(func(tx platform.Tx) error {
		j, err := tx.Jobs().Get(job.GUID)
		if err != nil {
			return err
		}
		j.Worker, j.Lease, j.Attempt = "me", time.Now().Add(24*time.Hour), 1
		return tx.Jobs().Update(j)
	})
	k.start(k.worker(services.Config{Worker: "me"}))
	k.complete(job.GUID)
}

// TestCatalogChanges sees what becomes of plans that a broker no longer offers.
func TestCatalogChanges(t *testing.T) {
	t.Parallel()
	var shrunk atomic.Bool
	k := setup(t, &brokertest.Broker{Change: func(c map[string]any) {
		if shrunk.Load() {
			service := c["services"].([]any)[0].(map[string]any)
			service["plans"] = service["plans"].([]any)[:1]
		}
	}})
	k.start(k.Services)
	used, job := k.create("db", brokertest.Paid, nil)
	k.complete(job.GUID)
	k.update(func(tx platform.Tx) error { // a concurrent change
		p, err := tx.ServicePlans().Get(k.plans[brokertest.Sync])
		if err != nil {
			return err
		}
		p.Visibility = platform.VisibleAdmin
		return tx.ServicePlans().Update(p)
	})
	shrunk.Store(true)
	for range 2 {
		if err := k.Register(t.Context(), "b", k.broker.URL, brokertest.Username, brokertest.Password); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	k.view(func(tx platform.Tx) error {
		all, _, err := tx.ServicePlans().List(platform.Query{Order: "name"})
		for _, p := range all {
			names = append(names, fmt.Sprint(p.Name, p.Available, p.Visibility))
		}
		return err
	})
	if want := []string{"paidfalsepublic", "synctrueadmin"}; !slices.Equal(names, want) {
		t.Errorf("plans are %v, want %v", names, want)
	}
	err := k.store.Update(t.Context(), func(tx platform.Tx) error {
		_, _, err := k.CreateInstance(tx, actor, &platform.ServiceInstance{Name: "x", SpaceGUID: k.space.GUID,
			PlanGUID: used.PlanGUID}, nil)
		return err
	})
	if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), "no longer offered") {
		t.Errorf("got %v", err)
	}
	if err := k.Register(t.Context(), "b", "http://127.0.0.1:1", "u", "p"); err == nil {
		t.Error("a broker that is not there was registered")
	}
}

func TestServicesHonourTheContract(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	backgroundtest.Stress(t, func(*testing.T) background.Service { return k.worker(services.Config{}) })
}
