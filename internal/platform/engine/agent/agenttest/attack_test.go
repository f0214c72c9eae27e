//go:build linux

package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/agent/agenttest"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// vcap is the user of apps and agents in a Pod.
const vcap = 2000

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || runtime.GOARCH != "amd64" {
		t.Skip("needs root to run an agent as another user, and amd64 for numbers of system calls")
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// lines reads the output of an instance until a line.
func lines(t *testing.T, s engine.Stream, last string) []string {
	t.Helper()
	var all []string
	for {
		r, err := s.Next()
		if err != nil {
			t.Fatalf("no line %q: %v, after %q", last, err, all)
		}
		if r.Kind == initproto.Event {
			continue
		}
		if all = append(all, string(r.Payload)); all[len(all)-1] == last {
			return all
		}
	}
}

// app returns a member that runs a script, with the program of the suite as $MEMBER.
func app(script string) initproto.Spec {
	return initproto.Spec{LogRate: -1, User: vcap, Group: vcap, Members: []initproto.Member{{
		Name: "web", Source: "APP", Args: []string{"/bin/sh", "-c", script}, Dir: "{{home}}",
		Env: []string{"PATH=/usr/bin:/bin", "HOME={{home}}", "MEMBER={{home}}/bin/member"},
	}}}
}

// TestAttack: an app of the same user, without capabilities, cannot read its agent: neither
// memory nor environment nor files.
func TestAttack(t *testing.T) {
	t.Parallel()
	asRoot(t)
	dir := enginetest.TempDir(t)
	e, err := agenttest.New(dir, enginetest.InitPath())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	spec := engine.Spec{ID: "attack", Files: []engine.Archive{enginetest.Program()}, Launch: app(`
		sleep 1000 & victim=$!
		while [ "$(cat /proc/$victim/comm)" != sleep ]; do :; done
		id -u; grep CapEff /proc/self/status; "$MEMBER" attack $victim; echo ----; "$MEMBER" attack $PPID; echo done; exec sleep 1000`)}
	spec.Launch.Instance = spec.ID
	if err := e.Start(within(t), spec); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Remove(context.Background(), spec.ID); err != nil {
			t.Error(err)
		}
	}()
	s, err := e.Records(within(t), spec.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := lines(t, s, "done")
	cut := slices.Index(all, "----")
	control, attack := all[:cut], all[cut+1:]
	if !slices.Contains(control, "2000") ||
		!slices.ContainsFunc(control, func(l string) bool { return strings.HasSuffix(l, "0000000000000000") }) {
		t.Errorf("the app is %q, want user 2000 without capabilities", control[:2])
	}
	// The attacks work against another process of the user, as far as this machine allows it.
	for _, name := range []string{"environ", "maps", "mem", "fd", "exe", "oom_score_adj"} {
		if !slices.Contains(control, "open "+name) {
			t.Errorf("%s of another process is refused: the attack proves nothing", name)
		}
	}
	if n := len(slices.DeleteFunc(attack, func(l string) bool { return !strings.HasPrefix(l, "refused ") })); n < 12 {
		t.Errorf("%d attacks were refused, want 12", n)
	}
	for _, line := range attack {
		if strings.HasPrefix(line, "open ") {
			t.Errorf("the agent's %s is open", strings.TrimPrefix(line, "open "))
		}
	}
}

// TestSeedIsPrivate: the seed is in no environment of the instance, and not in the records.
func TestSeedIsPrivate(t *testing.T) {
	t.Parallel()
	asRoot(t)
	dir := enginetest.TempDir(t)
	e, err := agenttest.New(dir, enginetest.InitPath())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	spec := engine.Spec{ID: "seed",
		Launch: app(`env; for p in /proc/[0-9]*; do tr "\\0" "\\n" <$p/environ; done 2>/dev/null; echo done; exec sleep 1000`)}
	spec.Launch.Instance = spec.ID
	if err := e.Start(within(t), spec); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Remove(context.Background(), spec.ID) }()
	s, err := e.Records(within(t), spec.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	secret := agent.Environment(spec.ID, agent.Seed(agenttest.InstallKey, spec.ID), []byte("x"))[agentproto.EnvSeed]
	for _, line := range lines(t, s, "done") {
		if strings.Contains(line, secret) {
			t.Errorf("the app sees %q", line)
		}
	}
	p, err := e.Exec(within(t), spec.ID, engine.ExecRequest{Args: []string{"env"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if b, _ := io.ReadAll(p.Stdout()); strings.Contains(string(b), agentproto.EnvSeed) {
		t.Errorf("a process sees %s", b)
	}
	var b []byte
	testkit.Eventually(t, "the records are in the standard output, too", func() bool {
		b, _ = os.ReadFile(filepath.Join(dir, "instances", spec.ID, "control", "output"))
		return strings.Contains(string(b), "done")
	})
	if strings.Contains(string(b), secret) {
		t.Errorf("standard output is %s, want the records without the seed", b)
	}
}

// TestKillFirst: as the first process of its pid namespace, an agent cannot be killed by its
// app. The app can ask it to stop: that is its own instance.
func TestKillFirst(t *testing.T) {
	t.Parallel()
	asRoot(t)
	dir := enginetest.TempDir(t)
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, vcap, vcap); err != nil {
		t.Fatal(err)
	}
	authority, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ip := agenttest.Address()
	cmd := agenttest.Command(enginetest.InitPath(), "first", ip, home, authority.Certificate(), vcap, vcap)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Skipf("no pid namespace: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	own, err := authority.Client("server")
	if err != nil {
		t.Fatal(err)
	}
	if err := agenttest.AwaitListening(within(t), agenttest.Port(ip)); err != nil {
		t.Fatal(err)
	}
	client := (&agent.Dialer{Certificate: own}).At("first", agenttest.Port(ip), agenttest.Key("first"))
	spec := app(`kill -9 1; kill -STOP 1; echo "killed it: $?"; trap 'exit 3' TERM; while ! test -e go; do sleep 0.02; done; kill -TERM 1; while :; do sleep 0.02; done`)
	spec.Instance, spec.User, spec.Group = "first", 0, 0
	spec.Members[0].Dir = home
	if _, err := client.Launch(within(t), agent.Launch{Spec: spec}); err != nil {
		t.Fatal(err)
	}
	s, err := client.Records(within(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lines(t, s, "killed it: 0")
	if state, launched, err := client.State(within(t)); err != nil || !launched || state.Phase != initproto.Running ||
		state.PID != 1 {
		t.Errorf("state %+v, launched %t, %v, want a running instance of process 1", state, launched, err)
	}
	p, err := client.Exec(within(t), engine.ExecRequest{Args: []string{"touch", "go"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var last engine.Position
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = engine.Position(r.Seq)
	}
	if err := s.Ack(last); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the agent ended with %v, want status 3\n%s", err, output.String())
	}
}

// TestMemory: an idle agent becomes small.
func TestMemory(t *testing.T) {
	t.Parallel()
	dir := enginetest.TempDir(t)
	e, err := agenttest.New(dir, enginetest.InitPath())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	spec := engine.Spec{ID: "memory", Files: []engine.Archive{enginetest.Program()},
		Launch: app(`echo done; exec sleep 1000`)}
	spec.Launch.Instance, spec.Launch.User, spec.Launch.Group = spec.ID, 0, 0
	if err := e.Start(within(t), spec); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Remove(context.Background(), spec.ID) }()
	s, err := e.Records(within(t), spec.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lines(t, s, "done")
	first, err := agenttest.First(dir, spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ; {
		kb := resident(t, first.PID)
		if kb < 6<<10 {
			t.Logf("an idle agent has %d KB", kb)
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("an idle agent has %d KB, want less than 6 MB", kb)
		}
	}
}

// resident returns the memory of a process in KB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb int
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatalf("no VmRSS in %s", status)
	return 0
}
