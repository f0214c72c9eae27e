package cgroup

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// TestParents makes and removes groups of one parent at the same time: the parent is there
// as long as one of them is, and is gone with the last.
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
