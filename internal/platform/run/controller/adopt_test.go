package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/logs"
)

// The log store takes the lines of instances.
var _ Logs = logs.Store(nil)

func TestAdopt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.begin()
	ids := w.awaitRunning(3)
	number := 0
	write := func(n int) {
		for range n {
			number++
			w.fake.write(ids[0], fmt.Sprint("line ", number))
		}
	}
	write(5)
	w.await("lines", func() bool { return len(w.logs.of("APP/PROC/WEB")) == 5 })
	w.c.Stop()
	write(5)
	w.fake.crash(ids[1], 3) // unnoticed

	c := New(w.config())
	w.fake.set(func() { w.fake.hold = make(chan struct{}) }) // the one that crashed is not started yet
	w.run(c)
	if got := c.Backends("app", "web"); len(got) != 2 || got[0].InstanceGUID != ids[0] || got[1].InstanceGUID != ids[2] {
		t.Errorf("right after the start the backends are %+v", got)
	}
	close(w.fake.hold)
	w.await("the crash is seen", func() bool { return len(w.audits("app.crash")) == 1 })
	after := w.awaitRunning(3)
	if after[0] != ids[0] || after[1] == ids[1] || after[2] != ids[2] {
		t.Errorf("%v became %v", ids, after)
	}
	write(5)
	w.await("lines", func() bool { return len(w.logs.of("APP/PROC/WEB")) >= 16 })
	lines := slices.DeleteFunc(w.logs.of("APP/PROC/WEB"), func(l string) bool { return l == "Exit status 3" })
	for i, l := range lines {
		if l != fmt.Sprint("line ", i+1) {
			t.Errorf("line %d is %q", i+1, l)
		}
	}
	if len(lines) != 15 || w.c.lost.Load() != 0 {
		t.Errorf("%d lines, %d lost", len(lines), w.c.lost.Load())
	}
	// A third one finds that the crash was recorded already.
	w.c.Stop()
	w.begin()
	w.awaitRunning(3)
	w.settled()
	if n := w.fake.called("start"); n != 4 || len(w.audits("app.crash")) != 1 {
		t.Errorf("%d starts, %d crashes", n, len(w.audits("app.crash")))
	}
}

