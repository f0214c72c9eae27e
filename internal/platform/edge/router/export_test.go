package router

import (
	"reflect"
	"time"

	"ingot/internal/platform/edge/router/socket"
)

// FastPathServed is how many requests the fast path has served.
func FastPathServed(p *Proxy) int64 { return p.counters.fastPath.Load() }

// Sign is for tests of signatures that are not fresh.
func Sign(p *Proxy, forwarded string, at time.Time) (signature, metadata string) {
	return p.sign(forwarded, at)
}

// CountInstance counts a request of an instance.
func CountInstance(p *Proxy, guid string) {
	a := Access{Status: 200, Time: time.Now()}
	p.counters.observe(&a, p.counters.of(&endpoint{Backend{InstanceGUID: guid}, new(endpointState)}))
}

// StatsAt is Stats at another time.
func StatsAt(p *Proxy, now time.Time) (instances []Stats, apps map[string]*Stats) {
	return p.counters.snapshot(now)
}

// StalledAfter is how long a client may stand still.
const StalledAfter = stalledAfter

// EndStalled ends connections that stand still at a time, and returns how many.
func EndStalled(e *FastPath, now time.Time) int { return e.closeStalled(now) }

// BreakOffStalled ends requests that stand still at a time, and returns how many.
func BreakOffStalled(p *Proxy, now time.Time) int { return p.abortStalled(now) }

// SetMost sets how many connections there may be.
func SetMost(e *FastPath, most int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.most = most
}

// AllWait reports whether all connections wait for a request.
func AllWait(e *FastPath) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.conns {
		if c.waits.Load() == 0 {
			return false
		}
	}
	return true
}

// Stalled is how many were ended.
func Stalled(p *Proxy) int64 { return p.counters.stalled.Load() }

// Progress is what the system says about the connections of clients: how many
// bytes they have taken, and at how many more wait.
func Progress(e *FastPath) (acked uint64, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.connWatch.mu.Lock()
	defer e.connWatch.mu.Unlock()
	add := func(n uint64, waits bool) {
		acked += n
		if waits {
			waiting++
		}
	}
	for l := range e.conns {
		add(socket.Progress(l.conn))
	}
	for c := range e.connWatch.handed {
		add(socket.Progress(c.Conn))
	}
	return acked, waiting
}

// States is how many instances a table remembers something of.
func States(t *Table) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.states)
}

// Copied does something to a table and returns how many of its shards are others
// afterwards.
func Copied(t *Table, do func()) (n int) {
	before := *t.load()
	do()
	after := *t.load()
	for i := range shardCount {
		if reflect.ValueOf(before.hosts.all[i]).Pointer() != reflect.ValueOf(after.hosts.all[i]).Pointer() {
			n++
		}
		if reflect.ValueOf(before.routes.all[i]).Pointer() != reflect.ValueOf(after.routes.all[i]).Pointer() {
			n++
		}
	}
	return n
}

// Hashed returns the instance that a value of the header of a hashed route
// chooses.
func Hashed(route Route) func(value string) string {
	states := map[endpointKey]*endpointState{}
	p := newPool(route, nil, func(k endpointKey) *endpointState {
		states[k] = new(endpointState)
		return states[k]
	})
	now := time.Now()
	return func(value string) string { return p.next(nil, now, "", value).InstanceGUID }
}

// Line is the request in gorouter's access log format, the text of RTR lines.
func (a *Access) Line() string { return string(a.AppendLine(make([]byte, 0, 512))) }

// LatencyBounds are the upper bounds of Stats.Buckets but the last.
func LatencyBounds() []time.Duration { return latencyBounds[:] }

// UnmappedFor is how long a connection lasts after its instance has left the route.
const UnmappedFor = unmappedFor

// SweepTCP closes idle and unmapped connections at a time, and opens ports again.
func SweepTCP(t *TCP, now time.Time) { t.sweep(now) }
