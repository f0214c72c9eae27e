package memlimit

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Server is the bound of a server, in bytes: heap, stacks and what the runtime
// itself needs. The program's code and the caches of SQLite come on top.
const Server = 40 << 20

// Keep bounds the memory of this process, until stop. Use it only where the user
// gave no bound of his own with GOMEMLIMIT or GOGC.
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

// cycle is garbage from the beginning, so that each collection finds it. It is
// no tiny object: those share a block with others that live on.
type cycle struct{ of *keeper }

// watch adjusts the bound after each collection.
func (k *keeper) watch() {
	runtime.SetFinalizer(&cycle{k}, func(c *cycle) {
		if c.of.adjust() {
			c.of.watch()
		}
	})
}

// adjust sets the bound by what is in use now, and returns false after the end.
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

// usage is what a process has, in bytes.
type usage struct {
	live  int64 // the heap that the last collection left
	other int64 // beside the heap's objects, and not given back
}

// limit is small, or more where what is in use needs it: a third above that, and
// the more is in use the nearer to twice, which is the usual pace of the
// collector.
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
