//go:build linux

package local

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"ingot/internal/platform/engine"
)

// DefaultOvercommit is the ratio of the sum of all memory limits to the machine's memory:
// most instances use a small part of their limit.
const DefaultOvercommit = 10

// Room decides whether the machine has room for another instance. Its memory limit must not
// exceed the machine's memory, nor its disk limit the disk; and the sum of all memory
// limits must not exceed Overcommit times the machine's memory.
type Room struct {
	memory, disk int64
	overcommit   int64

	mu    sync.Mutex
	taken map[string]int64 // memory limits by instance id
	sum   int64
}

// NewRoom measures the machine and the disk of a directory. Overcommit is DefaultOvercommit
// if zero.
func NewRoom(dir string, overcommit int) (*Room, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, fmt.Errorf("memory of this machine: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, fmt.Errorf("disk of %s: %w", dir, err)
	}
	if overcommit <= 0 {
		overcommit = DefaultOvercommit
	}
	return &Room{
		memory: int64(info.Totalram) * int64( //nolint:gosec,unconvert // far below 2^63; 32 bits on some machines
			info.Unit),
		disk:       int64(st.Blocks) * st.Bsize, //nolint:gosec // the same
		overcommit: int64(overcommit), taken: map[string]int64{},
	}, nil
}

// Take reserves room for an instance, until Free. It returns an *engine.PlacementError if
// there is none.
func (r *Room) Take(id string, l engine.Limits) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.taken[id]; ok {
		return nil
	}
	switch {
	case l.Memory > r.memory:
		return &engine.PlacementError{
			Reason: engine.InsufficientMemory,
			Err:    fmt.Errorf("its limit of %d MB is more than the machine's %d MB", l.Memory>>20, r.memory>>20),
		}
	case l.Disk > r.disk:
		return &engine.PlacementError{
			Reason: engine.InsufficientDisk,
			Err:    fmt.Errorf("its limit of %d MB is more than the disk's %d MB", l.Disk>>20, r.disk>>20),
		}
	case l.Memory > r.overcommit*r.memory-r.sum:
		return &engine.PlacementError{
			Reason: engine.InsufficientMemory,
			Err: fmt.Errorf("the limits of all instances would add up to %d MB, more than %d times the machine's %d MB",
				(r.sum+l.Memory)>>20, r.overcommit, r.memory>>20),
		}
	}
	r.note(id, l.Memory)
	return nil
}

// Adopt reserves room for an instance that already runs.
func (r *Room) Adopt(id string, l engine.Limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.taken[id]; !ok {
		r.note(id, l.Memory)
	}
}

func (r *Room) note(id string, memory int64) {
	r.taken[id] = max(0, memory)
	r.sum += r.taken[id]
}

// Free releases the room of an instance. It is not an error if it has none.
func (r *Room) Free(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum -= r.taken[id]
	delete(r.taken, id)
}
