package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// deploy begins a deployment as the API does, and kicks.
func (w *world) deploy(change func(d *platform.Deployment)) *platform.Deployment {
	w.Helper()
	w.fake.set(func() { w.fake.beside = true })
	d := &platform.Deployment{Strategy: platform.StrategyRolling, MaxInFlight: 1, DropletGUID: "droplet2"}
	if change != nil {
		change(d)
	}
	w.droplets.mu.Lock()
	w.droplets.of["droplet2"] = tarOf(nil)
	w.droplets.mu.Unlock()
	w.update(func(tx platform.Tx) error {
		again := *d
		if _, err := tx.Droplets().Get("droplet2"); err != nil {
			two := &platform.Droplet{Resource: platform.Resource{GUID: "droplet2"}, AppGUID: "app",
				State: platform.DropletStaged, Checksum: "def", ProcessTypes: map[string]string{"web": "run it anew"}}
			if err := tx.Droplets().Insert(two); err != nil {
				return err
			}
		}
		app, err := tx.Apps().Get("app")
		if err != nil {
			return err
		}
		if err := w.platform.CreateDeployment(tx, actions.Actor{}, app, &again); err != nil {
			return err
		}
		*d = again
		w.process, err = tx.Processes().Get(d.WebGUID)
		return err
	})
	w.c.Kick("app")
	return d
}

// turn cancels or continues it.
func (w *world) turn(d *platform.Deployment, act func(platform.Tx, actions.Actor, *platform.App,
	*platform.Deployment) error) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		app, err := tx.Apps().Get("app")
		if err != nil {
			return err
		}
		now, err := tx.Deployments().Get(d.GUID)
		if err != nil {
			return err
		}
		if err := act(tx, actions.Actor{}, app, now); err != nil {
			return err
		}
		guid := now.WebGUID
		if now.Reason == platform.ReasonCanceling {
			guid = now.PriorGUID
		}
		w.process, err = tx.Processes().Get(guid)
		return err
	})
	w.c.Kick("app")
}

