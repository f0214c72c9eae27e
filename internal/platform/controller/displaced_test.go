package controller

import (
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform"
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
	if len(moves) != 1 || moves[0].Data["reason"] != "its node is being drained" || moves[0].Data["instance"] != before[1] {
		t.Errorf("events are %+v, want one with the reason", moves)
	}
	if lines := strings.Join(w.logs.of("CELL"), "\n"); !strings.Contains(lines, "is replacing instance "+before[1]+": its node is being drained") {
		t.Errorf("the log says\n%s\nwant the reason", lines)
	}
	w.await("the old one is removed", func() bool { l, _ := w.fake.List(t.Context()); return len(l) == 2 })
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
	if l, _ := w.fake.List(t.Context()); len(l) != 2 {
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
