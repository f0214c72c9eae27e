//go:build linux

package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/engine/local"
)

// Random kills of everything that an instance is made of, with the real engines
// and the real ingot-init. Only the clock is the test's own: a pause before the
// next start is passed over, not waited for.

const (
	killFew  = 20
	killMany = 1000
	// killSlots is how many instances there are.
	killSlots = 4
)

// TestKills is what always runs of TestKillsSoak.
//
//nolint:paralleltest // it counts what this process holds
func TestKills(t *testing.T) {
	onEngines(t, func(t *testing.T, v *victims) { v.killAtRandom(killFew) })
}

//nolint:paralleltest // it counts what this process holds
func TestKillsSoak(t *testing.T) {
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	onEngines(t, func(t *testing.T, v *victims) { v.killAtRandom(killMany) })
}

func onEngines(t *testing.T, test func(t *testing.T, v *victims)) {
	t.Helper()
	t.Run("process", func(t *testing.T) { test(t, processVictims(t)) })
	t.Run("container", func(t *testing.T) { test(t, containerVictims(t)) })
}

// victims are the instances of an app, and ways to end them.
type victims struct {
	*world
	kinds []string
	kill  func(id, kind string)
	// belongings counts what the engine has on this machine, by kind.
	belongings func() map[string]int
	// seen are all processes that any instance was seen to have.
	seen map[local.ProcessID]bool
}

func newVictims(t *testing.T, open func(w *world, dir string)) *victims {
	t.Helper()
	v := &victims{world: newRealOn(t, killSlots, serving, open), seen: map[local.ProcessID]bool{}}
	v.update(func(tx platform.Tx) error {
		return tx.Sidecars().Insert(&platform.Sidecar{AppGUID: "app", Name: "side", Command: "exec ./member wait",
			ProcessTypes: []string{"web"}, MemoryMB: 24})
	})
	return v
}

// meet remembers processes.
func (v *victims) meet(pids ...int) {
	for _, pid := range pids {
		if id, err := local.Identify(pid); err == nil {
			v.seen[id] = true
		}
	}
}

func (v *victims) shoot(pids ...int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with another
	}
}

// member is a member's process as the instance counts it.
func (v *victims) member(id, name string) int {
	v.Helper()
	in, err := v.engine.Get(context.Background(), id)
	if err != nil {
		v.Fatal(err)
	}
	for _, m := range in.State.Members {
		if m.Name == name {
			return m.PID
		}
	}
	v.Fatalf("no member %s in %+v", name, in.State)
	return 0
}

func processVictims(t *testing.T) *victims {
	t.Helper()
	v := newVictims(t, (*world).openEngine)
	v.kinds = []string{"web", "side", "init"}
	v.kill = func(id, kind string) {
		var first local.ProcessID
		if err := local.ReadJSON(filepath.Join(v.root, "instances", id, "control", "init.json"), &first); err != nil {
			v.Fatal(err)
		}
		web, side := v.member(id, "web"), v.member(id, "side")
		v.meet(first.PID, web, side)
		v.shoot(map[string]int{"web": web, "side": side, "init": first.PID}[kind])
	}
	v.belongings = func() map[string]int {
		dirs, err := os.ReadDir(filepath.Join(v.root, "instances"))
		if err != nil {
			v.Fatal(err)
		}
		return map[string]int{"directory": len(dirs), "port": heldPorts(v.T)}
	}
	return v
}

// heldPorts counts the ports that this process has reserved.
func heldPorts(t *testing.T) int {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	reserved := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], "@ingot-port-") {
			reserved["socket:["+f[6]+"]"] = true
		}
	}
	n := 0
	for _, to := range openFiles(t) {
		if reserved[to] {
			n++
		}
	}
	return n
}

// openFiles are what this process has open.
func openFiles(t *testing.T) (targets []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if to, err := os.Readlink("/proc/self/fd/" + one.Name()); err == nil { // the one that lists is gone
			targets = append(targets, to)
		}
	}
	return targets
}

