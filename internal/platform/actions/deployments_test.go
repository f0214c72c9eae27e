package actions

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// withDroplets returns the fixture with two staged droplets, the first of which is
// the app's.
func withDroplets(t *testing.T) (platform.Store, *Platform) {
	t.Helper()
	store, app, process := fixture(t)
	update(t, store, func(tx platform.Tx) error {
		app.DropletGUID, process.DropletGUID, process.Version = "one", "one", "v1"
		one := &platform.Droplet{Resource: platform.Resource{GUID: "one"}, AppGUID: app.GUID, State: platform.DropletStaged,
			ProcessTypes: map[string]string{"web": "run"}}
		two := *one
		two.GUID = "two"
		return errors.Join(tx.Droplets().Insert(one), tx.Droplets().Insert(&two), tx.Apps().Update(app), tx.Processes().
			Update(process))
	})
	p := New()
	p.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	return store, p
}

func update(t *testing.T, store platform.Store, f func(platform.Tx) error) {
	t.Helper()
	if err := store.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// current reads the app and its web process.
func current(t *testing.T, tx platform.Tx) (*platform.App, *platform.Process) {
	t.Helper()
	app, err := tx.Apps().Get("app")
	if err != nil {
		t.Fatal(err)
	}
	web, err := ProcessOf(tx, "app", platform.WebProcess)
	if err != nil {
		t.Fatal(err)
	}
	return app, web
}

// deploy creates a deployment of a droplet.
func deploy(t *testing.T, store platform.Store, p *Platform, d *platform.Deployment) {
	t.Helper()
	update(t, store, func(tx platform.Tx) error {
		app, _ := current(t, tx)
		return p.CreateDeployment(tx, Actor{}, app, d)
	})
}

// events returns the types of the audit events, the oldest first.
func events(t *testing.T, tx platform.Tx) string {
	t.Helper()
	all, _, err := tx.AuditEvents().List(platform.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		out = append(out, strings.TrimPrefix(e.Type, "audit.app."))
	}
	return strings.Join(out, " ")
}

func TestCreateDeployment(t *testing.T) {
	t.Parallel()
	store, p := withDroplets(t)
	two, memory := 2, 30
	d := &platform.Deployment{
		Strategy: platform.StrategyCanary, MaxInFlight: 1, DropletGUID: "two",
		Options: platform.DeploymentOptions{WebInstances: &two, MemoryMB: &memory, CanarySteps: []int{50}},
	}
	deploy(t, store, p, d)
	update(t, store, func(tx platform.Tx) error {
		app, web := current(t, tx)
		if d.Status != platform.DeploymentActive || d.Reason != platform.ReasonDeploying || d.Step != 1 ||
			!d.LastChange.Equal(p.Now()) {
			t.Errorf("the deployment is %s, %s, in step %d, want ACTIVE, DEPLOYING in step 1", d.Status, d.Reason, d.Step)
		}
		if app.DropletGUID != "two" || web.GUID != d.WebGUID || web.DropletGUID != "two" || web.Version == "v1" ||
			web.Instances != 1 || d.Instances != 2 || web.MemoryMB != 30 {
			t.Errorf(
				"the app runs %s and its process is %+v, want droplet two with 1 of %d instances of 30 MB and a new version",
				app.DropletGUID, web, d.Instances)
		}
		old, err := tx.Processes().Get("app")
		if err != nil || old.Version != "v1" || old.DropletGUID != "one" || old.Instances != 1 || old.MemoryMB != 40 {
			t.Errorf("the old process is %+v (%v), want it unchanged", old, err)
		}
		if d.PriorGUID != "app" || d.Original != 1 || d.PreviousDropletGUID != "one" {
			t.Errorf("before it was %s with %d instances of %s, want app with 1 of one", d.PriorGUID, d.Original,
				d.PreviousDropletGUID)
		}
		if got := events(t, tx); !strings.HasSuffix(got, "deployment.create") {
			t.Errorf("the events are %q, want deployment.create last", got)
		}
		return nil
	})
}

func TestCreateDeploymentRefused(t *testing.T) {
	t.Parallel()
	many, most, beside := 3, 101, 61
	for _, x := range []struct {
		what   string
		d      platform.Deployment
		change func(platform.Tx) error
		want   string
	}{
		{"unknown droplet", platform.Deployment{DropletGUID: "none"}, nil,
			"Ensure the droplet exists and belongs to this app"},
		{"unstaged droplet", platform.Deployment{DropletGUID: "two"}, func(tx platform.Tx) error {
			return tx.Droplets().Update(&platform.Droplet{Resource: platform.Resource{GUID: "two"}, AppGUID: "app",
				State: platform.DropletAwaitingUpload})
		}, "droplet"},
		{"another app's droplet", platform.Deployment{DropletGUID: "two"}, func(tx platform.Tx) error {
			return tx.Droplets().Update(&platform.Droplet{Resource: platform.Resource{GUID: "two"}, AppGUID: "other",
				State: platform.DropletStaged})
		}, "Ensure the droplet exists and belongs to this app"},
		{"instances beyond the quota", platform.Deployment{Options: platform.DeploymentOptions{WebInstances: &many}}, nil,
			"memory quota_exceeded"},
		{"memory beyond the quota", platform.Deployment{Options: platform.DeploymentOptions{MemoryMB: &most}}, nil,
			"memory quota_exceeded"},
		{"both beside each other beyond the quota",
			platform.Deployment{MaxInFlight: 1, Options: platform.DeploymentOptions{MemoryMB: &beside}}, nil, "max-in-flight"},
		{"no web process", platform.Deployment{}, func(tx platform.Tx) error { return tx.Processes().Delete("app") },
			"has no web process"},
	} {
		store, p := withDroplets(t)
		if x.change != nil {
			update(t, store, x.change)
		}
		err := store.Update(t.Context(), func(tx platform.Tx) error {
			app, err := tx.Apps().Get("app")
			if err != nil {
				return err
			}
			return p.CreateDeployment(tx, Actor{}, app, &x.d)
		})
		if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.what, err, x.want)
		}
	}
}

