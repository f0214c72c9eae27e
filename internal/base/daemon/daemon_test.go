package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/daemon"
	"ingot/internal/base/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a server: it writes its pid, answers by a file, and ends when told.
const script = `trap 'rm -f "$0/up"; exit 0' TERM
mkdir -p "$0"; echo $$ >"$0/../pid"; echo $$ >>"$0/../starts"; : >"$0/up"
while :; do sleep 0.05; done`

func spec(t *testing.T) daemon.Spec {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	return daemon.Spec{
		Name: "test", Dir: dir, Program: "/bin/sh", Args: []string{"-c", script, data}, Data: data,
		PIDFile: filepath.Join(dir, "pid"),
		Stop:    syscall.SIGTERM, Log: slog.New(slog.DiscardHandler),
		Prepare: func(context.Context) error { return os.RemoveAll(filepath.Join(data, "up")) },
		Answers: func(context.Context) error { _, err := os.Stat(filepath.Join(data, "up")); return err },
	}
}

func started(t *testing.T, s daemon.Spec) *daemon.Daemon {
	t.Helper()
	d := daemon.New(s)
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return d
}

func starts(t *testing.T, s daemon.Spec) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "starts"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func TestHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		d := daemon.New(spec(t))
		d.Wake()
		return d
	})
}

func TestStartsOnFirstUse(t *testing.T) {
	t.Parallel()
	s := spec(t)
	d := started(t, s)
	if d.Up() || d.PID() != 0 || len(starts(t, s)) != 0 {
		t.Error("it runs before anybody asked")
	}
	for range 2 {
		if err := d.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := starts(t, s); len(got) != 1 || strconv.Itoa(d.PID()) != got[0] {
		t.Errorf("started as %v, pid %d", got, d.PID())
	}
	pid := d.PID()
	d.Stop()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it is left: %v", err)
	}
	if err := d.Ensure(t.Context()); !errors.Is(err, background.ErrStopped) {
		t.Errorf("after Stop: %v", err)
	}
}

func TestIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := spec(t)
	d := started(t, s)
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := 2; n < 4; n++ {
		if err := syscall.Kill(d.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "another start", func() bool { return len(starts(t, s)) == n && d.Up() })
	}
}

// stateOf returns the state of a process as /proc has it, nothing for one that is
// gone.
func stateOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// TestAdopts: a server whose supervisor left it, or was killed, continues under the next
// one, which restarts it when it exits and stops it in the end.
func TestAdopts(t *testing.T) {
	t.Parallel()
	s := spec(t)
	first := started(t, s)
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := first.PID()
	first.Leave()
	if stateOf(pid) == "" {
		t.Fatal("the server ended with its supervisor")
	}
	second := started(t, s)
	if err := second.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := second.PID(); got != pid || len(starts(t, s)) != 1 {
		t.Errorf("it is process %d after %d starts, want %d after one", got, len(starts(t, s)), pid)
	}
	third := daemon.New(s) // two supervisors: the second one left, too
	second.Leave()
	if err := third.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := third.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another start", func() bool {
		return len(starts(t, s)) == 2 && third.Up() &&
			third.PID() != pid
	})
	last := third.PID()
	third.Leave()
	fourth := started(t, s)
	if err := fourth.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	fourth.Stop()
	if state := stateOf(last); state != "" && state != "Z" {
		t.Errorf("the adopted server is in state %q after Stop", state)
	}
}

