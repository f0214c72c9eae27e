//go:build linux

package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// TestLimitMembersVersion2: with version 2 of control groups ingot-init moves out of the way
// before controllers are enabled, and each member has its limits; an enforced one is killed
// as a whole.
func TestLimitMembersVersion2(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := cgroups{unified: root}
	for _, name := range []string{"member-0", "member-1"} {
		dir := filepath.Join(root, "g", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("max"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"memory.max", "memory.oom.group", "cpu.weight"} {
			if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for file, content := range map[string]string{"cgroup.subtree_control": "", "init/cgroup.procs": ""} {
		path := filepath.Join(root, "g", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := engine.Spec{Launch: initproto.Spec{Members: []initproto.Member{{Name: "web"}, {Name: "proxy", Memory: 32 << 20,
		CPUWeight: 50}}}}
	if err := c.limitMembers("g", 4711, s, engine.Limits{Memory: 256 << 20}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"init/cgroup.procs": "4711", "cgroup.subtree_control": "+cpu +memory",
		"member-0/memory.max": "268435456", "member-0/memory.swap.max": "0", "member-0/cpu.weight": "100",
		"member-0/memory.oom.group": "",
		"member-1/memory.max":       "33554432", "member-1/memory.swap.max": "0", "member-1/cpu.weight": "50",
		"member-1/memory.oom.group": "1",
	} {
		got, err := os.ReadFile(filepath.Join(root, "g", file))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s has %q, %v, want %q", file, got, err, want)
		}
	}
}
