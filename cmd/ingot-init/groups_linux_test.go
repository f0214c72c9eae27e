package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform/instance/initproto"
)

// TestGroupCounters: the files of both versions of control groups show that a member ran
// out of memory, and that its own limit was the reason.
func TestGroupCounters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dir          string
		before, hit  map[string]string // files when it starts, and after it has exceeded its limit
		elsewhere    map[string]string // after the limit of the instance was exceeded
		wantsVersion bool
	}{
		"version 1": {
			"memory/member-1",
			map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
				"memory.max_usage_in_bytes": "7000000\n"},
			map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
				"memory.max_usage_in_bytes": "33554432\n"},
			map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
				"memory.max_usage_in_bytes": "7000000\n"},
			false,
		},
		"version 2": {
			"member-1",
			map[string]string{"memory.events": "low 0\nmax 4\noom 1\noom_kill 1\noom_group_kill 0\n",
				"memory.events.local": "oom 1\noom_kill 1\n"},
			map[string]string{"memory.events": "low 0\nmax 5\noom 2\noom_kill 4\noom_group_kill 1\n",
				"memory.events.local": "oom 2\noom_kill 4\n"},
			map[string]string{"memory.events": "oom 2\noom_kill 5\n"},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			write := func(files map[string]string) {
				for file, content := range files {
					path := filepath.Join(root, test.dir, file)
					if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			write(test.before)
			g := findGroup(root, "member-1", 32<<20)
			if g.v2 != test.wantsVersion {
				t.Fatalf("version 2 is %v, want %v", g.v2, test.wantsVersion)
			}
			if oom, limit := g.outOfMemory(); oom || limit != 0 {
				t.Errorf("at first out of memory is %v, %d", oom, limit)
			}
			write(test.hit)
			if oom, limit := g.outOfMemory(); !oom || limit != 32<<20 {
				t.Errorf("after its limit was exceeded: %v, %d, want true and the limit", oom, limit)
			}
			if oom, _ := g.outOfMemory(); oom {
				t.Error("an earlier kill is reported again")
			}
			write(test.elsewhere)
			if oom, limit := g.outOfMemory(); !oom || limit != 0 {
				t.Errorf("after the limit of the instance was exceeded: %v, %d, want true and no limit of its own", oom, limit)
			}
		})
	}
}

// TestLimitsNeedGroups: a member is not run without the limits that it asks for.
func TestLimitsNeedGroups(t *testing.T) {
	t.Parallel()
	limited := shell("a", "true")
	limited.Memory = 16 << 20
	weighed := shell("a", "true")
	weighed.CPUWeight = 10
	for _, m := range []initproto.Member{limited, weighed} {
		h := &host{spec: spec(shell("web", "true"), m)}
		if err := h.openGroups(t.TempDir()); err == nil {
			t.Errorf("a member with memory %d and weight %d runs without a control group", m.Memory, m.CPUWeight)
		}
	}
}

// TestEnter: a member that enters a group gets its program, arguments, variables, directory
// and output as any other, and none of the descriptors of ingot-init; failures are told
// apart.
func TestEnter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	enter := func(fd int, script string, args ...string) initproto.Member {
		m := shell("web", script)
		m.Env, m.Dir = append(slices.Clip(m.Env), "V=one two"), dir
		m.Group = &initproto.Group{Name: "member-0", Files: []int{fd}}
		if len(args) > 0 {
			m.Args = args
		}
		return m
	}
	for name, test := range map[string]struct {
		m      initproto.Member
		status int
		says   string
	}{
		"runs": {enter(3, `echo "$V in $(pwd) with $(ls -l /proc/$$/fd | grep -c cgroup.procs)"; exit 3`), 3,
			"o0 one two in " + dir + " with 0\n"},
		"no such program": {enter(3, "", "/no/such/program"), statusNotFound,
			"e0 /no/such/program: no such file or directory"},
		"not a program": {enter(3, "", dir), statusCannotRun, "e0 " + dir + ": permission denied"},
		"cannot be moved there": {enter(4, "true"), statusCannotRun,
			"e0 sh: moving into its control group: bad file descriptor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "cgroup.procs")
			writable, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer writable.Close()
			readable, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer readable.Close()
			i := start(t, spec(test.m), func(c *exec.Cmd) { c.ExtraFiles = []*os.File{writable, readable} })
			if got := i.end(); got.Status != test.status || !strings.Contains(i.transcript(), test.says) {
				t.Errorf("exit is %+v, want status %d and %q:\n%s", got, test.status, test.says, i.transcript())
			}
			want := "0" // it has moved itself
			if test.m.Group.Files[0] != 3 {
				want = ""
			}
			if content, err := os.ReadFile(file); err != nil || string(content) != want {
				t.Errorf("the file of the group has %q, %v, want %q", content, err, want)
			}
		})
	}
}
