package provider

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ingot/internal/notify"
	"ingot/internal/notify/failover"
)

const (
	// manyLines is the number of providers at which those are forgotten that have nothing to deliver.
	manyLines = 4000
)

// lineKey identifies a provider.
type lineKey struct{ owner, name string }

// line is what a channel knows of a provider, as it was declared last.
type line struct {
	slots   chan struct{} // one for each call at a time
	breaker *failover.Breaker
	limiter *rate.Limiter // nil if there is no limit
	rate    float64       // in a second, of all servers; 0 if there is no limit
	changed time.Time
	access  access

	mu    sync.Mutex
	using int
}

// line returns the state of a provider; leave is called when it is no longer used. One that was changed begins anew.
func (c *Channel) line(p *notify.Provider) *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := lineKey{p.Owner, p.Name}
	of := c.lines[key]
	if of == nil || of.changed.Before(p.Updated) {
		if of == nil && len(c.lines) >= manyLines {
			for key, other := range c.lines {
				if other.idle() {
					delete(c.lines, key)
				}
			}
		}
		of = &line{slots: make(chan struct{}, lineCallers), breaker: failover.NewBreaker(c.o.Breaker), rate: p.Rate,
			changed: p.Updated}
		if p.Rate > 0 {
			of.limiter = rate.NewLimiter(rate.Limit(p.Rate), burst(p.Rate))
		}
		c.lines[key] = of
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.using++
	return of
}

// burst is how many calls may be made at once: those of a tenth of a second.
func burst(perSecond float64) int { return max(1, int(perSecond/10)) }

func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.using--
}

func (l *line) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.using == 0
}

// reserve returns how long to wait for the next call, of which this server has its share. One that would take long is
// not reserved.
func (l *line) reserve(now time.Time, servers int) time.Duration {
	if l.limiter == nil {
		return 0
	}
	if limit := rate.Limit(l.rate / float64(max(1, servers))); l.limiter.Limit() != limit {
		l.limiter.SetLimitAt(now, limit)
	}
	r := l.limiter.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > soon {
		r.CancelAt(now)
	}
	return wait
}

// Health returns what this server knows of a provider.
func (c *Channel) Health(owner, name string) failover.Health {
	c.mu.Lock()
	of := c.lines[lineKey{owner, name}]
	c.mu.Unlock()
	if of == nil {
		return failover.Health{State: failover.Closed}
	}
	return of.breaker.Health(c.o.Now())
}