func (w *world) deployment(d *platform.Deployment) *platform.Deployment {
	w.Helper()
	var now *platform.Deployment
	err := w.store.Store.View(context.Background(), func(tx platform.Tx) (err error) {
		now, err = tx.Deployments().Get(d.GUID)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return now
}

func (w *world) awaitReason(d *platform.Deployment, reason platform.DeploymentReason) *platform.Deployment {
	w.Helper()
	w.await("it is "+string(reason), func() bool { return w.deployment(d).Reason == reason })
	return w.deployment(d)
}

// watchReady sees that no instance is told to go unless n others take requests.
func (w *world) watchReady(n int) {
	w.fake.set(func() {
		w.fake.onSignal = func(going engine.Instance) {
			w.fake.mu.Lock()
			defer w.fake.mu.Unlock()
			ready := 0
			for id, in := range w.fake.instances {
				if id != going.ID && in.Running && in.State.Ready {
					ready++
				}
			}
			if ready < n {
				w.Errorf("%s is told to go and %d others are ready, want %d", going.ID, ready, n)
			}
		}
	})
}

// refuseNew is an engine on which the new version does not work.
func refuseNew(s engine.Spec) error {
	if strings.Contains(strings.Join(s.Launch.Members[0].Args, " "), "anew") {
		return errors.New("it does not work")
	}
	return nil
}

type sinkFunc func(app string)

func (f sinkFunc) AppChanged(app string) { f(app) }

// Who reads that a deployment is over gets no answer of the old version any more:
// the old instances leave the route table before that is written.
func TestDeployedIsSaidAfterTheOldLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	var mu sync.Mutex
	var before []string
	over, stale := false, 0
	w.store.written = func() {
		mu.Lock()
		defer mu.Unlock()
		if before == nil || over {
			return
		}
		err := w.store.Store.View(context.Background(), func(tx platform.Tx) error {
			all, _, err := tx.Deployments().List(platform.Query{})
			over = err == nil && len(all) == 1 && all[0].Status == platform.DeploymentFinalized
			return err
		})
		if err != nil {
			t.Error(err)
		}
		for _, b := range w.c.Backends("app", "web") {
			if over && slices.Contains(before, b.InstanceGUID) {
				stale++
			}
		}
	}
	w.begin()
	running := w.awaitRunning(3)
	mu.Lock()
	before = running
	mu.Unlock()
	w.awaitReason(w.deploy(nil), platform.ReasonDeployed)
	testkit.Eventually(t, "the end was looked at", func() bool { // after it was written
		mu.Lock()
		defer mu.Unlock()
		return over
	})
	mu.Lock()
	defer mu.Unlock()
	if stale > 0 {
		t.Errorf("%d old instances take requests when it is over", stale)
	}
}

func TestRolling(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{1, 2, 10} {
		t.Run(fmt.Sprint(inFlight), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			c := New(w.config())
			var watch atomic.Bool
			c.Notify(sinkFunc(func(string) {
				if n := len(c.Backends("app", "web")); watch.Load() && n < 4 {
					t.Errorf("%d backends", n)
				}
			}))
			w.update(func(tx platform.Tx) error {
				worker := w.platform.NewProcess(w.app, "worker")
				worker.GUID, worker.Version, worker.DropletGUID = "worker", "w1", "droplet"
				return tx.Processes().Insert(worker)
			})
			w.run(c)
			before := w.awaitRunning(4)
			watch.Store(true)
			w.watchReady(4)
			var mu sync.Mutex
			pending, most := map[string]bool{}, 0
			w.fake.set(func() {
				w.fake.manual = true
				w.fake.refuse = func(s engine.Spec) error {
					mu.Lock()
					defer mu.Unlock()
					pending[s.ID] = true
					most = max(most, len(pending))
					return nil
				}
			})
			d := w.deploy(func(d *platform.Deployment) { d.MaxInFlight = inFlight })
			for range 4 {
				var id string
				w.await("a new one starts", func() bool {
					mu.Lock()
					defer mu.Unlock()
					for id = range pending {
						if in, err := w.fake.Get(t.Context(), id); err == nil && in.State.Phase == initproto.Starting {
							return true
						}
					}
					return false
				})
				w.settled()
				mu.Lock()
				delete(pending, id)
				mu.Unlock()
				for _, e := range []initproto.EventKind{initproto.EventStarted, initproto.EventHealthy, initproto.EventReady} {
					w.fake.event(id, initproto.EventBody{Event: e})
				}
			}
			done := w.awaitReason(d, platform.ReasonDeployed)
			if done.Status != platform.DeploymentFinalized || done.Error != "" || done.LastHealthy.IsZero() {
				t.Errorf("deployment is %+v, want finalized without an error and with a last healthy time", done)
			}
			after := w.awaitRunning(4)
			if slices.ContainsFunc(after, func(id string) bool { return slices.Contains(before, id) }) {
				t.Errorf("%v became %v", before, after)
			}
			if want := min(inFlight, 4); most > want {
				t.Errorf("%d were started at a time, want %d", most, want)
			}
			if n := len(w.audits("audit.app.deployment.finished")); n != 1 {
				t.Errorf("%d events", n)
			}
			w.update(func(tx platform.Tx) error {
				worker, err := tx.Processes().Get("worker")
				if err == nil && (worker.DropletGUID != "droplet2" || worker.Version == "w1") {
					t.Errorf("the worker is %+v", worker)
				}
				return err
			})
		})
	}
}

// TestRollingFails sees that nothing goes while the new version does not work,
// that an old instance is replaced by its own kind, and that the way back leaves
// all as it was.
func TestRollingFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.begin()
	before := w.awaitRunning(2)
	w.fake.set(func() {
		w.fake.refuse = refuseNew
	})
	memory := 77
	d := w.deploy(func(d *platform.Deployment) { d.MaxInFlight, d.Options.MemoryMB = 2, &memory })
	w.await("trouble is told", func() bool { return strings.Contains(w.deployment(d).Error, "failed 4 times") })
	if now := w.deployment(d); now.Status != platform.DeploymentActive || now.Reason != platform.ReasonDeploying {
		t.Errorf("deployment is %+v, want active and reason %s", now, platform.ReasonDeploying)
	}
	w.fake.crash(before[1], 9)
	var again string
	w.await("the old one is there again", func() bool {
		for _, b := range w.c.Backends("app", "web") {
			if b.Index == 1 && b.InstanceGUID != before[1] {
				again = b.InstanceGUID
			}
		}
		return again != ""
	})
	if s := w.fake.specOf(again); s.Labels[labelVersion] != "v1" || s.Limits.Memory != platform.DefaultMemoryMB<<20 {
		t.Errorf("the old one is now %+v", s)
	}
	w.turn(d, w.platform.CancelDeployment)
	if now := w.awaitReason(d, platform.ReasonCanceled); now.Status != platform.DeploymentFinalized || now.Error != "" {
		t.Errorf("deployment is %+v, want finalized without an error", now)
	}
	if after := w.awaitRunning(2); after[0] != before[0] || after[1] != again || w.process.Version != "v1" ||
		w.process.DropletGUID != "droplet" {
		t.Errorf("%v became %v, %+v", before, after, w.process)
	}
}

