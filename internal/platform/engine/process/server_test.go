//go:build linux

package process_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/engine/process"
	"ingot/internal/platform/instance/initproto"
)

// serverVariable makes this test program a server on that directory, which
// starts an instance, runs a process in it, and waits to be killed.
const serverVariable = "PROCESS_TEST_SERVER"

func script(id, text string) engine.Spec {
	return engine.Spec{ID: id, Launch: initproto.Spec{
		Instance: id, LogRate: -1,
		Members: []initproto.Member{{
			Name: "web", Source: "APP/PROC/WEB", Args: []string{"/bin/sh", "-c", text},
			Env: []string{"PATH=/usr/bin:/bin", "PORT={{port:8080}}"}, Dir: "{{home}}",
		}},
		Health: initproto.Check{Kind: initproto.CheckProcess},
	}}
}

// TestServer is the server of TestServerKilled.
func TestServer(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(serverVariable)
	if dir == "" {
		t.Skip("only as a process of another test")
	}
	e := newEngine(t, dir)
	if err := e.Start(t.Context(),
		script("survivor", `n=0; while :; do n=$((n+1)); echo line $n; sleep 0.01; done`)); err != nil {
		t.Fatal(err)
	}
	p, err := e.Exec(t.Context(), "survivor",
		engine.ExecRequest{Args: []string{"/bin/sh", "-c", `trap '' HUP; echo $$; exec sleep 1000`}})
	if err != nil {
		t.Fatal(err)
	}
	pid, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("ready " + pid)
	select {} // until it is killed
}

// TestServerKilled kills a server as the kernel does when memory is short, and
// looks after its instances from another.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]bool{"Noted": false, "NotNoted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := enginetest.TempDir(t)
			cmd := exec.Command(os.Args[0], "-test.run=^TestServer$", "-test.v")
			cmd.Env = append(os.Environ(), serverVariable+"="+dir, enginetest.ProgramsVariable+"="+
				filepath.Dir(enginetest.InitPath()))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var execed string
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if pid, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
					execed = pid
					break
				}
			}
			if execed == "" {
				t.Fatal("the server did not get ready")
			}
			_ = cmd.Process.Kill()
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
			note := filepath.Join(dir, "instances", "survivor", "control", "init.json")
			if forget {
				// It died before it could write down whom it had started.
				if err := os.Remove(note); err != nil {
					t.Fatal(err)
				}
			}

			e := newEngine(t, dir)
			i, err := e.Get(t.Context(), "survivor")
			if err != nil || !i.Running {
				t.Fatalf("instance: %+v, %v", i, err)
			}
			s, err := e.Records(t.Context(), "survivor", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for last, lines := uint64(0), 0; lines < 50; {
				r, err := s.Next()
				if err != nil || r.Seq != last+1 {
					t.Fatalf("record %d after %d, %v", r.Seq, last, err)
				}
				last = r.Seq
				if r.Kind == initproto.Stdout {
					lines++
				}
			}
			if err := e.Remove(t.Context(), "survivor"); err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			// Its new parent may leave it a zombie for a while.
			pid, err := strconv.Atoi(execed)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the process that was run inside is gone", func() bool {
				s, err := local.ReadStat(pid)
				return err != nil || s.Zombie()
			})
		})
	}
}

// TestHalfMade sees that what a server was just making when it died is removed.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	dir := enginetest.TempDir(t)
	d, err := local.Create(filepath.Join(dir, "instances"), "half")
	if err != nil {
		t.Fatal(err)
	}
	stray := exec.Command("sleep", "1000")
	stray.Env = []string{"INGOT_INSTANCE=" + d.Path()}
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- stray.Wait() }()
	e := newEngine(t, dir)
	defer e.Close()
	<-waited // killed
	if _, err := os.Stat(d.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestReusedPID sees that a process that has an old ingot-init's pid by chance is
// left alone.
func TestReusedPID(t *testing.T) {
	t.Parallel()
	dir := enginetest.TempDir(t)
	e := newEngine(t, dir)
	defer e.Close()
	if err := e.Start(t.Context(), script("old", `exit 0`)); err != nil {
		t.Fatal(err)
	}
	s, err := e.Records(t.Context(), "old", 0)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = s.Next()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_ = s.Close()
	innocent := exec.Command("sleep", "1000")
	innocent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = innocent.Process.Kill()
		_ = innocent.Wait()
	}()
	note := filepath.Join(dir, "instances", "old", "control", "init.json")
	var first local.ProcessID
	if err := local.ReadJSON(note, &first); err != nil {
		t.Fatal(err)
	}
	first.PID = innocent.Process.Pid
	if err := local.WriteJSON(note, first); err != nil {
		t.Fatal(err)
	}
	e2 := newEngine(t, dir) // knows it from the file only
	defer e2.Close()
	if i, err := e2.Get(t.Context(), "old"); err != nil || i.Running {
		t.Errorf("instance: %+v, %v", i, err)
	}
	if err := errors.Join(e2.Signal(t.Context(), "old"), e2.Remove(t.Context(), "old")); err != nil {
		t.Error(err)
	}
	if err := innocent.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("the innocent process was killed")
	}
}