func containerVictims(t *testing.T) *victims {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	initPath := filepath.Join(programs, "ingot-init")
	if err := container.Probe(t.Context(), container.Options{Init: initPath}); err != nil {
		containertest.Missing(t, err)
	}
	var machine containertest.Engine
	t.Cleanup(func() { // after that which closes the engine
		if left := machine.Left(t); len(left) > 0 {
			t.Errorf("left over:\n%s", strings.Join(left, "\n"))
		}
	})
	v := newVictims(t, func(w *world, dir string) {
		machine = containertest.Of(dir)
		e, err := container.New(t.Context(), container.Options{Root: dir, Init: initPath})
		if err != nil {
			t.Fatal(err)
		}
		w.engine, w.root = e, dir
	})
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	v.kinds = []string{"web", "side", "init", "all", "container"}
	v.kill = func(id, kind string) {
		inside := machine.Processes(t, id)
		all := slices.Sorted(maps.Values(inside))
		v.meet(all...)
		switch kind {
		case "init":
			v.shoot(machine.InitPID(t, id))
		case "all":
			v.shoot(all...)
		case "container": // removed behind the engine's back
			if out, err := exec.CommandContext(t.Context(), runc, "--root", machine.Runc(), "delete", "--force", id).
				CombinedOutput(); err != nil {
				t.Logf("runc delete: %v: %s", err, out) // whatever came of it
			}
		default:
			v.shoot(inside[v.member(id, kind)])
		}
	}
	v.belongings = func() map[string]int {
		count := map[string]int{}
		for _, one := range machine.Left(t) {
			kind, _, _ := strings.Cut(one, ":")
			count[kind]++
		}
		return count
	}
	return v
}

// killAtRandom kills a number of things, one or several instances at a time.
// Each time as many instances run again as should, those that were spared are
// the same as before, and nothing else has become more.
func (v *victims) killAtRandom(kills int) {
	v.Helper()
	v.begin()
	before := v.awaitRunning(killSlots)
	v.settled()
	had, files := v.belongings(), len(openFiles(v.T))
	began, counts, rounds := time.Now(), map[string]int{}, 0
	for done := 0; done < kills; rounds++ {
		shot := rand.Perm(killSlots)[:1+rand.IntN(min(killSlots, kills-done))]
		for _, i := range shot {
			kind := v.kinds[rand.IntN(len(v.kinds))]
			v.kill(before[i], kind)
			counts[kind]++
			done++
		}
		now := v.recovers(before, shot)
		if rand.IntN(2) == 0 {
			v.clock.Advance(soundAfter) // the next crash is the first again
		}
		before = now
	}
	v.Logf("%d kills in %d rounds and %v: %v; %d processes were seen", kills, rounds, time.Since(began).Round(time.Second),
		counts, len(v.seen))
	if crashes := len(v.audits("audit.app.process.crash")); crashes != kills {
		v.Errorf("%d crashes are recorded for %d kills", crashes, kills)
	}
	v.settled()
	if now := v.belongings(); !maps.Equal(now, had) {
		v.Errorf("there are now %v, and were %v", now, had)
	}
	// What the store and the network keep open for a while comes and goes.
	if now := len(openFiles(v.T)); now > files+10 {
		v.Errorf("%d files are open, and were %d", now, files)
	}
	v.setState(platform.AppStopped)
	v.awaitRunning(0)
	v.settled()
	for p := range v.seen {
		if p.Alive() {
			v.Errorf("process %d outlives its instance", p.PID)
		}
		if s, err := local.ReadStat(p.PID); err == nil && s.ID() == p && s.Parent == os.Getpid() {
			v.Errorf("process %d is a zombie that we should have buried", p.PID)
		}
	}
	// Orphans are buried by the machine's first process, when it gets to it.
	v.await("no zombie is left", func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(v.seen)), local.ProcessID.Exists)
	})
	if list, err := v.engine.List(v.Context(), nil); err != nil || len(list) > 0 {
		v.Errorf("left are %+v, %v", list, err)
	}
	if left := v.belongings(); left["port"] > 0 || left["loop device"] > 0 || left["process"] > 0 {
		v.Errorf("left are %v", left)
	}
}

// recovers waits until all slots have running instances again, and returns
// them. Where a slot has to wait for that, time passes.
func (v *victims) recovers(before []string, shot []int) (now []string) {
	v.Helper()
	v.await(fmt.Sprint("new ones for ", shot), func() bool {
		rows := v.rows()
		if len(rows) != killSlots {
			return false
		}
		for i, r := range rows {
			if wait := r.RestartAt.Sub(v.clock.Now()); r.State == platform.InstanceCrashed && wait > 0 {
				v.clock.Advance(wait)
			}
			if slices.Contains(shot, i) == (r.GUID == before[i]) {
				return false
			}
		}
		return true
	})
	now = v.awaitRunning(killSlots)
	for i, id := range now {
		if slices.Contains(shot, i) == (id == before[i]) {
			v.Fatalf("of %v the slots %v were killed, and now there are %v", before, shot, now)
		}
	}
	return now
}
