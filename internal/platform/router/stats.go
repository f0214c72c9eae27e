package router

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// latencyBounds are the upper bounds of the buckets of latencies.
var latencyBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second, time.Minute,
}

const (
	// maxInstances bounds how many instances are counted apart. Those beyond
	// are counted for the whole router only.
	maxInstances = 2000
	// forgetAfter is how long an instance is remembered that is in no table any
	// more: it may come back, and somebody may want to see its last figures.
	forgetAfter = 5 * time.Minute
)

// Stats are the requests of an instance, or of all.
type Stats struct {
	App, Process, Instance string
	Index                  int

	Requests int64
	Classes  [6]int64 // by the first digit of the status; 0 is for none
	// Buckets count the requests that took at most the bound of the same index
	// of latencyBounds, and more than the one before; the last counts the rest.
	Buckets  [len(latencyBounds) + 1]int64
	Duration time.Duration // of all together
	Sent     int64         // bytes of answers
	Received int64         // bytes of requests
	Active   int64         // under way
}

// Quantile estimates below which time a share of the requests was: the bound of
// the bucket that holds it, and the longest bound for all above.
func (s Stats) Quantile(share float64) time.Duration {
	if s.Requests == 0 {
		return 0
	}
	rank, sum := int64(share*float64(s.Requests)), int64(0)
	for i, n := range s.Buckets[:len(latencyBounds)] {
		if sum += n; sum > rank || sum == s.Requests {
			return latencyBounds[i]
		}
	}
	return latencyBounds[len(latencyBounds)-1]
}

// add counts what the other had.
func (s *Stats) add(other Stats) {
	s.Requests += other.Requests
	s.Duration += other.Duration
	s.Sent += other.Sent
	s.Received += other.Received
	s.Active += other.Active
	for i, n := range other.Classes {
		s.Classes[i] += n
	}
	for i, n := range other.Buckets {
		s.Buckets[i] += n
	}
}

// instanceStats counts without locks.
type instanceStats struct {
	app, process, instance string
	index                  int

	classes  [6]atomic.Int64
	buckets  [len(latencyBounds) + 1]atomic.Int64
	duration atomic.Int64
	sent     atomic.Int64
	received atomic.Int64
	active   atomic.Int64
	last     atomic.Int64 // Unix seconds of the last request
	dropped  atomic.Bool  // nobody reads it any more
}

func (s *instanceStats) observe(a *Access) {
	class := a.Status / 100
	if class < 0 || class > 5 {
		class = 0
	}
	s.classes[class].Add(1)
	bucket := 0
	for bucket < len(latencyBounds) && a.Duration > latencyBounds[bucket] {
		bucket++
	}
	s.buckets[bucket].Add(1)
	s.duration.Add(int64(a.Duration))
	s.sent.Add(a.ResponseBytes)
	s.received.Add(a.RequestBytes)
	if now := a.Time.Unix(); s.last.Load() != now {
		s.last.Store(now)
	}
}

func (s *instanceStats) read() Stats {
	out := Stats{
		App: s.app, Process: s.process, Instance: s.instance, Index: s.index, Duration: time.Duration(s.duration.Load()),
		Sent: s.sent.Load(), Received: s.received.Load(), Active: s.active.Load(),
	}
	for i := range s.classes {
		out.Classes[i] = s.classes[i].Load()
		out.Requests += out.Classes[i]
	}
	for i := range s.buckets {
		out.Buckets[i] = s.buckets[i].Load()
	}
	return out
}

// counters are those of a proxy.
type counters struct {
	all       instanceStats
	refused   sync.Map // counts by the word of X-Cf-Routererror, which are ours and few
	ejections atomic.Int64
	retries   atomic.Int64
	express   atomic.Int64 // served by express lanes
	stalled   atomic.Int64 // broken off because the client stood still

	mu         sync.Mutex
	byInstance map[string]*instanceStats
	departed   map[string]*Stats // by app: the sums of its instances that are forgotten
	looked     int64             // Unix seconds of the last search for what can be forgotten
	overflow   instanceStats     // of those that are not counted apart
	table      *Table            // which instances there are
}

// of returns where the requests of e are counted.
func (c *counters) of(e *endpoint) *instanceStats {
	if s := e.state.stats.Load(); s != nil && !s.dropped.Load() {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byInstance[e.InstanceGUID]
	if now := time.Now(); s == nil && len(c.byInstance) >= maxInstances && now.Unix() != c.looked {
		c.forget(now)
	}
	switch {
	case s != nil:
	case len(c.byInstance) >= maxInstances || e.InstanceGUID == "":
		return &c.overflow // asked again next time: there may be room then
	default:
		s = &instanceStats{app: e.AppGUID, process: e.ProcessGUID, instance: e.InstanceGUID, index: e.Index}
		s.last.Store(time.Now().Unix())
		if c.byInstance == nil {
			c.byInstance = map[string]*instanceStats{}
		}
		c.byInstance[e.InstanceGUID] = s
	}
	e.state.stats.Store(s)
	return s
}

// forget drops instances that are gone. What they had counts on for their app,
// as long as that has others: a sum that shrinks would look like a new one.
func (c *counters) forget(now time.Time) {
	c.looked = now.Unix()
	there := c.table.instances()
	apps := map[string]bool{}
	for guid, s := range c.byInstance {
		if there[guid] || s.active.Load() != 0 || now.Unix()-s.last.Load() <= int64(forgetAfter/time.Second) {
			apps[s.app] = true
			continue
		}
		s.dropped.Store(true)
		delete(c.byInstance, guid)
		if c.departed == nil {
			c.departed = map[string]*Stats{}
		}
		if c.departed[s.app] == nil {
			c.departed[s.app] = new(Stats)
		}
		c.departed[s.app].add(s.read())
	}
	maps.DeleteFunc(c.departed, func(app string, _ *Stats) bool { return !apps[app] })
}

func (c *counters) observe(a *Access, s *instanceStats) {
	c.all.observe(a)
	if s != nil {
		s.observe(a)
	}
	if a.RouterError != "" {
		n, ok := c.refused.Load(a.RouterError)
		if !ok {
			n, _ = c.refused.LoadOrStore(a.RouterError, new(atomic.Int64))
		}
		n.(*atomic.Int64).Add(1)
	}
}

// Stats are the requests of every instance that had some, by app and index.
// Those of an instance are gone soon after it.
func (p *Proxy) Stats() []Stats {
	all, _ := p.counters.snapshot(time.Now())
	return all
}

// snapshot returns the requests of every instance, and those of every app.
func (c *counters) snapshot(now time.Time) (instances []Stats, apps map[string]*Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(now)
	apps = map[string]*Stats{}
	for _, s := range c.byInstance {
		one := s.read()
		instances = append(instances, one)
		if apps[one.App] == nil {
			apps[one.App] = new(Stats)
			if before := c.departed[one.App]; before != nil {
				*apps[one.App] = *before
			}
		}
		apps[one.App].add(one)
	}
	slices.SortFunc(instances, func(a, b Stats) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Instance, b.Instance))
	})
	return instances, apps
}

// InstanceStats are the requests of one instance; ok is false when it had none.
func (p *Proxy) InstanceStats(instanceGUID string) (s Stats, ok bool) {
	p.counters.mu.Lock()
	found := p.counters.byInstance[instanceGUID]
	p.counters.mu.Unlock()
	if found == nil {
		return Stats{}, false
	}
	return found.read(), true
}