// TestRebooted: an instance that ran when the machine was restarted has not failed; one that
// had failed before has.
func TestRebooted(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{"exit 3": false, "kill -9 $PPID; exec sleep 1000": true} {
		dir := enginetest.TempDir(t)
		e := newEngine(t, dir)
		if err := e.Start(t.Context(), script("a", command)); err != nil {
			t.Fatal(err)
		}
		s, err := e.Records(t.Context(), "a", 0)
		for err == nil {
			_, err = s.Next()
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		_ = s.Close()
		// The records end a moment before the process that wrote them.
		testkit.Eventually(t, command+": it does not run", func() bool {
			in, err := e.Get(t.Context(), "a")
			return err == nil && !in.Running
		})
		if in, err := e.Get(t.Context(), "a"); err != nil || in.Displaced {
			t.Errorf("%s: before a restart of the machine it is %+v, %v", command, in, err)
		}
		_ = e.Close()
		note := filepath.Join(dir, "instances", "a", "control", "init.json")
		var first local.ProcessID
		if err := local.ReadJSON(note, &first); err != nil {
			t.Fatal(err)
		}
		first.Boot = "another"
		if err := local.WriteJSON(note, first); err != nil {
			t.Fatal(err)
		}
		after := newEngine(t, dir)
		if in, err := after.Get(t.Context(), "a"); err != nil || in.Running || in.Displaced != want {
			t.Errorf("%s: after it, it is %+v, %v, want displaced %t", command, in, err, want)
		}
		if err := errors.Join(after.Remove(t.Context(), "a"), after.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestPassable sees that a data directory that members cannot reach is named.
func TestPassable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes of another user")
	}
	dir := enginetest.TempDir(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, dir)
	defer e.Close()
	spec := script("x", `exit 0`)
	spec.Launch.User, spec.Launch.Group = 65111, 65111
	if err := e.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Start: %v", err)
	}
}

// TestSideBySide runs servers that want the same ports on one machine.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 3 {
		dir := enginetest.TempDir(t)
		e := newEngine(t, dir)
		for _, id := range []string{"a", "b"} {
			spec := script(id, `exec sleep 1000`)
			spec.Ports = []int{8080}
			if err := e.Start(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			i, err := e.Get(t.Context(), id)
			if err != nil || len(i.Ports) != 1 || seen[i.Ports[0].Address] {
				t.Errorf("instance is %+v, %v, want one port that no other has", i, err)
			}
			seen[i.Ports[0].Address] = true
		}
		t.Cleanup(func() {
			ctx := context.Background()
			if err := errors.Join(e.Remove(ctx, "a"), e.Remove(ctx, "b"), e.Close()); err != nil {
				t.Error(err)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// TestUnprivileged runs the suite as a user without privileges.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the other tests are run without privileges already")
	}
	dir := enginetest.TempDir(t)
	self := filepath.Join(dir, "process.test")
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	// A process that another test starts meanwhile would have the file open for
	// writing until it runs something else, and so long ours could not be run.
	syscall.ForkLock.RLock()
	err = os.WriteFile(self, program, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o755), os.Chown(tmp, 65112, 65112)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^(TestEngine|TestServerKilled)$", "-test.timeout=5m")
	cmd.Dir = tmp
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, "HOME=" + tmp,
		enginetest.ProgramsVariable + "=" + filepath.Dir(enginetest.InitPath()),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65112, Gid: 65112},
		Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("tests as another user: %v\n%s", err, out)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	e := newEngine(t, enginetest.TempDir(t))
	defer e.Close()
	if d := e.Describe(); d.Name != "process" || d.Isolated || !d.SharedPorts || d.Detail == "" {
		t.Errorf("description is %+v, want process, not isolated, with shared ports and a detail", d)
	}
}

var _ engine.Engine = (*process.Engine)(nil)
