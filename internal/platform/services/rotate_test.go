package services_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/brokertest"
)

// running gives the app a web process with one instance, and returns the instance.
func (k *bench) running() string {
	k.Helper()
	one := &platform.Instance{AppGUID: k.app.GUID, State: platform.InstanceRunning, Ready: true}
	k.update(func(tx platform.Tx) error {
		d := &platform.Droplet{AppGUID: k.app.GUID, State: platform.DropletStaged}
		if err := tx.Droplets().Insert(d); err != nil {
			return err
		}
		p := &platform.Process{AppGUID: k.app.GUID, Type: platform.WebProcess, Instances: 1,
			ProcessSettings: platform.ProcessSettings{MemoryMB: 64, DiskMB: 64, LogRate: -1},
			Version:         "v1", DropletGUID: d.GUID}
		if err := tx.Processes().Insert(p); err != nil {
			return err
		}
		app, err := tx.Apps().Get(k.app.GUID)
		if err != nil {
			return err
		}
		app.State, app.DropletGUID = platform.AppStarted, d.GUID
		if err := tx.Apps().Update(app); err != nil {
			return err
		}
		k.app = app
		one.ProcessGUID, one.Version = p.GUID, p.Version
		return tx.Instances().Insert(one)
	})
	return one.GUID
}

// stops ends an instance, as the controller does when a deployment replaces it.
func (k *bench) stops(instance string) {
	k.Helper()
	k.update(func(tx platform.Tx) error {
		if err := tx.Instances().Delete(instance); err != nil {
			return err
		}
		return actions.CredentialsReleased(tx, k.app.GUID, instance)
	})
}

// canary gives the app an active deployment.
func (k *bench) canary() *platform.Deployment {
	k.Helper()
	d := &platform.Deployment{AppGUID: k.app.GUID, Status: platform.DeploymentActive, Reason: platform.ReasonPaused}
	k.update(func(tx platform.Tx) error {
		web, err := tx.Processes().First(platform.Where("app_guid", k.app.GUID))
		if err != nil {
			return err
		}
		d.PriorGUID = web.GUID
		return tx.Deployments().Insert(d)
	})
	return d
}

// cancel ends a deployment.
func (k *bench) cancel(d *platform.Deployment) {
	k.Helper()
	k.update(func(tx platform.Tx) error {
		d.Reason = platform.ReasonCanceling
		return k.platform.FinishDeployment(tx, k.app, d)
	})
}

// rotate asks for new credentials of all bindings.
func (k *bench) rotate(instance string, r services.Rotate) *platform.Job {
	k.Helper()
	var job *platform.Job
	k.update(func(tx platform.Tx) (err error) {
		if r.Instance, err = tx.ServiceInstances().Get(instance); err != nil {
			return err
		}
		if r.Bindings, _, err = tx.ServiceBindings().List(platform.Where("instance_guid", instance)); err != nil {
			return err
		}
		job, err = k.Rotate(tx, actor, r)
		return err
	})
	return job
}

func (k *bench) binding(guid string) (b *platform.ServiceBinding) {
	k.Helper()
	k.view(func(tx platform.Tx) (err error) {
		b, err = tx.ServiceBindings().Get(guid)
		return err
	})
	return b
}

func (k *bench) rotation(instance string) (row *platform.CredentialRotation) {
	k.Helper()
	k.view(func(tx platform.Tx) (err error) {
		row, err = tx.CredentialRotations().First(platform.Where("instance_guid", instance))
		return err
	})
	return row
}

// awaits waits for a state of the rotation of an instance.
func (k *bench) awaits(instance string, want platform.RotationState) *platform.CredentialRotation {
	k.Helper()
	var row *platform.CredentialRotation
	testkit.Eventually(k.T, "the rotation is "+string(want), func() bool {
		row = k.rotation(instance)
		return row.State == want
	})
	return row
}

func (k *bench) bound(plan string) (*platform.ServiceInstance, *platform.ServiceBinding) {
	k.Helper()
	i, job := k.create("db", plan, nil)
	k.complete(job.GUID)
	b, job := k.bind(i)
	k.complete(job.GUID)
	return i, k.binding(b.GUID)
}