func TestCanary(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.begin()
	w.awaitRunning(4)
	w.watchReady(4)
	fresh := func() (n int) {
		for _, r := range w.rows() {
			if r.Version == w.process.Version && r.Ready {
				n++
			}
		}
		return n
	}
	d := w.deploy(func(d *platform.Deployment) {
		d.Strategy, d.Options.CanarySteps = platform.StrategyCanary, []int{10, 50}
	})
	for step, want := range []int{1, 2} {
		now := w.awaitReason(d, platform.ReasonPaused)
		w.settled()
		w.await("one more than wanted", func() bool { return len(w.rows()) == 5 && len(w.c.Backends("app", "web")) == 5 })
		if n := fresh(); n != want || now.Step != step+1 || now.Status != platform.DeploymentActive {
			t.Errorf("step %d has %d new ones: %+v", step, n, now)
		}
		w.c.Stop() // what is paused stays so
		w.begin()
		w.settled()
		if now := w.deployment(d); now.Reason != platform.ReasonPaused || len(w.rows()) != 5 {
			t.Errorf("after a restart it is %+v", now)
		}
		w.turn(d, w.platform.ContinueDeployment)
	}
	w.awaitReason(d, platform.ReasonDeployed)
	w.awaitRunning(4)
}

// TestDeploymentSeen keeps a deployment active for a while that is done at once.
func TestDeploymentSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	c := w.config()
	c.ShortestDeployment = 3 * time.Second
	w.run(New(c))
	before := w.awaitRunning(1)
	d := w.deploy(nil)
	w.await("the new instance has taken over", func() bool {
		rows := w.rows()
		return len(rows) == 1 && rows[0].GUID != before[0] && rows[0].Ready
	})
	w.settled()
	if now := w.deployment(d); now.Status != platform.DeploymentActive || now.Reason != platform.ReasonDeploying {
		t.Errorf("at once it is %+v", now)
	}
	w.clock.Advance(2 * time.Second)
	w.settled()
	if now := w.deployment(d); now.Status != platform.DeploymentActive {
		t.Errorf("after two seconds it is %+v", now)
	}
	w.clock.Advance(time.Second)
	w.awaitReason(d, platform.ReasonDeployed)
}

// TestCanaryCanceled takes a canary away, with all that is new.
func TestCanaryCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.begin()
	before := w.awaitRunning(3)
	w.watchReady(3)
	d := w.deploy(func(d *platform.Deployment) { d.Strategy, d.Options.CanarySteps = platform.StrategyCanary, []int{67} })
	w.awaitReason(d, platform.ReasonPaused)
	w.turn(d, w.platform.CancelDeployment)
	w.awaitReason(d, platform.ReasonCanceled)
	if after := w.awaitRunning(3); after[0] != before[0] || after[1] != before[1] || after[2] == before[2] {
		t.Errorf("%v became %v", before, after)
	}
}

// TestSuperseded begins another deployment while one cannot get on.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.begin()
	w.awaitRunning(2)
	w.watchReady(2)
	w.fake.set(func() { w.fake.manual = true })
	first := w.deploy(nil)
	w.await("it has begun", func() bool { return len(w.rows()) == 3 })
	more := 3
	w.fake.set(func() { w.fake.manual = false })
	second := w.deploy(func(d *platform.Deployment) { d.Options.WebInstances = &more })
	if second.PriorGUID != "app" || second.Original != 2 {
		t.Errorf("the way back is %s with %d instances, want app with 2", second.PriorGUID, second.Original)
	}
	w.awaitReason(second, platform.ReasonDeployed)
	w.awaitRunning(3)
	if now := w.deployment(first); now.Status != platform.DeploymentFinalized || now.Reason != platform.ReasonSuperseded {
		t.Errorf("the first is %+v", now)
	}
	w.settled()
	w.await("nothing else is left", func() bool { list, _ := w.fake.List(t.Context(), nil); return len(list) == 3 })
}

var errKilled = errors.New("killed")

// mortal is a store and an engine that a server has until it is killed: at a
// certain write, before it or after.
type mortal struct {
	platform.Store
	engine.Engine
	writes int64
	after  bool

	count atomic.Int64
	dead  atomic.Bool
	died  chan struct{}
}

func (m *mortal) Update(ctx context.Context, f func(platform.Tx) error) error {
	if m.dead.Load() {
		return errKilled
	}
	last := m.count.Add(1) == m.writes
	if last && !m.after {
		m.dead.Store(true)
		close(m.died)
		return errKilled
	}
	err := m.Store.Update(ctx, f)
	if last {
		m.dead.Store(true)
		close(m.died)
		return errKilled
	}
	return err
}

