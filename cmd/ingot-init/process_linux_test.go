package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFindOOMCounter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		groups string
		file   string
		first  bool
		found  bool
	}{
		{"version 2, own path", "0::/a/b\n", "a/b/memory.events", false, true},
		{"version 2, container", "0::/\n", "memory.events", true, true},
		{"version 2, root of the machine", "0::/\n", "memory.events", false, false},
		{"version 1, own path", "5:cpu:/x\n4:memory:/a\n", "memory/a/memory.oom_control", false, true},
		{"version 1, container that sees its outer path", "4:hugetlb,memory:/docker/1\n", "memory/memory.oom_control",
			true, true},
		{"version 1, root of the machine", "4:memory:/\n", "memory/memory.oom_control", false, false},
		{"nothing to see", "0::/a\n", "x", true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			file := filepath.Join(root, test.file)
			put := func(text string) {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("under_oom 0\noom_kill 2\n")
			h := host{oom: findOOMCounter(root, test.groups, test.first)}
			if h.outOfMemory() {
				t.Error("nothing happened yet")
			}
			put("oom 9\noom_kill 3\noom_group_kill 1\n")
			if got := h.outOfMemory(); got != test.found {
				t.Errorf("found: %v", got)
			}
			if h.outOfMemory() {
				t.Error("told twice")
			}
		})
	}
}