// TestRotate replaces the credentials of a running app: the binding keeps its guid, the app is
// deployed, and the old credentials live until its old instance is gone.
func TestRotate(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		for _, plan := range []string{brokertest.Sync, brokertest.Async} {
			t.Run(dialect.String()+plan, func(t *testing.T) {
				t.Parallel()
				k := setupOn(t, dialect, &brokertest.Broker{Polls: 1})
				k.start(k.Services)
				i, before := k.bound(plan)
				instance := k.running()
				k.complete(k.rotate(i.GUID, services.Rotate{Restart: true}).GUID)
				now := k.binding(before.GUID)
				if now.Credentials["password"] == before.Credentials["password"] || now.BrokerID == "" ||
					now.Last.State != platform.OperationSucceeded {
					t.Errorf("the binding is %+v", now)
				}
				row := k.rotation(i.GUID)
				if row.State != platform.RotationApplying || row.Method != platform.ByRestart || row.DeploymentGUID == "" ||
					row.OldID != before.GUID {
					t.Errorf("the rotation is %+v", row)
				}
				if n := k.broker.Bindings(); n != 2 {
					t.Errorf("the broker has %d bindings while the old instance runs, want 2", n)
				}
				k.stops(instance)
				k.awaits(i.GUID, platform.RotationRevoked)
				if n := k.broker.Bindings(); n != 1 {
					t.Errorf("the broker has %d bindings, want 1", n)
				}
				if _, old := k.broker.Instances()[i.GUID].Bindings[before.GUID]; old {
					t.Error("the old binding is still at the broker")
				}
				// The binding is unbound by its new id.
				var job *platform.Job
				k.update(func(tx platform.Tx) (err error) {
					b, err := tx.ServiceBindings().Get(before.GUID)
					if err != nil {
						return err
					}
					job, err = k.Unbind(tx, actor, b)
					return err
				})
				k.complete(job.GUID)
				if n := k.broker.Bindings(); n != 0 {
					t.Errorf("the broker has %d bindings, want none", n)
				}
			})
		}
	}
}

// TestRotateAsksForASuccessor sees what brokers are asked: those that can are given the
// predecessor, others the parameters of the binding.
func TestRotateAsksForASuccessor(t *testing.T) {
	t.Parallel()
	for name, rotatable := range map[string]bool{"rotatable": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := setup(t, &brokertest.Broker{Change: func(c map[string]any) {
				for _, p := range c["services"].([]any)[0].(map[string]any)["plans"].([]any) {
					p.(map[string]any)["binding_rotatable"] = rotatable
				}
			}})
			k.start(k.Services)
			i, job := k.create("db", brokertest.Sync, nil)
			k.complete(job.GUID)
			var b *platform.ServiceBinding
			k.update(func(tx platform.Tx) (err error) {
				i, err := tx.ServiceInstances().Get(i.GUID)
				if err != nil {
					return err
				}
				b, job, err = k.Bind(tx, actor, services.Bind{Type: platform.BindingApp, Instance: i, App: k.app,
					Parameters: map[string]any{"role": "reader"}})
				return err
			})
			k.complete(job.GUID)
			k.complete(k.rotate(i.GUID, services.Rotate{}).GUID)
			binds := k.broker.Requests("bind")
			body := binds[len(binds)-1].Body
			parameters, _ := body["parameters"].(map[string]any)
			if rotatable && (body["predecessor_binding_id"] != b.GUID || parameters != nil) {
				t.Errorf("asked with %v, want the predecessor and no parameters", body)
			}
			if !rotatable && (body["predecessor_binding_id"] != nil || parameters["role"] != "reader") {
				t.Errorf("asked with %v, want the parameters of the binding", body)
			}
			row := k.awaits(i.GUID, platform.RotationRevoked)
			if row.Method != platform.ByNothing {
				t.Errorf("a stopped app got its credentials by %s", row.Method)
			}
		})
	}
}

// TestRotateKeepsWhatIsUsed sees that old credentials outlive the grace period while an
// instance or a task uses them, unless the request says otherwise.
func TestRotateKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	k.start(k.Services)
	i, _ := k.bound(brokertest.Sync)
	instance := k.running()
	task := &platform.Task{AppGUID: k.app.GUID, Sequence: 1, State: platform.TaskRunning}
	k.update(func(tx platform.Tx) error { return tx.Tasks().Insert(task) })
	k.complete(k.rotate(i.GUID, services.Rotate{Restart: false}).GUID)
	row := k.rotation(i.GUID)
	if row.Method != platform.ByNothing || len(row.Waits) != 2 || !strings.Contains(row.Description, "restarted") {
		t.Errorf("got %+v", row)
	}
	k.stops(instance)
	testkit.Eventually(t, "only the task is waited for", func() bool {
		w := k.rotation(i.GUID).Waits
		return len(w) == 1 &&
			w[0] == task.GUID
	})
	if n := k.broker.Bindings(); n != 2 {
		t.Errorf("the broker has %d bindings, want 2", n)
	}
	k.update(func(tx platform.Tx) error {
		task.State = platform.TaskSucceeded
		if err := tx.Tasks().Update(task); err != nil {
			return err
		}
		return actions.CredentialsReleased(tx, k.app.GUID, task.GUID)
	})
	k.awaits(i.GUID, platform.RotationRevoked)

	k.update(func(tx platform.Tx) error {
		return tx.Instances().Insert(&platform.Instance{AppGUID: k.app.GUID, State: platform.InstanceRunning})
	})
	k.complete(k.rotate(i.GUID, services.Rotate{Force: true}).GUID)
	testkit.Eventually(t, "forced credentials are revoked", func() bool { return k.broker.Bindings() == 1 })
}

