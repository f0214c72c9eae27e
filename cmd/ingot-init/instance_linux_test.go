package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// lifeline returns the path of a named pipe that processes can hold open, and a
// function that waits until no process does.
func lifeline(t *testing.T) (name string, wait func()) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "lifeline")
	if err := syscall.Mkfifo(name, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return name, func() {
		t.Helper()
		if err := f.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Fatalf("a process still holds the pipe open: %v", err)
		}
	}
}

// asFirst makes ingot-init the first process of a pid namespace.
func asFirst(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}

func needsNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	asFirst(cmd)
	if err := cmd.Run(); err != nil {
		t.Skipf("no pid namespaces here: %v", err)
	}
}

func bothWays(t *testing.T, test func(t *testing.T, change ...func(*exec.Cmd))) {
	t.Helper()
	t.Run("child", func(t *testing.T) { t.Parallel(); test(t) })
	t.Run("first", func(t *testing.T) { t.Parallel(); needsNamespaces(t); test(t, asFirst) })
}

func TestNobodyIsLeft(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, change ...func(*exec.Cmd)) {
		name, wait := lifeline(t)
		// A daemon in its own session, without a parent, that ignores SIGTERM.
		daemon := fmt.Sprintf(`exec 3>%s; (setsid sh -c 'trap "" TERM HUP; echo up; while :; do sleep 1000; done' &) ; `,
			name)
		i := start(t, spec(shell("web", daemon+forever), shell("a", forever)), change...)
		i.until("o0 up")
		i.signal(syscall.SIGTERM)
		if got := i.end(); !got.Stopped || got.Status != 143 {
			t.Errorf("exit is %+v, want stopped with status 143", got)
		}
		wait()
	})
}

func TestEverybodyDiesWithIt(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, change ...func(*exec.Cmd)) {
		name, wait := lifeline(t)
		hold := fmt.Sprintf("exec 3>%s; echo up; exec sleep 1000", name)
		i := start(t, spec(shell("web", hold), shell("a", hold)), change...)
		i.untilAll("o0 up", "o1 up")
		i.signal(syscall.SIGKILL)
		wait()
	})
}

func TestZombies(t *testing.T) {
	t.Parallel()
	// Fifty orphans exit while the member keeps running.
	i := start(t, spec(shell("web", `for n in $(seq 50); do (true & exec true); (sh -c 'exit 3' &); done; echo up; `+
		forever)))
	i.until("o0 up")
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		zombies, children := childrenOf(t, i.cmd.Process.Pid)
		if zombies == 0 && children == 1 {
			break
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%d children, %d of them dead", children, zombies)
		}
	}
	i.signal(syscall.SIGTERM)
	i.end()
}

func childrenOf(t *testing.T, parent int) (zombies, all int) {
	t.Helper()
	names, err := readNames("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if _, number := strconv.Atoi(name); number != nil || err != nil {
			continue
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if string(fields[1]) == strconv.Itoa(parent) {
			all++
			if fields[0][0] == 'Z' {
				zombies++
			}
		}
	}
	return zombies, all
}

func TestUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	m := shell("web", `id -u; id -g; id -G; grep NoNewPrivs /proc/self/status >/dev/null; ps -o sess= -p $$ 2>/dev/null || true`)
	m.Dir = "/"
	s := spec(m)
	s.OneOff, s.User, s.Group = true, 65534, 65533
	i := start(t, s)
	i.end()
	if got := strings.Join(i.lines(initproto.Stdout, 0)[:3], " "); got != "65534 65533 65533" {
		t.Errorf("user and groups are %q, want 65534 65533 65533", got)
	}
}

// TestBurst has a member write 100 MB, and counts every line.
func TestBurst(t *testing.T) {
	t.Parallel()
	const count = 1_000_000
	s := spec(actor(t, "web", fmt.Sprintf("lines %d", count)))
	s.OneOff = true
	dir := t.TempDir()
	if err := writeSpec(dir, s); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--records", "-", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, peak := 0, int64(0)
	in := bufio.NewReaderSize(out, 1<<20)
	for seq := uint64(1); ; seq++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := initproto.ParseRecord(line)
		if err != nil || r.Seq != seq {
			t.Fatalf("%+v, %v, want number %d", r, err, seq)
		}
		if r.Kind == initproto.Stdout && r.Payload[0] == '0' {
			if n, err := strconv.Atoi(string(r.Payload)); err != nil || n != lines {
				t.Fatalf("line %d is %.120q", lines, r.Payload)
			}
			if lines++; lines == count-10_000 { // more than a pipe holds, so it runs
				peak = memory(t, cmd.Process.Pid, "VmHWM")
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lines, peak of resident memory %d kB", lines, peak)
	if lines != count || peak > 16<<10 {
		t.Errorf("%d lines, %d kB", lines, peak)
	}
	if state, err := readState(dir); err != nil || state.Phase != initproto.Ended {
		t.Errorf("state is %+v, %v, want phase %v", state, err, initproto.Ended)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := spec(actor(t, "web", fmt.Sprintf("serve %s:%d", loopback, port)), shell("a", forever))
	s.Health = soon(initproto.CheckHTTP, port)
	i := start(t, s)
	i.until("v0 ready")
	pid := i.cmd.Process.Pid
	all, own := memory(t, pid, "VmRSS"), memory(t, pid, "RssAnon")
	t.Logf("VmRSS %d kB, RssAnon %d kB", all, own)
	if all > 8<<10 || own > 4<<10 {
		t.Errorf("VmRSS %d kB, RssAnon %d kB", all, own)
	}
	i.signal(syscall.SIGTERM)
	i.end()
}

// memory returns a field of /proc/PID/status, in kB.
func memory(t *testing.T, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no " + field)
	return 0
}