// TestAdoptsOneThatRecovers: a server that is not ready when its supervisor leaves, or is killed, is not ended, or its
// recovery would begin again with each new supervisor.
func TestAdoptsOneThatRecovers(t *testing.T) {
	t.Parallel()
	s := spec(t)
	recovered := filepath.Join(s.Dir, "recovered")
	s.Answers = func(context.Context) error { _, err := os.Stat(recovered); return err }
	first := started(t, s)
	first.Wake()
	testkit.Eventually(t, "a start", func() bool { return first.PID() != 0 && len(starts(t, s)) == 1 })
	pid := first.PID()
	first.Leave()
	second := started(t, s)
	second.Wake()
	testkit.Eventually(t, "the second supervisor has it", func() bool { return second.PID() == pid })
	if second.Up() {
		t.Error("it is up before it answers")
	}
	if err := os.WriteFile(recovered, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.Ensure(t.Context()); err != nil || second.PID() != pid || len(starts(t, s)) != 1 {
		t.Errorf("%v: it is process %d after %d starts, want %d after one", err, second.PID(), len(starts(t, s)), pid)
	}
	second.Stop()
	if state := stateOf(pid); state != "" && state != "Z" {
		t.Errorf("the adopted server is in state %q after Stop", state)
	}
	// One that exits while it is waited for is started again.
	if err := os.Remove(recovered); err != nil {
		t.Fatal(err)
	}
	third := started(t, s)
	third.Wake()
	testkit.Eventually(t, "a second start", func() bool { return third.PID() != 0 && len(starts(t, s)) == 2 })
	third.Leave()
	fourth := started(t, s)
	fourth.Wake()
	testkit.Eventually(t, "the fourth supervisor has it", func() bool { return fourth.PID() != 0 })
	if err := syscall.Kill(fourth.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a third start", func() bool { return len(starts(t, s)) == 3 })
}

// TestAdoptsWithChildren: a child that still has the arguments of the server, as each has
// between fork and exec, is not taken for a second server, which would end both.
func TestAdoptsWithChildren(t *testing.T) {
	t.Parallel()
	s := spec(t)
	const child = `( while [ -e "$0/up" ]; do sleep 0.05; done ) &` + "\n"
	s.Args[1] = strings.Replace(script, "while :", child+"while :", 1)
	first := started(t, s)
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := first.PID()
	testkit.Eventually(t, "the child", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		return err == nil && len(strings.Fields(string(children))) == 2 // with its sleep
	})
	first.Leave()
	second := started(t, s)
	if err := second.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := second.PID(); got != pid || len(starts(t, s)) != 1 {
		t.Errorf("it is process %d after %d starts, want %d after one", got, len(starts(t, s)), pid)
	}
}

// What a supervisor that was killed left running with other arguments is ended first: never
// do two run on one directory.
func TestEndsWhatIsLeftOver(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"by pid file", "without pid file", "pid of another"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := spec(t)
			old := exec.Command(s.Program, append(slices.Clone(s.Args), "of another version")...)
			if err := old.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = old.Wait() }()
			testkit.Eventually(t, "the first runs", func() bool { return s.Answers(t.Context()) == nil })
			switch how {
			case "without pid file":
				if err := os.Remove(s.PIDFile); err != nil {
					t.Fatal(err)
				}
			case "pid of another": // ours must survive
				if err := os.WriteFile(s.PIDFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := started(t, s)
			if err := d.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			// It has ended, though Wait may not have returned yet.
			if state := stateOf(old.Process.Pid); state != "" && state != "Z" {
				t.Errorf("the old server is in state %q beside the new one", state)
			}
			<-ended
			if d.PID() == old.Process.Pid {
				t.Error("it is the old one")
			}
		})
	}
}

func TestEnsureSaysWhy(t *testing.T) {
	t.Parallel()
	s := spec(t)
	var tries atomic.Int32
	why := errors.New("the disk is full")
	s.Prepare = func(context.Context) error { tries.Add(1); return why }
	d := started(t, s)
	if err := d.Ensure(t.Context()); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
	testkit.Eventually(t, "it is tried again", func() bool { return tries.Load() > 2 })
	s = spec(t)
	s.Args = []string{"-c", "echo broken >&2; exit 3", s.Data}
	if err := started(t, s).Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error is %v, want exit status 3", err)
	}
	if text, err := os.ReadFile(filepath.Join(s.Dir, "log")); err != nil || !strings.Contains(string(text), "broken") {
		t.Errorf("its log: %q, %v", text, err)
	}
}

