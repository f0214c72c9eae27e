//go:build linux

package local

import (
	"errors"
	"testing"

	"ingot/internal/platform/engine"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	r, err := NewRoom(t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if r.memory < 1<<20 || r.disk < 1<<20 {
		t.Errorf("the machine has %d bytes of memory and %d of disk", r.memory, r.disk)
	}
	r.memory, r.disk = 1000, 500
	take := func(id string, memory, disk int64, want string) {
		t.Helper()
		got := ""
		var refused *engine.PlacementError
		if err := r.Take(id, engine.Limits{Memory: memory, Disk: disk}); errors.As(err, &refused) {
			got = refused.Reason
		} else if err != nil {
			t.Error(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	take("large", 1001, 1, engine.InsufficientMemory)
	take("wide", 1, 501, engine.InsufficientDisk)
	take("a", 1000, 500, "")
	take("a", 1000, 500, "") // it has it already
	r.Adopt("b", engine.Limits{Memory: 900})
	take("c", 101, 1, engine.InsufficientMemory)
	take("d", 100, 1, "")
	r.Free("a")
	r.Free("a")
	take("c", 101, 1, "")
	r.Adopt("e", engine.Limits{Memory: 5000}) // what runs, runs
	take("f", 1, 1, engine.InsufficientMemory)
	r.Free("e")
	take("f", 1, 1, "")
}