func (m *mortal) View(ctx context.Context, f func(platform.Tx) error) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.Store.View(ctx, f)
}

func (m *mortal) Start(ctx context.Context, s engine.Spec) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.Engine.Start(ctx, s)
}

func (m *mortal) Signal(ctx context.Context, id string) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.Engine.Signal(ctx, id)
}

func (m *mortal) Remove(ctx context.Context, id string) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.Engine.Remove(ctx, id)
}

// TestSoakRollingKilled kills the server at writes of a deployment, right before
// them and right after, also when the deployment is canceled. The next one ends
// it, and at no time fewer instances are ready than there should be. The long
// form kills at every write.
func TestSoakRollingKilled(t *testing.T) {
	t.Parallel()
	const stride = 24
	for _, after := range []bool{false, true} {
		for _, cancel := range []bool{false, true} {
			begins := []int64{rand.Int64N(stride)}
			if os.Getenv("INGOT_SOAK") != "" {
				begins = begins[:0]
				for begin := range int64(stride) {
					begins = append(begins, begin)
				}
			}
			for _, begin := range begins {
				t.Run(fmt.Sprintf("after=%v, canceled=%v, %d", after, cancel, begin), func(t *testing.T) {
					t.Parallel()
					for writes := begin + 1; killedAt(t, writes, after, cancel); writes += stride {
					}
				})
			}
		}
	}
}

// traffic has requests in instances until it is told that they ended.
type traffic struct {
	asked chan string
	over  chan struct{}
}

func (r traffic) Busy(id string) bool {
	select {
	case r.asked <- id:
	default:
	}
	select {
	case <-r.over:
		return false
	default:
		return true
	}
}

// TestRollingDrains has requests under way in an instance that is replaced: it
// is not told to go before they have ended, and gets no new ones.
func TestRollingDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	config := w.config()
	r := traffic{make(chan string, 1), make(chan struct{})}
	config.Traffic = r
	w.run(New(config))
	old := w.awaitRunning(1)[0]
	d := w.deploy(nil)
	if id := <-r.asked; id != old {
		t.Errorf("%s is asked for, want %s", id, old)
	}
	w.awaitReason(d, platform.ReasonDeployed)
	if n := w.fake.called("signal"); n != 0 {
		t.Errorf("it was told to go %d times", n)
	}
	if b := w.c.Backends("app", "web"); len(b) != 1 || b[0].InstanceGUID == old {
		t.Errorf("requests go to %+v", b)
	}
	close(r.over)
	w.awaitRunning(1)
	if n := w.fake.called("signal " + old); n != 1 {
		t.Errorf("it was told to go %d times", n)
	}
}

// killedAt is false when the deployment was over before.
func killedAt(t *testing.T, writes int64, after, cancel bool) bool {
	t.Helper()
	const wanted = 2
	w := newWorld(t, wanted)
	w.begin()
	w.awaitRunning(wanted)
	w.settled()
	w.c.Stop()
	w.watchReady(wanted)
	m := &mortal{Store: w.store, Engine: w.engine, writes: writes, after: after, died: make(chan struct{})}
	config := w.config()
	config.Store, config.Engine = m, m
	w.run(New(config))
	if cancel {
		w.fake.set(func() { w.fake.refuse = refuseNew })
	}
	d := w.deploy(nil)
	reason, finished := platform.ReasonDeployed, 1
	if cancel {
		w.turn(d, w.platform.CancelDeployment)
		reason, finished = platform.ReasonCanceled, 0
	}
	killed := false
	w.await("it is over or killed", func() bool {
		select {
		case <-m.died:
			killed = true
			return true
		default:
			return w.deployment(d).Status == platform.DeploymentFinalized && len(w.rows()) == wanted
		}
	})
	if !killed {
		return false
	}
	w.c.Stop()
	w.begin()
	if n := len(w.c.Backends("app", "web")); n < wanted {
		t.Errorf("killed at write %d, %d are known right after the start", writes, n)
	}
	w.awaitReason(d, reason)
	w.awaitRunning(wanted)
	w.settled()
	w.await("nothing else is left", func() bool { list, _ := w.fake.List(t.Context(), nil); return len(list) == wanted })
	if n := len(w.audits("audit.app.deployment.finished")); n != finished {
		t.Errorf("killed at write %d, it ended %d times", writes, n)
	}
	if n := len(w.audits("app.crash")); n > 0 {
		t.Errorf("killed at write %d, there were %d crashes", writes, n)
	}
	return true
}
