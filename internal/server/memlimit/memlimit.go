package memlimit

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"ingot/internal/base/background"
)

// Server is the memory limit of a server, in bytes: heap, stacks and the
// runtime's own memory. The program's code and the caches of SQLite come on
// top.
const Server = 40 << 20

// Keep limits the memory of this process until stop is called. Use it only
// where the user did not set GOMEMLIMIT or GOGC. Until started is called, the heap is collected only when the limit
// is reached, and grows to twice its live size then: a start allocates what it keeps.
func Keep(small int64) (started, stop func()) {
	k := &keeper{small: small, starting: true}
	k.percent = debug.SetGCPercent(-1)
	k.adjust()
	k.watch()
	return k.started, k.end
}

func (k *keeper) started() {
	k.mu.Lock()
	was := k.starting
	k.starting = false
	k.mu.Unlock()
	if was {
		debug.SetGCPercent(k.percent)
		k.adjust()
	}
}

type keeper struct {
	small    int64
	percent  int // of the collector, before
	mu       sync.Mutex
	over     bool
	starting bool
	stacks   int64       // after the last collection
	next     *time.Timer // of a collection that makes stacks smaller
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
	u := measure()
	most := limit(k.small, u)
	if k.starting {
		most = max(most, u.other+2*u.live)
	}
	debug.SetMemoryLimit(most)
	if shrinking(k.small, k.stacks, u.stacks) {
		if k.next != nil {
			k.next.Stop()
		}
		k.next = background.AfterFunc("shrink stacks", shrinkPause, runtime.GC)
	}
	k.stacks = u.stacks
	return true
}

// shrinkPause is the time between collections that make stacks smaller.
const shrinkPause = 5 * time.Second

// shrinking reports whether another collection can be expected to make the stacks smaller.
// A collection halves the stacks of goroutines that once called deeply, for example in a
// TLS handshake, and an idle process with thousands of them would keep them for long.
func shrinking(small, before, now int64) bool {
	return now > small/4 && (now < before*9/10 || now > before*11/10)
}

func (k *keeper) end() {
	k.started()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.next != nil {
		k.next.Stop()
	}
	debug.SetMemoryLimit(math.MaxInt64)
}

// usage is the memory of a process, in bytes.
type usage struct {
	live  int64 // live heap after the last collection
	other int64 // memory outside the heap that was not returned to the system
	// stacks is the part of other that goroutines use.
	stacks int64
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
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return usage{live: value(0), other: value(1) - value(2) - value(3) - value(4), stacks: value(5)}
}
