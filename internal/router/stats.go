package router

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	// forgetAfter is how long an instance is remembered that gets no requests.
	forgetAfter = time.Hour
)

// Stats are the requests of an instance, or of all.
type Stats struct {
	App, Process, Instance string
	Index                  int

	Requests int64
	Classes  [6]int64 // by the first digit of the status; 0 is for none
	// Buckets count the requests that took at most the bound of the same index
	// of LatencyBounds, and more than the one before; the last counts the rest.
	Buckets  [len(latencyBounds) + 1]int64
	Duration time.Duration // of all together
	Sent     int64         // bytes of answers
	Received int64         // bytes of requests
	Active   int64         // under way
}

// LatencyBounds are the upper bounds of Stats.Buckets but the last.
func LatencyBounds() []time.Duration { return latencyBounds[:] }

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

	mu         sync.Mutex
	byInstance map[string]*instanceStats
	overflow   instanceStats // of those that are not counted apart
}

// of returns where the requests of e are counted.
func (c *counters) of(e *endpoint) *instanceStats {
	if s := e.state.stats.Load(); s != nil && !s.dropped.Load() {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byInstance[e.InstanceGUID]
	if s == nil && len(c.byInstance) >= maxInstances {
		c.forget(time.Now())
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

// forget drops what had no request for long.
func (c *counters) forget(now time.Time) {
	for guid, s := range c.byInstance {
		if s.active.Load() == 0 && now.Unix()-s.last.Load() > int64(forgetAfter/time.Second) {
			s.dropped.Store(true)
			delete(c.byInstance, guid)
		}
	}
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

// Stats are the requests of every instance that had some lately, by app and
// index.
func (p *Proxy) Stats() []Stats {
	c := &p.counters
	c.mu.Lock()
	c.forget(time.Now())
	out := make([]Stats, 0, len(c.byInstance))
	for _, s := range c.byInstance {
		out = append(out, s.read())
	}
	c.mu.Unlock()
	slices.SortFunc(out, func(a, b Stats) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Instance, b.Instance))
	})
	return out
}

// InstanceStats are the requests of one instance; ok is false when it had none
// lately.
func (p *Proxy) InstanceStats(instanceGUID string) (s Stats, ok bool) {
	p.counters.mu.Lock()
	found := p.counters.byInstance[instanceGUID]
	p.counters.mu.Unlock()
	if found == nil {
		return Stats{}, false
	}
	return found.read(), true
}

var (
	instanceLabels = []string{"app_id", "instance_id", "instance_index"}
	describe       = func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ingot_router_"+name, help, labels, nil)
	}
	descRequests  = describe("requests_total", "Requests to instances, by app, instance and class of the answer.", append(instanceLabels, "class")...)
	descAppTime   = describe("app_request_duration_seconds", "Time of requests until their last byte, by app.", "app_id")
	descActive    = describe("instance_active_requests", "Requests under way, by app and instance.", instanceLabels...)
	descAllTime   = describe("request_duration_seconds", "Time of all requests until their last byte.")
	descAll       = describe("all_requests_total", "All requests, by class of the answer.", "class")
	descRefused   = describe("refusals_total", "Requests that the router answered itself, by the word of X-Cf-RouterError.", "error")
	descRetries   = describe("retries_total", "Attempts that were made again with another instance.")
	descEjections = describe("ejections_total", "Instances that got no more requests for a while because they did not answer.")
	descExpress   = describe("express_requests_total", "Requests that express lanes served.")
	descRoutes    = describe("routes", "Routes in the table.")
)

var _ prometheus.Collector = (*Proxy)(nil)

// Describe implements prometheus.Collector.
func (p *Proxy) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descAppTime, descActive, descAllTime, descAll, descRefused, descRetries, descEjections, descExpress, descRoutes} {
		to <- d
	}
}

// Collect implements prometheus.Collector. There are never more than
// maxInstances instances in it, and no label that a client chose.
func (p *Proxy) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	apps := map[string]*Stats{}
	for _, s := range p.Stats() {
		labels := []string{s.App, s.Instance, strconv.Itoa(s.Index)}
		for class, n := range s.Classes {
			if n > 0 {
				counter(descRequests, n, append(labels, className(class))...)
			}
		}
		to <- prometheus.MustNewConstMetric(descActive, prometheus.GaugeValue, float64(s.Active), labels...)
		sum := apps[s.App]
		if sum == nil {
			sum = new(Stats)
			apps[s.App] = sum
		}
		sum.Requests += s.Requests
		sum.Duration += s.Duration
		for i, n := range s.Buckets {
			sum.Buckets[i] += n
		}
	}
	for app, sum := range apps {
		to <- histogram(descAppTime, *sum, app)
	}
	all := p.counters.all.read()
	to <- histogram(descAllTime, all)
	for class, n := range all.Classes {
		counter(descAll, n, className(class))
	}
	p.counters.refused.Range(func(word, n any) bool {
		counter(descRefused, n.(*atomic.Int64).Load(), word.(string))
		return true
	})
	counter(descRetries, p.counters.retries.Load())
	counter(descExpress, p.counters.express.Load())
	counter(descEjections, p.counters.ejections.Load())
	to <- prometheus.MustNewConstMetric(descRoutes, prometheus.GaugeValue, float64(p.table.Len()))
}

func histogram(d *prometheus.Desc, s Stats, labels ...string) prometheus.Metric {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range latencyBounds {
		sum += uint64(s.Buckets[i])
		buckets[bound.Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(d, uint64(s.Requests), s.Duration.Seconds(), buckets, labels...)
}

func className(class int) string {
	if class == 0 {
		return "none"
	}
	return strconv.Itoa(class) + "xx"
}