// TestDeployStopped sees that a stopped app is started without a rollout.
func TestDeployStopped(t *testing.T) {
	t.Parallel()
	store, p := withDroplets(t)
	update(t, store, func(tx platform.Tx) error {
		app, _ := current(t, tx)
		app.State = platform.AppStopped
		return tx.Apps().Update(app)
	})
	d := &platform.Deployment{Strategy: platform.StrategyRolling, DropletGUID: "two"}
	deploy(t, store, p, d)
	update(t, store, func(tx platform.Tx) error {
		app, web := current(t, tx)
		if d.Status != platform.DeploymentFinalized || d.Reason != platform.ReasonDeployed ||
			app.State != platform.AppStarted || web.DropletGUID != "two" {
			t.Errorf("the deployment is %s, %s, the app %s with %s, want FINALIZED, DEPLOYED, STARTED with two", d.Status,
				d.Reason, app.State, web.DropletGUID)
		}
		return nil
	})
}

func TestCancelDeployment(t *testing.T) {
	t.Parallel()
	store, p := withDroplets(t)
	memory := 20
	d := &platform.Deployment{Strategy: platform.StrategyRolling, DropletGUID: "two",
		Options: platform.DeploymentOptions{MemoryMB: &memory}}
	deploy(t, store, p, d)
	for range 2 { // the second call changes nothing
		update(t, store, func(tx platform.Tx) error {
			app, _ := current(t, tx)
			return p.CancelDeployment(tx, Actor{}, app, d)
		})
	}
	update(t, store, func(tx platform.Tx) error {
		app, web := current(t, tx)
		if d.Status != platform.DeploymentActive || d.Reason != platform.ReasonCanceling {
			t.Errorf("the deployment is %s, %s, want ACTIVE, CANCELING until the old instances run", d.Status, d.Reason)
		}
		if web.GUID != d.WebGUID || app.DropletGUID != "one" {
			t.Errorf("the newest web process is %s and the droplet %s, want %s, which goes, and one", web.GUID,
				app.DropletGUID, d.WebGUID)
		}
		if got := events(t, tx); strings.Count(got, "deployment.cancel") != 1 {
			t.Errorf("the events are %q, want deployment.cancel once", got)
		}
		// An app can be stopped during the way back, which ends the deployment.
		if err := p.StopApp(tx, Actor{}, app); err != nil {
			return err
		}
		over, err := tx.Deployments().Get(d.GUID)
		if err != nil || over.Status != platform.DeploymentFinalized || over.Reason != platform.ReasonCanceled {
			t.Errorf("after a stop the deployment is %+v (%v), want FINALIZED, CANCELED", over, err)
		}
		if left, err := webProcesses(tx, "app"); err != nil || len(left) != 1 || left[0].GUID != "app" ||
			left[0].Version != "v1" || left[0].MemoryMB != 40 {
			t.Errorf("after a stop the web processes are %+v (%v), want the old one as it was", left, err)
		}
		for action, act := range map[string]func(platform.Tx, Actor, *platform.App,
			*platform.Deployment) error{"cancel": p.CancelDeployment, "continue": p.ContinueDeployment} {
			want := "Cannot " + action + " a deployment with status: FINALIZED and reason: CANCELED"
			if err := act(tx, Actor{}, app, over); !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", action, err, want)
			}
		}
		return nil
	})
}

