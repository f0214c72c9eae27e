package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
)

// Usage is the resource usage of an instance.
type Usage struct {
	Time time.Time
	// CPU is the share of a processor: 1 is all of one.
	CPU         float64
	Memory      int64 // bytes
	MemoryLimit int64
	Disk        int64
	LogRate     int64 // bytes of output a second
	Members     []MemberUsage
}

const (
	// usageFresh is how long a sample is reused. Over a shorter time a rate would mean
	// little.
	usageFresh = time.Second
	// Memory grows quickly while an instance starts: during its first seconds (usageYoung)
	// memory and disk are read again after a short while (usageYoungFresh), so that a push
	// does not show values from before the start.
	usageYoung      = 15 * time.Second
	usageYoungFresh = 50 * time.Millisecond
	// usageAtOnce is the number of concurrent requests to the engine.
	usageAtOnce = 8
)

// sample is the last reading of an instance, with the rates since the previous one.
type sample struct {
	mu    sync.Mutex
	at    time.Time
	read  time.Time // time of reading memory and disk
	began time.Time // creation of the instance
	cpu   time.Duration
	cpus  map[string]time.Duration // of the members
	bytes int64
	usage Usage
	ok    bool

	written  atomic.Int64 // bytes of output since the last reading
	followed atomic.Bool  // a pump counts them
}

type usageCache struct {
	mu sync.Mutex
	of map[string]*sample
}

func (u *usageCache) get(id string) *sample {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.of[id]
	if s == nil {
		s = &sample{}
		u.of[id] = s
	}
	return s
}

func (u *usageCache) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, id)
}

// drop removes a sample whose reading failed.
func (u *usageCache) drop(id string, s *sample) {
	if !s.ok && !s.followed.Load() {
		u.forget(id)
	}
}

// Usage returns the usage of instances, by guid, without those that the engine has no data
// for. Rates are averages since the previous call, at first since the start of the
// instance; its processor time then counts over usageYoung at least.
func (c *Controller) Usage(ctx context.Context, instanceGUIDs ...string) map[string]Usage {
	var mu sync.Mutex
	answers := make(map[string]Usage, len(instanceGUIDs))
	tokens := make(chan struct{}, usageAtOnce)
	var all background.WaitGroup
	for _, id := range instanceGUIDs {
		tokens <- struct{}{}
		all.Go("usage of an instance", func() {
			defer func() { <-tokens }()
			if u, ok := c.usageOf(ctx, id); ok {
				mu.Lock()
				defer mu.Unlock()
				answers[id] = u
			}
		})
	}
	all.Wait()
	return answers
}

func (c *Controller) usageOf(ctx context.Context, id string) (Usage, bool) {
	s := c.usage.get(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := c.Clock.Now()
	if s.ok && now.Sub(s.at) < usageFresh {
		if now.Sub(s.began) < usageYoung && now.Sub(s.read) >= usageYoungFresh {
			if seen, err := c.Engine.Usage(ctx, id); err == nil {
				s.usage.Memory, s.usage.Disk, s.usage.Time, s.read = seen.Memory, seen.Disk, now, now
				rates := s.usage.Members
				s.usage.Members = membersBetween(seen.Members, nil, 0)
				for i := range min(len(rates), len(s.usage.Members)) {
					s.usage.Members[i].CPU = rates[i].CPU
				}
			}
		}
		return s.usage, true
	}
	seen, err := c.Engine.Usage(ctx, id)
	if err != nil {
		c.usage.drop(id, s)
		return Usage{}, false
	}
	since, cpu, cpus, bytes := s.at, s.cpu, s.cpus, s.bytes
	written := s.written.Load()
	if !s.ok {
		in, err := c.Engine.Get(ctx, id)
		if err != nil {
			c.usage.drop(id, s)
			return Usage{}, false
		}
		since, cpu, cpus, bytes = in.Created, 0, nil, 0
		s.began = in.Created
	}
	d := now.Sub(since)
	over := d
	if !s.ok {
		// Starting takes a burst of processor time, which over the first moments
		// alone would be several hundred per cent.
		over = max(d, usageYoung)
	}
	s.usage = usageBetween(seen, d, over, seen.CPUTime-cpu, written-bytes)
	s.usage.Members, s.cpus = membersBetween(seen.Members, cpus, over), cpuOfMembers(seen.Members)
	s.usage.Time, s.at, s.read, s.cpu, s.bytes, s.ok = now, now, now, seen.CPUTime, written, true
	return s.usage, true
}

// usageBetween returns the usage with the output of a time d, and the processor time
// spent over another.
func usageBetween(seen engine.Usage, d, over, cpu time.Duration, bytes int64) Usage {
	u := Usage{Memory: seen.Memory, MemoryLimit: seen.MemoryLimit, Disk: seen.Disk}
	if d > 0 {
		u.CPU = max(0, float64(cpu)/float64(over))
		u.LogRate = max(0, int64(float64(bytes)/d.Seconds()))
	}
	return u
}