// TestAdoptHalfDone finds each row that a server can leave when it dies.
func TestAdoptHalfDone(t *testing.T) {
	t.Parallel()
	row := func(index int, state platform.InstanceState) *platform.Instance {
		return &platform.Instance{
			Resource: platform.Resource{GUID: fmt.Sprint("old-", index)}, AppGUID: "app", ProcessGUID: "app", Index: index,
			Version: "v1", State: state,
		}
	}
	labels := func(index int) map[string]string {
		return map[string]string{
			labelKind: kindApp, LabelApp: "app", labelProcess: "app", labelType: "web", labelIndex: fmt.Sprint(index),
			labelVersion: "v1",
			labelSources: "APP/PROC/WEB",
		}
	}
	w := newWorld(t, 6)
	crash := func(r *platform.Instance) *platform.Instance { r.RestartAt, r.Crashes = noon, 1; return r }
	w.update(func(tx platform.Tx) error {
		return errors.Join(
			tx.Instances().Insert(row(0, platform.InstanceStarting)),        // not started
			tx.Instances().Insert(row(1, platform.InstanceStarting)),        // started, not written
			tx.Instances().Insert(row(2, platform.InstanceStopping)),        // not signalled
			tx.Instances().Insert(row(3, platform.InstanceStopping)),        // removed, not written
			tx.Instances().Insert(crash(row(4, platform.InstanceStarting))), // crashed, not removed
			tx.Instances().Insert(row(5, platform.InstanceRunning)),         // taken away in good order
			tx.Instances().Insert(row(6, platform.InstanceRunning)),         // no longer wanted
		)
	})
	for _, i := range []int{1, 2, 4, 6} {
		if err := w.fake.Start(t.Context(), engine.Spec{ID: fmt.Sprint("old-", i), Labels: labels(i),
			Ports: []int{8080}}); err != nil {
			t.Fatal(err)
		}
	}
	orphan := labels(9)
	orphan[labelProcess] = "gone"
	for _, s := range []engine.Spec{
		{ID: "orphan", Labels: orphan},
		{ID: "build", Labels: map[string]string{labelKind: "staging"}},
	} {
		if err := w.fake.Start(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	w.begin()
	ids := w.awaitRunning(6)
	for i, id := range ids {
		if kept := id == fmt.Sprint("old-", i); kept != (i == 1) {
			t.Errorf("instance %d is %s", i, id)
		}
	}
	if r := w.rows(); len(r[1].Ports) != 1 || r[4].Crashes != 1 || r[5].Crashes != 0 || r[0].Crashes != 0 ||
		r[3].Crashes != 0 {
		t.Errorf("rows are %+v, want one port of instance 1 and one crash of instance 4 only", r)
	}
	if n := len(w.audits("app.crash")); n != 0 {
		t.Errorf("%d crashes were recorded, want none: the only one was recorded before", n)
	}
	w.await("the orphan is gone", func() bool { _, err := w.fake.Get(t.Context(), "orphan"); return err != nil })
	// An engine may have begun to create it, and does not list it.
	w.await("what was not started is removed", func() bool { return w.fake.called("remove old-0") == 1 })
	if _, err := w.fake.Get(t.Context(), "build"); err != nil {
		t.Error("what others run was removed")
	}
	// One that comes later is found too.
	if err := w.fake.Start(t.Context(), engine.Spec{ID: "orphan2", Labels: orphan}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(w.c.Interval)
	w.await("the orphan is gone", func() bool { _, err := w.fake.Get(t.Context(), "orphan2"); return err != nil })
}

// A crashed instance whose restart was scheduled before the clock was set back is started again
// after the longest pause at the latest.
func TestRestartTimeOfAnotherClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.update(func(tx platform.Tx) error {
		return tx.Instances().Insert(&platform.Instance{
			Resource: platform.Resource{GUID: "old-0"}, AppGUID: "app", ProcessGUID: "app", Version: "v1",
			State:   platform.InstanceCrashed,
			Crashes: 5, RestartAt: noon.Add(time.Hour),
		})
	})
	w.begin()
	w.settled()
	if n := w.fake.called("start"); n != 0 {
		t.Fatalf("%d starts at first, want none", n)
	}
	w.clock.Advance(longestPause)
	w.awaitRunning(1)
}

func TestLostLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.begin()
	id := w.awaitRunning(1)[0]
	w.fake.write(id, "a")
	w.fake.do(id, func(in *fakeInstance) { in.seq += 7 })
	w.fake.write(id, "b")
	w.fake.event(id, initproto.EventBody{Event: initproto.EventDropped, Lines: 3, Bytes: 99, Rate: 40})
	w.await("the lines", func() bool { return len(w.logs.of("LGR")) == 2 })
	want := []string{"7 lines were lost",
		"app instance exceeded log rate limit (40 bytes/sec): 3 lines (99 bytes) of APP/PROC/WEB were dropped"}
	if got := w.logs.of("LGR"); !slices.Equal(got, want) {
		t.Errorf("log lines are %q, want %q", got, want)
	}
	if got := w.logs.of("APP/PROC/WEB"); !slices.Equal(got, []string{"a", "b"}) || w.c.lost.Load() != 10 {
		t.Errorf("%q, %d lost", got, w.c.lost.Load())
	}
}

// TestLogsFail sees that lines wait for logs that fail for a while.
func TestLogsFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.begin()
	id := w.awaitRunning(1)[0]
	tries := 0
	w.logs.mu.Lock()
	w.logs.fail = func([]platform.LogLine) error {
		if tries++; tries <= 2 {
			return errors.New("disk full")
		}
		return nil
	}
	w.logs.mu.Unlock()
	w.fake.write(id, "a", "b")
	w.await("the lines", func() bool { return len(w.logs.of("APP/PROC/WEB")) == 2 })
	if w.c.lost.Load() != 0 {
		t.Errorf("%d lost", w.c.lost.Load())
	}
}