func TestWhileDeploying(t *testing.T) {
	t.Parallel()
	store, p := withDroplets(t)
	deploy(t, store, p, &platform.Deployment{Strategy: platform.StrategyRolling, DropletGUID: "two"})
	update(t, store, func(tx platform.Tx) error {
		app, _ := current(t, tx)
		if err := p.StopApp(tx, Actor{}, app); !fault.Is(err, fault.DeployingStop) {
			t.Errorf("stopping the app: got %v, want fault.DeployingStop", err)
		}
		one, err := tx.Droplets().Get("one")
		if err != nil {
			return err
		}
		if err := p.DeleteDroplet(tx, Actor{}, app, one); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("deleting the previous droplet: got %v, want fault.Unprocessable", err)
		}
		return nil
	})
}

// TestSupersede sees to which version the second of two deployments returns.
func TestSupersede(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		what            string
		ready, canceled bool
		droplet         string
		webs            int
	}{
		{"nothing of the first is ready", false, false, "one", 2},
		{"an instance of the first is ready", true, false, "two", 3},
		{"the first is being canceled", false, true, "one", 3},
	} {
		store, p := withDroplets(t)
		first := &platform.Deployment{Strategy: platform.StrategyRolling, DropletGUID: "two"}
		second := &platform.Deployment{Strategy: platform.StrategyRolling, DropletGUID: "two"}
		deploy(t, store, p, first)
		update(t, store, func(tx platform.Tx) error {
			app, web := current(t, tx)
			if x.ready {
				return tx.Instances().Insert(&platform.Instance{AppGUID: app.GUID, ProcessGUID: web.GUID, Version: web.Version,
					State: platform.InstanceRunning, Ready: true})
			}
			if x.canceled {
				return p.CancelDeployment(tx, Actor{}, app, first)
			}
			return nil
		})
		deploy(t, store, p, second)
		update(t, store, func(tx platform.Tx) error {
			former, err := tx.Deployments().Get(first.GUID)
			if err != nil {
				return err
			}
			if former.Status != platform.DeploymentFinalized || former.Reason != platform.ReasonSuperseded {
				t.Errorf("%s: it is %s, %s, want FINALIZED, SUPERSEDED", x.what, former.Status, former.Reason)
			}
			prior, err := tx.Processes().Get(second.PriorGUID)
			if err != nil || prior.DropletGUID != x.droplet || second.PreviousDropletGUID != x.droplet || second.Original != 1 {
				t.Errorf("%s: the second returns to %+v of %s (%v) with %d instances, want one instance of %s", x.what, prior,
					second.PreviousDropletGUID, err, second.Original, x.droplet)
			}
			if webs, err := webProcesses(tx, "app"); err != nil || len(webs) != x.webs {
				t.Errorf("%s: there are %d web processes (%v), want %d", x.what, len(webs), err, x.webs)
			}
			active, err := ActiveDeployment(tx, "app")
			if err != nil || active == nil || active.GUID != second.GUID {
				t.Errorf("%s: active is %+v (%v), want the second", x.what, active, err)
			}
			return nil
		})
	}
}

func TestContinueAndFinishDeployment(t *testing.T) {
	t.Parallel()
	store, p := withDroplets(t)
	d := &platform.Deployment{Strategy: platform.StrategyCanary, DropletGUID: "two"}
	deploy(t, store, p, d)
	update(t, store, func(tx platform.Tx) error {
		app, web := current(t, tx)
		if err := p.ContinueDeployment(tx, Actor{}, app, d); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("continuing one that is not paused: got %v, want fault.Unprocessable", err)
		}
		d.Reason = platform.ReasonPaused
		if err := p.ContinueDeployment(tx, Actor{}, app, d); err != nil || d.Reason != platform.ReasonDeploying ||
			d.Step != 2 {
			t.Errorf("continued (%v) it is %s in step %d, want DEPLOYING in step 2", err, d.Reason, d.Step)
		}
		worker := &platform.Process{AppGUID: app.GUID, Type: "worker", Version: "w1", DropletGUID: "one"}
		if err := tx.Processes().Insert(worker); err != nil {
			return err
		}
		if err := p.FinishDeployment(tx, app, d); err != nil {
			return err
		}
		worker, err := tx.Processes().Get(worker.GUID)
		if err != nil || worker.Version == "w1" || worker.DropletGUID != "two" {
			t.Errorf("the worker is %+v (%v), want a new version of droplet two", worker, err)
		}
		if left, err := webProcesses(tx, "app"); err != nil || len(left) != 1 || left[0].GUID != d.WebGUID ||
			left[0].Version != web.Version {
			t.Errorf("the web processes are %+v (%v), want only that of the deployment", left, err)
		}
		if d.Status != platform.DeploymentFinalized || d.Reason != platform.ReasonDeployed {
			t.Errorf("it is %s, %s, want FINALIZED, DEPLOYED", d.Status, d.Reason)
		}
		return nil
	})
}
