//go:build linux

package choice

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/datadir"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/instance/initproto"
)

// newTestChooser returns the engines of a new data directory. set replaces the runc
// of its container engine.
func newTestChooser(t *testing.T) (c *chooser, set func(script string)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "choice")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // for another user's processes
		t.Fatal(err)
	}
	d, err := datadir.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c = newChooser(Options{Dir: d, Programs: testkit.Programs(t), Log: slog.New(slog.DiscardHandler)})
	runc := d.File("runc")
	c.container.Runc, c.container.Egress = runc, false
	t.Cleanup(func() {
		ctx := context.Background()
		for _, k := range c.kinds() {
			if err := c.stopOthers(ctx, k.name); err != nil {
				t.Error(err)
			}
		}
		if left := containertest.Of(c.container.Root).Left(t); len(left) > 0 {
			t.Errorf("left over:\n%s", strings.Join(left, "\n"))
		}
		d.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	set = func(script string) {
		_ = os.Remove(runc)
		testkit.WriteProgram(t, runc, "#!/bin/sh\n"+script+"\n")
	}
	return c, set
}

// workingRunc is a runc that works; the test is skipped where containers do not.
func workingRunc(t *testing.T) string {
	t.Helper()
	if err := TryContainers(t.Context(), testkit.Programs(t)); err != nil {
		containertest.Missing(t, err)
	}
	path, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	return "exec " + path + ` "$@"`
}

const brokenRunc = "echo broken >&2; exit 1"

func openKind(t *testing.T, c *chooser, kind, want string) engine.Engine {
	t.Helper()
	e, _, err := c.open(t.Context(), kind)
	if err != nil {
		t.Fatalf("--engine %s: %v", kind, err)
	}
	if d := e.Describe(); d.Name != want {
		t.Fatalf("--engine %s is %s, want %s", kind, d.Name, want)
	}
	return e
}

func runOne(t *testing.T, e engine.Engine, id string) {
	t.Helper()
	err := e.Start(t.Context(), engine.Spec{
		ID: id, Limits: engine.Limits{Memory: 64 << 20, Disk: 16 << 20},
		Launch: initproto.Spec{Instance: id, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess},
			Members: []initproto.Member{{
				Name: "web", Source: "APP", Args: []string{"/bin/sleep", "100000"}, Env: []string{"PATH=/bin", "HOME={{home}}"},
				Dir: "{{home}}",
			}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func running(t *testing.T, e engine.Engine) string {
	t.Helper()
	list, err := e.List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, in := range list {
		if in.Running {
			ids = append(ids, in.ID)
		}
	}
	return strings.Join(ids, " ")
}

func closeEngine(t *testing.T, e engine.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A restart never weakens the isolation: with a runc that fails, apps are held
// back, those that run go on, and all works again with a good runc.
func TestEngineIsRemembered(t *testing.T) {
	t.Parallel()
	good := workingRunc(t)
	c, set := newTestChooser(t)
	set(good)
	e := openKind(t, c, Auto, containers)
	runOne(t, e, "a")
	closeEngine(t, e)

	set(brokenRunc)
	for _, kind := range []string{Auto, containers} {
		e = openKind(t, c, kind, containers)
		if d := Describe(t.Context(), e); d.Held == "" {
			t.Errorf("--engine %s is not held back", kind)
		}
		if got := running(t, e); got != "a" {
			t.Errorf("--engine %s: %q run, want a", kind, got)
		}
		if recheck(t.Context(), e, c.log); e.Describe().Held == "" {
			t.Error("it works again, and nothing has changed")
		}
		if kind == containers {
			set(good)
			if recheck(t.Context(), e, c.log); e.Describe().Held != "" {
				t.Error("it does not work again")
			}
			runOne(t, e, "b")
		}
		closeEngine(t, e)
	}
	if _, err := os.Stat(c.process.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the process engine was opened: %v", err)
	}
}

// A data directory from before the choice was written down is known by what is
// in it.
func TestEngineOfOldDirectory(t *testing.T) {
	t.Parallel()
	good := workingRunc(t)
	c, set := newTestChooser(t)
	set(good)
	e := openKind(t, c, Auto, containers)
	runOne(t, e, "a")
	closeEngine(t, e)
	if err := os.Remove(c.dir.File(recordFile)); err != nil {
		t.Fatal(err)
	}
	set(brokenRunc)
	e = openKind(t, c, Auto, containers)
	closeEngine(t, e)
	if r, err := c.recorded(); err != nil || r.Engine != containers || r.Chosen.IsZero() {
		t.Errorf("recorded choice is %+v, %v, want %s and its time", r, err, containers)
	}
}

// Asked for by name, another engine is used from then on, and ends the instances
// of the one before with all they had.
func TestEngineChange(t *testing.T) {
	t.Parallel()
	good := workingRunc(t)
	c, set := newTestChooser(t)
	set(good)
	e := openKind(t, c, Auto, containers)
	runOne(t, e, "a")
	pid := containertest.Of(c.container.Root).InitPID(t, "a")
	closeEngine(t, e)

	set(brokenRunc) // ending them does not need it
	e = openKind(t, c, processes, processes)
	if left := containertest.Of(c.container.Root).Left(t); len(left) > 0 {
		t.Errorf("left of the container engine:\n%s", strings.Join(left, "\n"))
	}
	// a zombie has none
	if line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil && len(line) > 0 {
		t.Errorf("process %d still runs", pid)
	}
	runOne(t, e, "b")
	closeEngine(t, e)

	e = openKind(t, c, Auto, processes) // it stays
	if got := running(t, e); got != "b" {
		t.Errorf("%q run, want b", got)
	}
	closeEngine(t, e)

	if _, _, err := c.open(t.Context(), containers); err == nil || !strings.Contains(err.Error(), "--engine container") {
		t.Errorf("with a broken runc: %v", err)
	}
	e = openKind(t, c, Auto, processes) // a change that fails changes nothing
	if got := running(t, e); got != "b" {
		t.Errorf("%q run, want b", got)
	}
	closeEngine(t, e)

	set(good)
	e = openKind(t, c, containers, containers)
	if got := running(t, e); got != "" {
		t.Errorf("%q run, want none", got)
	}
	for _, dir := range []string{c.process.Root, c.process.Cache} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("looking for %s: error is %v, want %v", dir, err, os.ErrNotExist)
		}
	}
	closeEngine(t, e)
}

// On the first start auto takes what works, but not because the disk is full or
// time has run out: that would decide for ever.
func TestEngineIsDecidedOnce(t *testing.T) {
	t.Parallel()
	good := workingRunc(t)
	c, set := newTestChooser(t)
	set(good)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e, _, err := c.open(ctx, Auto); err == nil {
		t.Errorf("it is %s", e.Describe().Name)
		closeEngine(t, e)
	}
	set(brokenRunc)
	e := openKind(t, c, Auto, processes)
	closeEngine(t, e)
	set(good)
	e = openKind(t, c, Auto, processes)
	closeEngine(t, e)
	if r, err := c.recorded(); err != nil || !strings.Contains(r.Why, "runc") {
		t.Errorf("recorded choice is %+v, %v, want runc as the reason", r, err)
	}
}

// A file that does not name an engine is not taken for permission.
func TestEngineFileIsBroken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"engine":"docker"}`, `{"engine":""}`} {
		c, _ := newTestChooser(t)
		if err := os.WriteFile(c.dir.File(recordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.open(t.Context(), Auto); err == nil || !strings.Contains(err.Error(), recordFile) {
			t.Errorf("choice %q: error is %v, want one that names %s", text, err, recordFile)
		}
		if err := os.Remove(c.dir.File(recordFile)); err != nil { // for the cleanup
			t.Fatal(err)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(testkit.WithPrograms(m.Run)) }

// TestStopGoesOn stops three instances of each engine, one of which cannot be removed: the others
// are, it does not run any more, and the next attempt removes it.
func TestStopGoesOn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file immutable")
	}
	good := workingRunc(t)
	for _, kind := range []string{containers, processes} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c, set := newTestChooser(t)
			set(good)
			e := openKind(t, c, kind, kind)
			for _, id := range []string{"a", "b", "c"} {
				runOne(t, e, id)
			}
			k, _ := c.kind(kind)
			root := k.root
			if kind == containers {
				root = filepath.Join(root, "instances")
			}
			closeEngine(t, e)
			free := immutable(t, filepath.Join(root, "b", "control", "spec.json"))
			stopped, err := StopAll(t.Context(), Options{Dir: c.dir, Programs: testkit.Programs(t), Log: c.log})
			if want := (Stopped{Instances: 3}); stopped != want || err == nil || !strings.Contains(err.Error(), "instance b") {
				t.Errorf("got %+v, %v, want %+v and an error about b", stopped, err, want)
			}
			if left, err := os.ReadDir(root); err != nil || len(left) != 1 || left[0].Name() != "b" {
				t.Errorf("%v are left, %v, want b", left, err)
			}
			if procs := containertest.Of(c.container.Root).Processes(t, "b"); len(procs) > 0 {
				t.Errorf("b still runs: %v", procs)
			}
			free()
			if stopped, err := StopAll(t.Context(), Options{Dir: c.dir, Programs: testkit.Programs(t),
				Log: c.log}); err != nil || stopped != (Stopped{}) {
				t.Errorf("the next attempt: %+v, %v, want nothing to stop", stopped, err)
			}
			if left, err := os.ReadDir(root); err == nil && len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// immutable makes a file one that no one can remove, until free is called.
func immutable(t *testing.T, path string) (free func()) {
	t.Helper()
	if out, err := exec.Command("chattr", "+i", path).CombinedOutput(); err != nil {
		t.Skipf("this file system has no immutable files: %v: %s", err, out)
	}
	free = sync.OnceFunc(func() {
		if out, err := exec.Command("chattr", "-i", path).CombinedOutput(); err != nil {
			t.Errorf("chattr: %v: %s", err, out)
		}
	})
	t.Cleanup(free)
	return free
}
