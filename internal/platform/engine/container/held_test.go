//go:build linux

package container_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/engine/enginetest"
)

// holdable is a directory of an engine with its own runc, which a test can
// break, and an instance "a" that a server before has left.
func holdable(t *testing.T, dir string) (o container.Options, set func(script string)) {
	t.Helper()
	need(t)
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	o = container.Options{Root: filepath.Join(dir, "root"), Init: enginetest.InitPath(),
		Runc: filepath.Join(enginetest.TempDir(t), "runc")}
	set = func(script string) {
		// A new file each time: the old one may still be run.
		_ = os.Remove(o.Runc)
		testkit.WriteProgram(t, o.Runc, "#!/bin/sh\n"+strings.ReplaceAll(script, "RUNC", runc)+"\n")
	}
	set(good)
	e, err := container.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	start(t, e, idle("a"))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return o, set
}

const good = `exec RUNC "$@"`

func reopened(t *testing.T, o container.Options) *container.Engine {
	t.Helper()
	tried := make(chan error, 1)
	e, err := container.Reopen(t.Context(), o, func(why error) { tried <- why })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, id := range []string{"a", "b"} {
			if err := e.Remove(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if left := leftovers(t, o.Root); len(left) > 0 {
			t.Errorf("left over:\n%s", strings.Join(left, "\n"))
		}
	})
	if why := <-tried; (why == nil) != (e.Describe().Held == "") {
		t.Errorf("the trial said %v, and the engine is held for %q", why, e.Describe().Held)
	}
	return e
}

// isHeld sees that an engine starts nothing, and that its instance goes on.
func isHeld(t *testing.T, e *container.Engine, root, why string) {
	t.Helper()
	if d := e.Describe(); !strings.Contains(d.Held, why) || !d.Isolated {
		t.Errorf("held for %q, not for %q", d.Held, why)
	}
	var refused *engine.PlacementError
	if err := e.Start(t.Context(), idle("b")); !errors.As(err, &refused) || strings.Contains(refused.Reason, "/") {
		t.Errorf("Start: %v", err)
	}
	list, err := e.List(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].ID != "a" || !list[0].Running {
		t.Errorf("list is %+v, %v, want a running", list, err)
	}
	if u, err := e.Usage(t.Context(), "a"); err != nil || u.Memory == 0 {
		t.Errorf("usage is %+v, %v, want memory", u, err)
	}
	if err := e.Check(t.Context()); err == nil {
		t.Error("nothing has changed, and it works again")
	}
	for _, thing := range containertest.Of(root).Left(t) {
		if strings.Contains(thing, "trial") || strings.HasSuffix(thing, "/b") {
			t.Errorf("left of what did not start: %s", thing)
		}
	}
}

// An engine whose containers do not work any more takes over the instances that
// run, starts none, and starts them again when it can.
func TestHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, why string }{
		"fails":   {"echo broken >&2; exit 1", "--version"},
		"creates": {`case "$*" in *create*) echo broken >&2; exit 1;; esac; exec RUNC "$@"`, "broken"},
		"missing": {"", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, set := holdable(t, enginetest.TempDir(t))
			if set(c.script); name == "missing" {
				if err := os.Remove(o.Runc); err != nil {
					t.Fatal(err)
				}
			}
			if e, err := container.Open(t.Context(), o); err == nil {
				t.Errorf("Open: no error, %v", e.Close())
			}
			e := reopened(t, o)
			isHeld(t, e, o.Root, c.why)
			set(good)
			if err := e.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if d := e.Describe(); d.Held != "" {
				t.Errorf("still held: %s", d.Held)
			}
			start(t, e, idle("b"))
			if out, status := inside(t, e, "a", "echo hello"); out != "hello" || status != 0 {
				t.Errorf("output is %q, exit status %d, want hello and 0", out, status)
			}
		})
	}
}

// While the firewall cannot be restored no instance starts, and then they do again.
func TestHeldByFirewall(t *testing.T) {
	t.Parallel()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("nft is not installed")
	}
	o, _ := holdable(t, enginetest.TempDir(t))
	e := reopened(t, o)
	if d := e.Describe(); d.Held != "" {
		t.Fatalf("held: %s", d.Held)
	}
	// Other programs cannot write a table that belongs to this process.
	cmd := exec.CommandContext(t.Context(), nft, "-i")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = fmt.Fprintf(in, "delete table inet %[1]s; add table inet %[1]s { flags owner; }\n",
			containertest.Of(o.Root).Table())
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the engine is held", func() bool { return e.Describe().Held != "" })
	isHeld(t, e, o.Root, "cannot be restored")
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the firewall is restored", func() bool { return e.Describe().Held == "" })
	if err := e.Check(t.Context()); err != nil || e.FirewallRestored() == 0 {
		t.Errorf("after %d changes the check says %v", e.FirewallRestored(), err)
	}
	start(t, e, idle("b"))
}

// A full disk holds instances back as well: none runs without a limit of its
// own.
func TestHeldByFullDisk(t *testing.T) {
	t.Parallel()
	need(t)
	dir := enginetest.TempDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m,mode=711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	o, _ := holdable(t, dir)
	filler := filepath.Join(dir, "filler")
	if out, err := exec.CommandContext(t.Context(), "dd", "if=/dev/zero", "of="+filler, "bs=1M").
		CombinedOutput(); err == nil {
		t.Fatalf("the disk is not full: %s", out)
	}
	e := reopened(t, o)
	isHeld(t, e, o.Root, "no space left")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, e, idle("b"))
}

// gated is a runc that creates no container until the file of the gate is gone.
const gated = `case "$*" in *create*) while [ -e GATE ]; do sleep 0.02; done;; esac; exec RUNC "$@"`

// Reopen does not wait for its trial: instances of before are there, and new ones wait.
func TestReopenTriesLater(t *testing.T) {
	t.Parallel()
	o, set := holdable(t, enginetest.TempDir(t))
	gate := filepath.Join(enginetest.TempDir(t), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	set(strings.ReplaceAll(gated, "GATE", gate))
	for _, closeEarly := range []bool{true, false} {
		tried := make(chan error, 1)
		e, err := container.Reopen(t.Context(), o, func(why error) { tried <- why })
		if err != nil {
			t.Fatal(err)
		}
		list, err := e.List(t.Context(), nil)
		if err != nil || len(list) == 0 || list[0].ID != "a" || !list[0].Running {
			t.Errorf("list is %+v, %v, want a running", list, err)
		}
		if out, status := inside(t, e, "a", "echo hello"); out != "hello" || status != 0 {
			t.Errorf("output is %q, exit status %d, want hello and 0", out, status)
		}
		if closeEarly { // the trial ends with it
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			for _, thing := range containertest.Of(o.Root).Left(t) {
				if strings.Contains(thing, "trial") {
					t.Errorf("left of the trial: %s", thing)
				}
			}
			continue
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Start(impatient, idle("b")); !errors.Is(err, context.Canceled) {
			t.Errorf("Start does not wait: %v", err)
		}
		started := make(chan error, 1)
		go func() { started <- e.Start(t.Context(), idle("b")) }()
		if err := os.Remove(gate); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(<-tried, <-started); err != nil {
			t.Error(err)
		}
		for _, id := range []string{"a", "b"} {
			if err := e.Remove(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := leftovers(t, o.Root); len(left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
}