// TestRotateWaitsForGrace deletes a service instance in the grace period: the old credentials
// go first, without waiting for its end.
func TestRotateWaitsForGrace(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	k.start(k.Services)
	i, _ := k.bound(brokertest.Sync)
	k.complete(k.rotate(i.GUID, services.Rotate{Grace: time.Hour}).GUID)
	row := k.awaits(i.GUID, platform.RotationGrace)
	if left := time.Until(row.RevokeAt); left < 50*time.Minute || left > time.Hour {
		t.Errorf("revoked in %s, want an hour", left)
	}
	if n := k.broker.Bindings(); n != 2 {
		t.Errorf("the broker has %d bindings in the grace period, want 2", n)
	}
	var job *platform.Job
	k.update(func(tx platform.Tx) error {
		i, err := tx.ServiceInstances().Get(i.GUID)
		if err != nil {
			return err
		}
		job, err = k.DeleteInstance(tx, actor, i)
		return err
	})
	k.complete(job.GUID)
	k.quiet()
	if left := k.broker.Instances(); len(left) != 0 {
		t.Errorf("left at the broker: %v", left)
	}
}

func TestRotateRefuses(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		if r.Operation() == "bind" && r.Body["app_guid"] == nil {
			return &brokertest.Reply{Status: 400, Body: map[string]any{"description": "no more keys"}}, false
		}
		return nil, true
	}})
	k.start(k.Services)
	i, b := k.bound(brokertest.Sync)
	refused := func(want string, change func(*services.Rotate)) {
		t.Helper()
		err := k.store.Update(t.Context(), func(tx platform.Tx) error {
			now, err := tx.ServiceInstances().Get(i.GUID)
			if err != nil {
				return err
			}
			r := services.Rotate{Instance: now, Bindings: []*platform.ServiceBinding{b}}
			change(&r)
			_, err = k.Rotate(tx, actor, r)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	refused("no bindings", func(r *services.Rotate) { r.Bindings = nil })
	refused("grace period", func(r *services.Rotate) { r.Grace = services.MaxGrace + time.Second })
	refused("grace period", func(r *services.Rotate) { r.Grace = -time.Second })
	refused("user-provided", func(r *services.Rotate) { r.Instance.Type = platform.ServiceUserProvided })
	// Old credentials stay valid for long: a binding has only so many.
	old := &platform.CredentialRotation{BindingGUID: b.GUID, InstanceGUID: i.GUID, State: platform.RotationGrace}
	k.update(func(tx platform.Tx) error {
		for range 5 {
			old.Resource = platform.Resource{}
			if err := tx.CredentialRotations().Insert(old); err != nil {
				return err
			}
		}
		return nil
	})
	refused("5 old credentials that are still valid", func(*services.Rotate) {})
	refused("in progress", func(r *services.Rotate) {
		busy := *b
		busy.Last.State = platform.OperationInProgress
		r.Bindings = []*platform.ServiceBinding{&busy}
	})

	// The broker refuses new credentials: the key keeps what it has.
	key := &platform.ServiceBinding{Type: platform.BindingKey, Name: "k", InstanceGUID: i.GUID, SpaceGUID: k.space.GUID,
		Credentials: map[string]any{"password": "p"},
		Last:        platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationSucceeded}}
	var job *platform.Job
	k.update(func(tx platform.Tx) (err error) {
		if err := tx.ServiceBindings().Insert(key); err != nil {
			return err
		}
		now, err := tx.ServiceInstances().Get(i.GUID)
		if err != nil {
			return err
		}
		job, err = k.Rotate(tx, actor, services.Rotate{Instance: now, Bindings: []*platform.ServiceBinding{key}})
		return err
	})
	if j := k.ended(job.GUID); j.State != platform.JobFailed || len(j.Errors) != 1 {
		t.Errorf("the job is %+v", j)
	}
	if now := k.binding(key.GUID); now.Credentials["password"] != "p" || now.BrokerID != "" || !now.Last.Exists() {
		t.Errorf("the key is %+v", now)
	}
}

// TestRotateSameCredentials has a broker that gives all bindings the same credentials.
func TestRotateSameCredentials(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		if r.Operation() == "bind" {
			return &brokertest.Reply{Status: 201,
				Body: map[string]any{"credentials": map[string]any{"uri": "https://all.example"}}}, true
		}
		return nil, true
	}})
	k.start(k.Services)
	i, _ := k.bound(brokertest.Sync)
	k.running()
	k.complete(k.rotate(i.GUID, services.Rotate{Restart: true}).GUID)
	if row := k.rotation(i.GUID); row.Method != platform.ByNothing ||
		!strings.Contains(row.Description, "same credentials") {
		t.Errorf("got %+v", row)
	}
}

