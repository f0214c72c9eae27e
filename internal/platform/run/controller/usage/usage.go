package usage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
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
	Members     []Member
	// CPUTime and Written, bytes of output, are totals: of the instance, and since it is read.
	CPUTime time.Duration
	Written int64
}

const (
	// fresh is how long a sample is reused. Over a shorter time a rate would mean
	// little.
	fresh = time.Second
	// Memory grows quickly while an instance starts: during its first seconds (young)
	// memory and disk are read again after a short while (youngFresh), so that a push
	// does not show values from before the start.
	young      = 15 * time.Second
	youngFresh = 50 * time.Millisecond
	// atOnce is the number of concurrent requests to the engine.
	atOnce = 8
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

	Output
}

// Output counts what an instance writes.
type Output struct {
	Written  atomic.Int64 // bytes
	Followed atomic.Bool  // they are counted
}

// Engine is what a Meter needs of an engine.
type Engine interface {
	Get(ctx context.Context, id string) (engine.Instance, error)
	Usage(ctx context.Context, id string) (engine.Usage, error)
}

// Meter measures instances.
type Meter struct {
	engine Engine
	clock  clock.Clock

	mu sync.Mutex
	of map[string]*sample
}

// New returns a Meter of the instances of an engine.
func New(e Engine, c clock.Clock) *Meter {
	return &Meter{engine: e, clock: c, of: map[string]*sample{}}
}

// Output returns the counter of what an instance writes.
func (m *Meter) Output(id string) *Output { return &m.get(id).Output }

func (m *Meter) get(id string) *sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of[id]
	if s == nil {
		s = &sample{}
		m.of[id] = s
	}
	return s
}

// Forget drops what is known of an instance that is gone.
func (m *Meter) Forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}

// drop removes a sample whose reading failed.
func (m *Meter) drop(id string, s *sample) {
	if !s.ok && !s.Followed.Load() {
		m.Forget(id)
	}
}

// Of returns the usage of instances, by guid, without those that the engine has no data
// for. Rates are averages since the previous call, at first since the start of the
// instance; its processor time then counts over young at least.
func (m *Meter) Of(ctx context.Context, instanceGUIDs ...string) map[string]Usage {
	var mu sync.Mutex
	answers := make(map[string]Usage, len(instanceGUIDs))
	tokens := make(chan struct{}, atOnce)
	var all background.WaitGroup
	for _, id := range instanceGUIDs {
		tokens <- struct{}{}
		all.Go("usage of an instance", func() {
			defer func() { <-tokens }()
			if one, ok := m.measure(ctx, id); ok {
				mu.Lock()
				defer mu.Unlock()
				answers[id] = one
			}
		})
	}
	all.Wait()
	return answers
}

func (m *Meter) measure(ctx context.Context, id string) (Usage, bool) {
	s := m.get(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.clock.Now()
	if s.ok && now.Sub(s.at) < fresh {
		if now.Sub(s.began) < young && now.Sub(s.read) >= youngFresh {
			if seen, err := m.engine.Usage(ctx, id); err == nil {
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
	seen, err := m.engine.Usage(ctx, id)
	if err != nil {
		m.drop(id, s)
		return Usage{}, false
	}
	since, cpu, cpus, bytes := s.at, s.cpu, s.cpus, s.bytes
	written := s.Written.Load()
	if !s.ok {
		in, err := m.engine.Get(ctx, id)
		if err != nil {
			m.drop(id, s)
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
		over = max(d, young)
	}
	s.usage = between(seen, d, over, seen.CPUTime-cpu, written-bytes)
	s.usage.Members, s.cpus = membersBetween(seen.Members, cpus, over), cpuOfMembers(seen.Members)
	s.usage.CPUTime, s.usage.Written = seen.CPUTime, written
	s.usage.Time, s.at, s.read, s.cpu, s.bytes, s.ok = now, now, now, seen.CPUTime, written, true
	return s.usage, true
}

// between returns the usage with the output of a time d, and the processor time
// spent over another.
func between(seen engine.Usage, d, over, cpu time.Duration, bytes int64) Usage {
	u := Usage{Memory: seen.Memory, MemoryLimit: seen.MemoryLimit, Disk: seen.Disk}
	if d > 0 {
		u.CPU = max(0, float64(cpu)/float64(over))
		u.LogRate = max(0, int64(float64(bytes)/d.Seconds()))
	}
	return u
}
