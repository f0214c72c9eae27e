//go:build linux

package container_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/cgroup"
	"ingot/internal/base/cgroup/cgrouptest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/instance/initproto"
)

// version2 reports whether this machine has control groups of version 2.
func version2() bool {
	t, err := cgroup.Find("")
	return err == nil && t.V2
}

// needVersion2 skips a test where containers do not run in control groups of version 2.
func needVersion2(t *testing.T) {
	t.Helper()
	need(t)
	if !version2() {
		t.Skip("this machine has control groups of version 1")
	}
}

// sleeps runs a process in an instance until the test is over.
func sleeps(t *testing.T, e *container.Engine, id string) {
	t.Helper()
	p, err := e.Exec(t.Context(), id, engine.ExecRequest{Args: []string{"/bin/sh", "-c", "echo runs; exec sleep 1000"}})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = p.Close() }) // it is killed with its instance
	line := make([]byte, 5)
	_, err = p.Stdout().Read(line)
	testkit.Must(t, err)
}

// TestGroups walks all control groups of an engine with an instance that has one process, one
// with sidecars, and processes of ssh in both.
func TestGroups(t *testing.T) {
	t.Parallel()
	needVersion2(t)
	e, dir := opened(t, container.Options{})
	pair := idle("pair")
	pair.Launch.Members = append(pair.Launch.Members, initproto.Member{Name: "side", Source: "SIDE", Memory: 32 << 20,
		CPUWeight: 50, Args: []string{"/bin/sleep", "1000"}, Env: []string{"PATH=/bin"}, Dir: "{{home}}"})
	small, large := idle("small"), idle("large")
	small.Limits.CPU, large.Limits.CPU = 128, 8192
	for _, s := range []engine.Spec{idle("alone"), pair, small, large} {
		testkit.Must(t, e.Start(t.Context(), s))
	}
	sleeps(t, e, "alone")
	sleeps(t, e, "pair")
	parent := containertest.Of(dir).Group(t)
	cgrouptest.Check(t, parent, map[string]string{
		".": "cpu memory pids+", "alone": "", "small": "", "large": "",
		"pair": "cpu memory", "pair/init": "", "pair/member-0": "", "pair/member-1": "", "pair/ssh": "",
	})
	file := func(name string) string { return strings.TrimSpace(read(t, filepath.Join(parent, name))) }
	for name, want := range map[string]string{
		"alone/memory.max": "536870912", "alone/memory.high": "520093696", "alone/memory.swap.max": "0",
		"alone/memory.oom.group": "0", // ingot-init is in it
		"small/cpu.weight":       "13", "alone/cpu.weight": "100", "large/cpu.weight": "800",
		"pair/member-0/memory.max": "536870912", "pair/member-0/memory.oom.group": "1",
		"pair/member-1/memory.max": "33554432", "pair/member-1/memory.high": "32505856",
		"pair/member-1/memory.swap.max": "0", "pair/member-1/memory.oom.group": "1", "pair/member-1/cpu.weight": "50",
	} {
		if got := file(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for _, group := range []string{"alone", "pair/init", "pair/member-0", "pair/member-1", "pair/ssh"} {
		if file(group+"/cgroup.procs") == "" {
			t.Errorf("%s has no processes", group)
		}
	}
}

// TestKilledWithInit: if ingot-init does not live to report that memory ran out, the kernel's count
// does.
func TestKilledWithInit(t *testing.T) {
	t.Parallel()
	needVersion2(t)
	e, dir := opened(t, container.Options{})
	s := idle("lost")
	s.Limits.Memory = 64 << 20
	testkit.Must(t, e.Start(t.Context(), s))
	first := containertest.Of(dir).InitPID(t, s.ID)
	testkit.Must(t, syscall.Kill(first, syscall.SIGSTOP)) // it would end the instance
	// tail keeps what has no end of line.
	p, err := e.Exec(t.Context(), s.ID, engine.ExecRequest{Args: []string{"/bin/sh", "-c", "tail /dev/zero; exit 0"}})
	testkit.Must(t, err)
	defer p.Close()
	testkit.Eventually(t, "a kill is counted", func() bool {
		u, err := e.Usage(t.Context(), s.ID)
		testkit.Must(t, err)
		return u.OOMKills > 0
	})
	testkit.Must(t, syscall.Kill(first, syscall.SIGKILL))
	testkit.Eventually(t, "the instance is gone", func() bool {
		i, err := e.Get(t.Context(), s.ID)
		testkit.Must(t, err)
		return !i.Running
	})
	i, err := e.Get(t.Context(), s.ID)
	testkit.Must(t, err)
	if x := i.State.Exit; x == nil || !x.OOM || x.Status != 137 {
		t.Errorf("the exit is %+v, want out of memory", x)
	}
}
