package rootless

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// Variables with which this test program runs itself: as an ordinary user, it makes namespaces of the
// directory and runs the program there.
const (
	enterDir  = "INGOT_TEST_ENTER"
	enterInit = "INGOT_TEST_ENTER_INIT"
)

func TestMain(m *testing.M) {
	if status, ok := Stage(os.Args[1:]); ok {
		os.Exit(status)
	}
	if dir := os.Getenv(enterDir); dir != "" {
		if err := enterAndRun(dir, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// enterAndRun runs a program as root of the namespaces of a directory, which are ended afterwards.
func enterAndRun(dir string, argv []string) (err error) {
	s, err := New(Options{DataDir: dir, Init: os.Getenv(enterInit), Inside: os.Getenv("INGOT_TEST_ENTER_NET") != ""})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := s.Ensure(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Release()) }()
	cmd, err := s.Command(ctx, argv[0], argv[1:]...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// asUser returns a command that runs as an ordinary user who may have containers. If root runs the test, it makes a
// user and a control group, which are removed with the test.
func asUser(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		return exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	}
	if (groups{tree: "/sys/fs/cgroup"}).unified() {
		t.Skip("with control groups of version 2, run this test as an ordinary user with a systemd of their own")
	}
	for _, program := range []string{"useradd", "userdel", "setpriv"} {
		if find(program) == "" {
			t.Skip(program + " is missing")
		}
	}
	name := "ingott" + strconv.FormatInt(time.Now().UnixNano()%1e9, 36)
	run := func(name string, args ...string) {
		if out, err := exec.CommandContext(t.Context(), find(name), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	run("useradd", "--create-home", "--home-dir", "/var/tmp/"+name, name)
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), find("userdel"), "--remove", name).
			CombinedOutput(); err != nil {
			t.Errorf("userdel: %v: %s", err, out)
		}
	})
	account, err := user.Lookup(name)
	testkit.Must(t, err)
	uid, err := strconv.Atoi(account.Uid)
	testkit.Must(t, err)
	if _, err := mapsOf("/etc", name, uid); err != nil {
		t.Skip(err)
	}
	var files []string
	all, err := groups{proc: "/proc", tree: "/sys/fs/cgroup"}.of("1")
	testkit.Must(t, err)
	for tree := range all {
		top := "/sys/fs/cgroup/" + tree
		dir := filepath.Join(top, name)
		testkit.Must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { _ = removeGroups(dir) })
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(top, file)); err == nil {
				testkit.Must(t, os.WriteFile(filepath.Join(dir, file), text, 0))
			}
		}
		run("chown", "-R", name+":", dir)
		files = append(files, filepath.Join(dir, "cgroup.procs"))
	}
	script := `while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; cd / && exec setpriv --reuid "$0" ` +
		`--regid "$0" --init-groups "$@"`
	args := append([]string{"-c", script, name}, append(append(files, "--"), argv...)...)
	return exec.CommandContext(t.Context(), "/bin/sh", args...)
}

// removeGroups removes a control group and those below.
func removeGroups(dir string) error {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			_ = removeGroups(filepath.Join(dir, e.Name()))
		}
	}
	return os.Remove(dir)
}

// open lets everybody read what the test has built.
func open(t *testing.T, dir string) string {
	t.Helper()
	testkit.Must(t, os.Chmod(dir, 0o755))
	return dir
}

// inSpace runs a program in the namespaces of an ordinary user and returns its output.
func inSpace(t *testing.T, env []string, argv ...string) (string, error) {
	t.Helper()
	dir := open(t, shared(t))
	self := copyOf(t, dir, os.Args[0])
	testkit.Must(t, testkit.Build(dir, "ingot/cmd/ingot-init", "ingot/internal/platform/engine/enginetest/member"))
	data, err := os.MkdirTemp("/var/tmp", "ingotrl")
	testkit.Must(t, err)
	testkit.Must(t, os.Chmod(data, 0o777|os.ModeSticky)) //nolint:gosec // the user has no other place that the test knows
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	cmd := asUser(t, append([]string{self}, argv...)...)
	cmd.Env = append(append(os.Environ(), enterDir+"="+filepath.Join(data, "data"),
		enterInit+"="+filepath.Join(dir, "ingot-init"), "ENGINETEST_PROGRAMS="+dir, "HOME="+data, "TMPDIR="+data), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if line := lastLine(out.String()); err != nil && strings.HasPrefix(line, "containers without root:") {
		t.Skip(line)
	}
	return out.String(), err
}

// shared returns a directory that other users can enter.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "ingotrl")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func copyOf(t *testing.T, dir, program string) string {
	t.Helper()
	content, err := os.ReadFile(program)
	testkit.Must(t, err)
	to := filepath.Join(dir, filepath.Base(program))
	testkit.Must(t, os.WriteFile(to, content, 0o755)) //nolint:gosec // a program
	return to
}

// suites are the tests of the container engine that an ordinary user's containers have to pass.
const suites = "^(TestEngine|TestEscape|TestNetwork|TestReach|TestSystemCalls|TestSecurityGroups|TestNetworkPolicies|" +
	"TestDialUnix|TestLimitsAreSeen|TestRefusedNetworks|TestKilled|TestHostFiles)$"

// TestSoakEngine runs the suite of the container engine, and the attempts to escape from it, as an ordinary user.
// It needs the machine for itself: its namespaces have a copy of every mount, and where these are not shared, as
// without systemd, the disks of other tests' instances stay attached as long as it runs.
func TestSoakEngine(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("it needs the machine for itself: run make soak")
	}
	dir := open(t, shared(t))
	program := engineTests(t, dir)
	out, err := inSpace(t, []string{"INGOT_TEST_ENTER_NET=1", "INGOT_REQUIRE_CONTAINERS=1"}, program,
		"-test.v", "-test.run", suites, "-test.timeout", "1h")
	if err != nil || !strings.Contains(out, "--- PASS: TestEngine") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(out)
}

// engineTests returns the compiled tests of the container engine in a directory. A machine without Go has them in
// the directory of programs.
func engineTests(t *testing.T, dir string) string {
	t.Helper()
	const name = "container.test"
	ready := filepath.Join(os.Getenv("INGOT_TEST_PROGRAMS"), name)
	if _, err := os.Stat(ready); err == nil {
		return copyOf(t, dir, ready)
	}
	program := filepath.Join(dir, name)
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-trimpath", "-buildvcs=false", "-o",
		program, "ingot/internal/platform/engine/container")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}