// TestRotateAfterADeployment leaves an active deployment alone, and restarts the app after it
// only if an instance with the old credentials is left.
func TestRotateAfterADeployment(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	k.start(k.Services)
	i, _ := k.bound(brokertest.Sync)
	k.running()
	canary := k.canary()
	k.complete(k.rotate(i.GUID, services.Rotate{Restart: true}).GUID)
	if row := k.rotation(i.GUID); row.Method != platform.ByRestart || row.DeploymentGUID != "" ||
		!strings.Contains(row.Description, "active deployment") {
		t.Errorf("got %+v", row)
	}
	k.cancel(canary)
	testkit.Eventually(t, "the app is restarted after all", func() bool { return k.rotation(i.GUID).DeploymentGUID != "" })
}

// TestRotateRefusedDeployment has an app that cannot be deployed: the old credentials stay
// while its instances run.
func TestRotateRefusedDeployment(t *testing.T) {
	t.Parallel()
	k := setup(t, &brokertest.Broker{})
	k.start(k.Services)
	i, _ := k.bound(brokertest.Sync)
	k.running()
	k.update(func(tx platform.Tx) error {
		_, err := tx.Droplets().DeleteAll(platform.Where("app_guid", k.app.GUID))
		return err
	})
	k.complete(k.rotate(i.GUID, services.Rotate{Restart: true}).GUID)
	row := k.rotation(i.GUID)
	if row.State != platform.RotationApplying || row.Method != platform.ByNothing ||
		!strings.Contains(row.Description, "could not be restarted") {
		t.Errorf("got %+v", row)
	}
	k.view(func(tx platform.Tx) error {
		n, err := tx.Processes().Count(platform.Where("app_guid", k.app.GUID))
		if n != 1 {
			t.Errorf("the refused deployment left %d processes, want 1", n)
		}
		return err
	})
}

// TestRotationsSurviveStops stops the worker after every third call: every rotation ends with one
// set of credentials at the broker.
func TestRotationsSurviveStops(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			k := setupOn(t, dialect, &brokertest.Broker{Polls: 1, Hook: func(*brokertest.Request) (*brokertest.Reply, bool) {
				calls.Add(1)
				return nil, true
			}})
			ctx, cancel := context.WithCancel(t.Context())
			var stopping background.WaitGroup
			stopping.Go("stops", func() {
				for ctx.Err() == nil {
					s := k.worker(services.Config{})
					if s.Start(t.Context()) != nil {
						return
					}
					for from := calls.Load(); ctx.Err() == nil && calls.Load() < from+3; {
						tick()
					}
					s.Stop()
				}
			})
			defer func() { cancel(); stopping.Wait() }()
			i, before := k.bound(brokertest.Async)
			last := before.Credentials["password"]
			for range map[db.Dialect]int{db.SQLite: 5, db.Postgres: 1}[dialect] {
				k.complete(k.rotate(i.GUID, services.Rotate{}).GUID)
				now := k.binding(before.GUID).Credentials["password"]
				if now == last {
					t.Error("the credentials did not change")
				}
				last = now
			}
			k.quiet()
			if n := k.broker.Bindings(); n != 1 {
				t.Errorf("the broker has %d bindings, want 1", n)
			}
			k.view(func(tx platform.Tx) error {
				left, err := tx.CredentialRotations().Count(platform.Where("state", platform.UnfinishedRotations...))
				if left != 0 {
					t.Errorf("%d rotations are unfinished", left)
				}
				return err
			})
		})
	}
}
