package controller

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

const minHealthy = 3 * time.Second

// proving starts a controller with a minimum healthy time and the old version, and then
// leaves the life of new instances to the test.
func proving(t *testing.T, instances int) *world {
	t.Helper()
	w := newWorld(t, instances)
	c := w.config()
	c.MinHealthy = minHealthy
	w.run(New(c))
	w.awaitRunning(instances)
	w.fake.set(func() { w.fake.manual = true })
	return w
}

// fresh returns the new instance that is starting.
func (w *world) fresh() string {
	w.Helper()
	var id string
	w.await("a new instance starts", func() bool {
		for _, r := range w.rows() {
			in, err := w.fake.Get(w.Context(), r.GUID)
			if id = r.GUID; err == nil && in.State.Phase == initproto.Starting && r.Version == w.process.Version {
				return true
			}
		}
		return false
	})
	return id
}

func (w *world) becomeReady(id string) {
	w.Helper()
	w.fake.event(id, initproto.EventBody{Event: initproto.EventStarted})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventHealthy, Ready: true})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventReady})
	w.await("it is ready", func() bool {
		for _, r := range w.rows() {
			if r.GUID == id && r.State == platform.InstanceRunning {
				return true
			}
		}
		return false
	})
}

func (w *world) routed(id string) bool {
	for _, b := range w.c.Backends("app", "web") {
		if b.InstanceGUID == id {
			return true
		}
	}
	return false
}

// TestMinHealthyTime keeps the old instance, and requests at it, until the new one was
// ready for the minimum healthy time.
func TestMinHealthyTime(t *testing.T) {
	t.Parallel()
	half, none := int64(500), 0
	seven := 7
	for _, test := range []struct {
		name    string
		process *int
		option  *int64
		want    time.Duration
	}{
		{"default", nil, nil, minHealthy},
		{"of the process", &seven, nil, 7 * time.Second},
		{"of the deployment", &seven, &half, 500 * time.Millisecond},
		{"none", &none, nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := proving(t, 1)
			old := w.rows()[0].GUID
			w.change(func(p *platform.Process) { p.MinHealthy = test.process })
			d := w.deploy(func(d *platform.Deployment) { d.Options.MinHealthyMS = test.option })
			id := w.fresh()
			w.becomeReady(id)
			w.settled()
			if test.want > 0 {
				w.clock.Advance(test.want - 1)
				w.settled()
				if w.routed(id) || !w.routed(old) || w.deployment(d).Status != platform.DeploymentActive {
					t.Fatalf("before its time the new instance gets requests: %v, the old one: %v, deployment %+v", w.routed(id),
						w.routed(old), w.deployment(d))
				}
				for _, r := range w.rows() {
					if r.GUID == id && r.Ready {
						t.Error("other servers send requests to the new instance before its time")
					}
				}
				w.clock.Advance(1)
			}
			w.awaitReason(d, platform.ReasonDeployed)
			if after := w.awaitRunning(1); after[0] != id {
				t.Errorf("%s runs, want %s", after[0], id)
			}
		})
	}
}

// TestReadyAgainProvesAgain has an instance whose readiness check fails in between.
func TestReadyAgainProvesAgain(t *testing.T) {
	t.Parallel()
	w := proving(t, 1)
	w.change(func(p *platform.Process) { p.Readiness.Type = platform.CheckPort })
	d := w.deploy(nil)
	id := w.fresh()
	w.becomeReady(id)
	w.settled()
	w.clock.Advance(minHealthy - time.Second)
	w.fake.event(id, initproto.EventBody{Event: initproto.EventNotReady})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventReady})
	w.await("both events are handled", func() bool { return len(w.logs.of("HEALTH")) == 3 })
	w.clock.Advance(minHealthy - time.Second)
	w.settled()
	if w.routed(id) {
		t.Error("it gets requests although it was not ready for the whole time")
	}
	w.clock.Advance(time.Second)
	w.awaitReason(d, platform.ReasonDeployed)
}

