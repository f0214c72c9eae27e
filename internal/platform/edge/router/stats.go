package router

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// latencyBounds are the upper bounds of the latency buckets.
var latencyBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	10 * time.Second, time.Minute,
}

const (
	// maxInstances is the number of instances with their own counters. Others count only
	// in the total.
	maxInstances = 2000
	// forgetAfter is how long the counters of an instance are kept after it left the table:
	// it may come back, and its last figures may be of interest.
	forgetAfter = 5 * time.Minute
)

// Stats are request counts of an instance, or of all.
type Stats struct {
	App, Process, Instance string
	Index                  int

	Requests int64
	Classes  [6]int64 // by the first digit of the status; 0 means no status
	// Buckets count the requests that took at most the latency bound with the same index
	// and more than the previous one; the last counts the rest.
	Buckets  [len(latencyBounds) + 1]int64
	Duration time.Duration // sum over all requests
	Sent     int64         // bytes of answers
	Received int64         // bytes of requests
	Active   int64         // in progress, with connections of TCP routes
	// Connections are those of TCP routes that have ended. They are no requests; Sent and
	// Received include their bytes.
	Connections int64
}

// Quantile estimates the latency that a share of the requests did not exceed: the bound of
// its bucket, or the largest bound for all above.
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

// add adds the counts of other.
func (s *Stats) add(other Stats) {
	s.Requests += other.Requests
	s.Duration += other.Duration
	s.Sent += other.Sent
	s.Received += other.Received
	s.Active += other.Active
	s.Connections += other.Connections
	for i, n := range other.Classes {
		s.Classes[i] += n
	}
	for i, n := range other.Buckets {
		s.Buckets[i] += n
	}
}

// instanceStats are the counters of an instance. They need no lock.
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
	dropped  atomic.Bool  // no longer read

	connections atomic.Int64 // of TCP routes
}

// connected counts a connection of a TCP route.
func (s *instanceStats) connected(a *Access) {
	s.connections.Add(1)
	s.sent.Add(a.ResponseBytes)
	s.received.Add(a.RequestBytes)
	s.last.Store(a.Time.Add(a.Duration).Unix())
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
		Sent: s.sent.Load(), Received: s.received.Load(), Active: s.active.Load(), Connections: s.connections.Load(),
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

// counters are the counters of a proxy.
type counters struct {
	all       instanceStats
	refused   sync.Map // counts by X-Cf-Routererror value, of which there are few
	ejections atomic.Int64
	retries   atomic.Int64
	fastPath  atomic.Int64 // served by the fast path
	stalled   atomic.Int64 // aborted because the client made no progress

	mu         sync.Mutex
	byInstance map[string]*instanceStats
	departed   map[string]*Stats // by app: the sums of its instances that were dropped
	looked     int64             // Unix seconds of the last call of forget
	overflow   instanceStats     // instances without their own counters
	table      *Table            // to know which instances exist
}

// of returns the counters for e.
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
		return &c.overflow // not cached: there may be room next time
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

// forget drops the counters of instances that are gone. Their counts stay in the sum of
// their app as long as it has other instances, because a counter must not decrease.
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
		c.refuse(a.RouterError)
	}
}

// refuse counts a request or connection that the router refused, by one of few words.
func (c *counters) refuse(word string) {
	n, ok := c.refused.Load(word)
	if !ok {
		n, _ = c.refused.LoadOrStore(word, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}

// connected counts a connection of a TCP route that has ended.
func (c *counters) connected(a *Access, s *instanceStats) {
	c.all.connected(a)
	s.connected(a)
}

// Stats returns the counts of every instance that had requests, by app and index. Those of
// an instance are dropped soon after it is gone.
func (p *Proxy) Stats() []Stats {
	all, _ := p.counters.snapshot(time.Now())
	return all
}

// snapshot returns the counts by instance and by app.
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
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Index, b.Index),
			cmp.Compare(a.Instance, b.Instance))
	})
	return instances, apps
}

// InstanceStats returns the counts of one instance; ok is false if it had no requests.
func (p *Proxy) InstanceStats(instanceGUID string) (s Stats, ok bool) {
	p.counters.mu.Lock()
	found := p.counters.byInstance[instanceGUID]
	p.counters.mu.Unlock()
	if found == nil {
		return Stats{}, false
	}
	return found.read(), true
}

// Busy reports whether an instance has requests in progress, even if no route maps to it
// any more.
func (p *Proxy) Busy(instanceGUID string) bool {
	p.counters.mu.Lock()
	defer p.counters.mu.Unlock()
	s := p.counters.byInstance[instanceGUID]
	return s != nil && s.active.Load() > 0
}
