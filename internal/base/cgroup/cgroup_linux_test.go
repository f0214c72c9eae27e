package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestParents creates and removes groups of one parent concurrently: the parent exists
// as long as one of them, and is removed with the last.
func TestParents(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	trees, err := find()
	if err != nil {
		t.Skip(err)
	}
	parent := fmt.Sprintf("ingot-test-%d", os.Getpid())
	t.Cleanup(func() { _ = RemoveAll(parent) })
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 20 {
				g, err := Make(parent, Limits{Weight: 100, Spare: 1}, fmt.Sprint(n), Limits{Processes: 10})
				if err != nil {
					t.Errorf("group %d: %v", n, err)
					return
				}
				if err := g.Remove(); err != nil {
					t.Errorf("group %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	for _, point := range trees.points() {
		if exists(point + "/" + Place(trees.unified, parent, "")) {
			t.Errorf("%s/%s is left", point, parent)
		}
	}
}

// TestSpare checks which processors a group may use that leaves some to others.
func TestSpare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		list  string
		spare int
		want  string
	}{
		{"0-1", 0, "0,1"},
		{"0-1", 1, "1"},
		{"0", 1, "0"},
		{"2-4,6,8-9", 2, "4,6,8,9"},
		{"", 1, ""},
		{"what", 1, "what"},
	} {
		if got := without(test.list, test.spare); got != test.want {
			t.Errorf("%q without %d: %q, want %q", test.list, test.spare, got, test.want)
		}
	}
}

// TestShareOfVersion2 checks what is written to the files of version 2.
func TestShareOfVersion2(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	parent := filepath.Join(slice, "ingot-x-services")
	if err := os.MkdirAll(filepath.Join(root, parent, "one"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, slice, "cpuset.cpus.effective"), []byte("0-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"cgroup.subtree_control", slice + "/cgroup.subtree_control", parent + "/cgroup.subtree_control",
		parent + "/cpuset.cpus", parent + "/one/io.max",
	} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one := &Group{parent: parent, name: "one", trees: trees{unified: root}}
	one.trees.spare(parent, Limits{Spare: 1})
	passed := func(controller string, groups ...string) {
		t.Helper()
		for _, group := range groups {
			if got := text(filepath.Join(root, group, "cgroup.subtree_control")); got != "+"+controller {
				t.Errorf("%s passes %q on, want %s", group, got, controller)
			}
		}
	}
	passed("cpuset", "", slice)
	if got := text(filepath.Join(root, parent, "cpuset.cpus")); got != "1,2,3" {
		t.Errorf("processors %q, want 1,2,3", got)
	}
	device, err := deviceAt(root)
	if err == nil {
		err = one.LimitDisk(root, 500, 100)
	}
	if err != nil {
		t.Fatal(err)
	}
	passed("io", "", slice, parent)
	if got, want := text(filepath.Join(root, parent, "one", "io.max")), device+" rbps=500 wbps=100"; got != want {
		t.Errorf("limit of the disk %q, want %q", got, want)
	}
}

// TestNoGroupsForDisks checks that nothing is written where a machine has no such groups.
func TestNoGroupsForDisks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, trees := range map[string]trees{"version 1": {}, "version 2": {unified: root}} {
		g := &Group{parent: "ingot-x-services", name: "one", trees: trees}
		if err := g.LimitDisk(root, 500, 100); err == nil {
			t.Errorf("%s: the disk is limited by nothing", name)
		}
		trees.spare(g.parent, Limits{Spare: 1})
	}
	for _, dir := range []string{root, "."} {
		left, err := filepath.Glob(filepath.Join(dir, "*bps_device"))
		more, moreErr := filepath.Glob(filepath.Join(dir, "c*.c*s"))
		if err != nil || moreErr != nil || len(left)+len(more) > 0 {
			t.Errorf("left in %s: %v, %v, %v, %v", dir, left, more, err, moreErr)
		}
	}
}
