package memlimit

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Server is the memory limit of a server, in bytes: heap, stacks and the
// runtime's own memory. The program's code and the caches of SQLite come on
// top.
const Server = 40 << 20

// Keep limits the memory of this process until stop is called. Use it only
// where the user did not set GOMEMLIMIT or GOGC.
func Keep(small int64) (stop func()) {
	k := &keeper{small: small}
	k.adjust()
	k.watch()
	return k.end
}

type keeper struct {
	small int64
	mu    sync.Mutex
	over  bool
}

// cycle is unreachable from the start, so that each collection finds it. It is
// not a tiny object, because those share a block with others that stay alive.
type cycle struct{ of *keeper }

// watch adjusts the limit after each collection.
func (k *keeper) watch() {
	runtime.SetFinalizer(&cycle{k}, func(c *cycle) {
		if c.of.adjust() {
			c.of.watch()
		}
	})
}

// adjust sets the limit according to the current usage. It returns false after
// end.
func (k *keeper) adjust() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	debug.SetMemoryLimit(limit(k.small, measure()))
	return true
}

func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	debug.SetMemoryLimit(math.MaxInt64)
}

// usage is the memory of a process, in bytes.
type usage struct {
	live  int64 // live heap after the last collection
	other int64 // memory outside the heap that was not returned to the system
}

// limit returns small, or more if the live heap needs it: a third above it, and
// approaching twice its size as it grows, which is Go's default.
func limit(small int64, u usage) int64 {
	return max(small, u.other+u.live+max(u.live/3, u.live-small/2))
}

func measure() usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return usage{live: value(0), other: value(1) - value(2) - value(3) - value(4)}
}