// TestHangingStart ends a server that never answers, and starts it again.
func TestHangingStart(t *testing.T) {
	t.Parallel()
	s := spec(t)
	silent := errors.New("no answer")
	s.Answers, s.StartTime = func(context.Context) error { return silent }, time.Millisecond
	if err := started(t, s).Ensure(t.Context()); !errors.Is(err, silent) || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("%v, want that it was not ready", err)
	}
	testkit.Eventually(t, "it is started again", func() bool { return len(starts(t, s)) > 1 })
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	// Whatever is installed: a path that works, or words that help.
	if dir, err := daemon.Postgres(); err != nil && !errors.Is(err, daemon.ErrNoPostgres) || err == nil && dir == "" {
		t.Errorf("directory is %q, %v, want one or %v", dir, err, daemon.ErrNoPostgres)
	}
	if server, install, err := daemon.MariaDB(); err != nil && !errors.Is(err, daemon.ErrNoMariaDB) || err == nil &&
		(server == "" || install == "") {
		t.Errorf("programs are %q and %q, %v, want both or %v", server, install, err, daemon.ErrNoMariaDB)
	}
	if path, err := daemon.Redis(); err != nil && !errors.Is(err, daemon.ErrNoRedis) || err == nil && path == "" {
		t.Errorf("path is %q, %v, want one or %v", path, err, daemon.ErrNoRedis)
	}
	if who, err := daemon.Unprivileged("no-such-user-here"); err != nil || os.Geteuid() == 0 &&
		(who == nil || who.Uid == 0) {
		t.Errorf("user is %v, %v, want one other than root", who, err)
	}
}

func TestCanEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs servers as somebody else")
	}
	nobody, err := daemon.Unprivileged("nobody")
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.MkdirTemp("/var/tmp", "ingot-enter-") //nolint:usetesting // the parents of t.TempDir() may be closed
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(open) })
	if err := os.Chmod(open, 0o711); err != nil { //nolint:gosec // that is what is tested
		t.Fatal(err)
	}
	closed := filepath.Join(open, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := daemon.CanEnter(filepath.Join(open, "to", "come"), nobody); err != nil {
		t.Errorf("a directory that can be entered: %v", err)
	}
	if err := daemon.CanEnter(closed, nil); err != nil {
		t.Errorf("ourselves: %v", err)
	}
	err = daemon.CanEnter(filepath.Join(closed, "data", "to", "come"), nobody)
	if !errors.Is(err, daemon.ErrClosed) || !strings.Contains(err.Error(), "user nobody, who cannot enter "+closed+": ") {
		t.Errorf("below a closed directory: %v", err)
	}
}

func TestEndBelow(t *testing.T) {
	t.Parallel()
	s, elsewhere, other := spec(t), spec(t), spec(t)
	other.Args[2] = filepath.Join(s.Dir, "other")
	other.Answers = func(context.Context) error { _, err := os.Stat(filepath.Join(other.Args[2], "up")); return err }
	begin := func(s daemon.Spec, name string) (ended chan struct{}) {
		program := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(s.Program, program); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, s.Args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended = make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		testkit.Eventually(t, "it runs", func() bool { return s.Answers(t.Context()) == nil })
		return ended
	}
	gone := begin(s, "redis-server")
	stay := []chan struct{}{begin(elsewhere, "redis-server"), begin(other, "backup")}
	names, err := daemon.StopBelow(t.Context(), s.Dir)
	if err != nil || len(names) != 1 || names[0] != "redis-server" {
		t.Fatalf("stopped %q, %v, want redis-server", names, err)
	}
	<-gone
	for i, ended := range stay {
		select {
		case <-ended:
			t.Errorf("another one ended too: %d", i)
		default:
		}
	}
}