// TestNothingElseAccepts gives requests to a new instance at once if no other can take them,
// and rolls back nevertheless when it crashes.
func TestNothingElseAccepts(t *testing.T) {
	t.Parallel()
	w := proving(t, 1)
	old := w.rows()[0].GUID
	w.fake.event(old, initproto.EventBody{Event: initproto.EventNotReady})
	w.await("no instance accepts requests", func() bool { return len(w.c.Backends("app", "web")) == 0 })
	d := w.deploy(nil)
	id := w.fresh()
	w.becomeReady(id)
	w.await("the new instance gets requests", func() bool { return w.routed(id) })
	if now := w.deployment(d); now.Status != platform.DeploymentActive {
		t.Errorf("the deployment is %+v, want active until the instance is proven", now)
	}
	w.fake.event(old, initproto.EventBody{Event: initproto.EventReady})
	w.await("both get requests", func() bool { return w.routed(id) && w.routed(old) })
	w.fake.crash(id, 1)
	w.awaitReason(d, platform.ReasonCanceled)
}

// TestCrashTimes crashes new instances at random times after they became ready. As long as
// that is within the minimum healthy time, they never get a request, the old instances are
// never told to stop, and the deployment is canceled with the reason.
func TestCrashTimes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 28))
			instances, inFlight := 1+random.IntN(3), 1+random.IntN(3)
			lives := time.Duration(random.Int64N(int64(minHealthy)))
			if random.IntN(2) == 0 {
				lives = time.Duration(random.Int64N(int64(200 * time.Millisecond)))
			}
			if seed == 0 {
				lives = minHealthy - 1
			}
			good := random.IntN(instances) // new instances that work
			crashes(t, instances, inFlight, good, lives)
		})
	}
}

func crashes(t *testing.T, instances, inFlight, good int, lives time.Duration) {
	t.Helper()
	w := newWorld(t, instances)
	config := w.config()
	config.MinHealthy = minHealthy
	c := New(config)
	var mu sync.Mutex
	bad := map[string]bool{}
	watching := false
	c.Notify(sinkFunc(func(string) {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, b := range c.Backends("app", "web") {
			n++
			if bad[b.InstanceGUID] {
				t.Errorf("instance %s gets requests and crashes", b.InstanceGUID)
			}
		}
		if watching && n < instances {
			t.Errorf("%d instances get requests, want %d", n, instances)
		}
	}))
	w.run(c)
	before := w.awaitRunning(instances)
	mu.Lock()
	watching = true
	mu.Unlock()
	w.watchReady(instances)
	w.fake.set(func() { w.fake.manual = true })
	d := w.deploy(func(d *platform.Deployment) { d.MaxInFlight = inFlight })
	for range good {
		w.becomeReady(w.fresh())
		w.settled()
		w.clock.Advance(minHealthy)
		w.settled()
	}
	id := w.fresh()
	mu.Lock()
	bad[id] = true
	mu.Unlock()
	w.fake.set(func() { w.fake.manual = false }) // old ones come back
	w.becomeReady(id)
	w.settled()
	w.clock.Advance(lives)
	w.settled()
	w.fake.set(func() {
		w.fake.refuse = func(s engine.Spec) error {
			if s.Labels[labelVersion] == w.process.Version {
				mu.Lock()
				defer mu.Unlock()
				bad[s.ID] = true
			}
			return nil
		}
	})
	w.fake.crash(id, 7)
	done := w.awaitReason(d, platform.ReasonCanceled)
	if !strings.Contains(done.Error, "after it had become ready: APP/PROC/WEB: Exited with status 7") ||
		done.Status != platform.DeploymentFinalized {
		t.Errorf("the deployment is %+v, want finalized with the reason", done)
	}
	w.update(func(tx platform.Tx) (err error) {
		w.process, err = tx.Processes().Get("app")
		return err
	})
	after := w.awaitRunning(instances)
	for i := range instances - good {
		if before[i] != after[i] {
			t.Errorf("old instance %d was replaced", i)
		}
	}
}

