package controller

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// TestDisplaced: an instance whose machine is vacated is replaced at once, beside the old
// one, and it is not a crash. Users see why.
func TestDisplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.fake.together = true
	w.begin()
	before := w.awaitRunning(2)
	w.c.Displaced("unknown", "nothing happens")
	w.c.Displaced(before[1], "its node is being drained")
	w.await("it is replaced", func() bool {
		return !slices.ContainsFunc(w.rows(), func(row *platform.Instance) bool { return row.GUID == before[1] })
	})
	after := w.awaitRunning(2)
	if after[0] != before[0] || len(w.audits("app.crash")) != 0 || w.rows()[1].Crashes != 0 {
		t.Errorf("%v became %v with %d crashes, want the first unchanged and none", before, after, len(w.audits("app.crash")))
	}
	moves := w.audits("audit.app.process.rescheduling")
	if len(moves) != 1 || moves[0].Data["reason"] != "its node is being drained" ||
		moves[0].Data["instance"] != before[1] {
		t.Errorf("events are %+v, want one with the reason", moves)
	}
	w.settled() // the log is written after the rows
	if lines := strings.Join(w.logs.of("CELL"), "\n"); !strings.Contains(lines, "is replacing instance "+before[1]+
		": its node is being drained") {
		t.Errorf("the log says\n%s\nwant the reason", lines)
	}
	w.await("the old one is removed", func() bool { l, _ := w.fake.List(t.Context(), nil); return len(l) == 2 })
}

// TestDisplacedFirst: the replacement does not wait until an unreachable instance is gone.
func TestDisplacedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.fake.together, w.fake.stubborn = true, true
	w.begin()
	before := w.awaitRunning(1)
	w.c.Displaced(before[0], "its node does not answer")
	w.await("the replacement runs", func() bool {
		return slices.ContainsFunc(w.rows(), func(row *platform.Instance) bool { return row.GUID != before[0] && row.Ready })
	})
	if l, _ := w.fake.List(t.Context(), nil); len(l) != 2 {
		t.Errorf("%d instances exist, want the old one and the new one", len(l))
	}
}

// TestDisplacedAdopted: a server that was away finds out when it adopts the instance.
func TestDisplacedAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.fake.together = true
	w.begin()
	before := w.awaitRunning(1)
	w.c.Stop()
	w.fake.mu.Lock()
	w.fake.instances[before[0]].Displaced = true
	w.fake.mu.Unlock()
	w.begin()
	w.await("it is replaced", func() bool {
		return !slices.ContainsFunc(w.rows(), func(row *platform.Instance) bool { return row.GUID == before[0] })
	})
	w.awaitRunning(1)
	if n := len(w.audits("app.crash")); n != 0 {
		t.Errorf("%d crashes, want none", n)
	}
}

// TestEndsDisplaced: an instance that is told to stop by its machine has not crashed, also
// if its end is noticed before the machine says why.
func TestEndsDisplaced(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"end first": false, "both at once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.fake.together = true
			w.begin()
			before := w.awaitRunning(1)
			if first {
				a := w.c.lock("app")
				a.post(occurrence{id: before[0], event: event{kind: evEnded, text: "killed"}})
				a.post(occurrence{id: before[0], event: event{kind: evDisplaced, text: "its node is being drained"}})
				a.mu.Unlock()
				w.c.Kick("app")
			} else {
				w.fake.do(before[0], func(in *fakeInstance) {
					in.Displaced = true
					in.event(initproto.EventBody{Event: initproto.EventEnded, Status: 143, Stopped: true})
				})
			}
			w.await("it is replaced", func() bool {
				rows := w.rows()
				return len(rows) == 1 && rows[0].GUID != before[0] && rows[0].State == platform.InstanceRunning
			})
			if n, m := len(w.audits("app.crash")), len(w.audits("audit.app.process.rescheduling")); n != 0 || m != 1 ||
				w.rows()[0].Crashes != 0 {
				t.Errorf("%d crashes, %d moves, a crash count of %d, want one move", n, m, w.rows()[0].Crashes)
			}
		})
	}
}

// TestTaskDisplaced: a task that its machine stops fails with the reason, also if the
// machine says nothing more. It succeeds if it ends in time, and is started again if
// nothing of it ran.
func TestTaskDisplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	tasks := w.beginTasks()
	begin := func() string {
		t.Helper()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		tasks.Displaced(guid, "its node is being drained")
		return guid
	}
	stopped := begin()
	w.fake.do(stopped, func(in *fakeInstance) {
		in.event(initproto.EventBody{Event: initproto.EventEnded, Status: 143, Stopped: true})
	})
	if row := w.awaitState(tasks, stopped, platform.TaskFailed); !strings.Contains(row.Reason,
		"its node is being drained") {
		t.Errorf("the reason is %q, want that of the node", row.Reason)
	}
	inTime := begin()
	w.fake.finishTask(inTime, 0)
	w.awaitState(tasks, inTime, platform.TaskSucceeded)
	lost := begin()
	w.awaitTask(tasks, "removal", func() bool { w.clock.Advance(leaveTime); return !w.fake.has(lost) })
	w.awaitState(tasks, lost, platform.TaskFailed)

	var tries atomic.Int64
	w.fake.set(func() {
		w.fake.refuse = func(engine.Spec) error {
			if tries.Add(1) == 1 {
				return &engine.PlacementError{Reason: "the cluster removed the instance before it started", Displaced: true}
			}
			return nil
		}
	})
	guid := w.task(tasks, platform.Task{})
	w.awaitState(tasks, guid, platform.TaskRunning)
	w.fake.finishTask(guid, 0)
	w.awaitState(tasks, guid, platform.TaskSucceeded)
	if got := tries.Load(); got != 2 {
		t.Errorf("%d starts, want 2", got)
	}
}