// TestWrongPort has an instance that listens on another port: the user reads so while it
// starts, and it counts as crashed at once when nothing else can be expected.
func TestWrongPort(t *testing.T) {
	t.Parallel()
	const why = "port 8080 is not listening: the app listens on port 3000 instead"
	w := newWorld(t, 1)
	w.fake.set(func() { w.fake.manual = true })
	w.begin()
	id := w.fresh()
	w.fake.event(id, initproto.EventBody{Event: initproto.EventStarted})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventWaiting, Reason: why})
	w.await("the reason is shown", func() bool {
		rows := w.rows()
		return rows[0].State == platform.InstanceStarting && rows[0].Details == why
	})
	if lines := w.logs.of("HEALTH"); len(lines) != 1 || lines[0] != "Not healthy yet: "+why {
		t.Errorf("the app's log has %q, want the reason once", lines)
	}
	w.fake.event(id, initproto.EventBody{Event: initproto.EventUnhealthy, Reason: why, Final: true})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventExited, Status: 143, Cancelled: true})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventEnded, Status: 143, Reason: why})
	w.await("it counts as crashed", func() bool { return w.states() == "0CRASHED" })
	if row := w.rows()[0]; row.Details != why {
		t.Errorf("the reason is %q, want %q", row.Details, why)
	}
	w.clock.Advance(firstPause)
	w.fresh() // it is tried again later
}

// TestWrongPortCancels cancels the deployment of such a version at once.
func TestWrongPortCancels(t *testing.T) {
	t.Parallel()
	w := proving(t, 1)
	before := w.rows()[0].GUID
	d := w.deploy(nil)
	id := w.fresh()
	w.fake.event(id, initproto.EventBody{Event: initproto.EventUnhealthy, Reason: "wrong port", Final: true})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventExited, Status: 143, Cancelled: true})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventEnded, Status: 143, Reason: "wrong port"})
	if done := w.awaitReason(d, platform.ReasonCanceled); !strings.Contains(done.Error, "wrong port") {
		t.Errorf("the deployment's error is %q, want the reason", done.Error)
	}
	w.await("the old instance is left", func() bool {
		rows := w.rows()
		return len(rows) == 1 && rows[0].GUID == before &&
			rows[0].Ready
	})
}

// TestCanaryStepSeen keeps the steps of a canary that is continued DEPLOYING for a while,
// even if no instance has to be started: clients look for that before the next pause.
func TestCanaryStepSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	c := w.config()
	c.ShortestDeployment = 3 * time.Second
	w.run(New(c))
	w.awaitRunning(1)
	d := w.deploy(func(d *platform.Deployment) {
		d.Strategy, d.Options.CanarySteps = platform.StrategyCanary, []int{10, 20, 30}
	})
	for range 2 {
		w.awaitReason(d, platform.ReasonPaused)
		w.turn(d, w.platform.ContinueDeployment)
		w.settled()
		if now := w.deployment(d); now.Reason != platform.ReasonDeploying {
			t.Errorf("after continue the deployment is %+v, want reason %s", now, platform.ReasonDeploying)
		}
		w.clock.Advance(3 * time.Second)
	}
	w.awaitReason(d, platform.ReasonPaused)
}

// TestDeploymentFollowed ends a deployment at once whose client has set the minimum healthy time, though not the
// steps of a canary.
func TestDeploymentFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	c := w.config()
	c.ShortestDeployment = time.Hour
	w.run(New(c))
	before := w.awaitRunning(1)
	none := int64(0)
	d := w.deploy(func(d *platform.Deployment) { d.Options.MinHealthyMS = &none })
	w.awaitReason(d, platform.ReasonDeployed)
	if after := w.awaitRunning(1); after[0] == before[0] {
		t.Errorf("the instance %s was not replaced", before[0])
	}
	d = w.deploy(func(d *platform.Deployment) {
		d.Strategy, d.Options.CanarySteps, d.Options.MinHealthyMS = platform.StrategyCanary, []int{50}, &none
	})
	w.awaitReason(d, platform.ReasonPaused)
	w.turn(d, w.platform.ContinueDeployment)
	w.settled()
	if now := w.deployment(d); now.Reason != platform.ReasonDeploying {
		t.Errorf("after continue the deployment is %+v, want reason %s", now, platform.ReasonDeploying)
	}
	w.clock.Advance(time.Hour)
	w.awaitReason(d, platform.ReasonDeployed)
}
