package pacing

import (
	"log/slog"
	"math"
	"sync"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/smtp"
)

// Limit is what an operator allows for a receiving domain.
type Limit struct {
	// Connections is how many messages go to it at a time, and Rate how many in a second, from all servers; 0 means no
	// limit.
	Connections int
	Rate        float64
}

// Options configure a Pacer.
type Options struct {
	// Default applies to domains that are not in Domains.
	Default Limit
	Domains map[string]Limit
	// Connections is how many connections there are, and Slow how many further ones for slow domains.
	Connections, Slow int
	WarmUp            WarmUp
	// Quotas counts mail for WarmUp.
	Quotas notify.MailQuotas
	// Servers returns how many servers share the rates; nil means one.
	Servers func() int
	Log     *slog.Logger
	Now     func() time.Time
}

// The numbers below which a domain is quick, and from which it is slow.
const (
	SlowAfter  = time.Second
	quickBelow = SlowAfter / 2
)

const (
	// firstWindow is how many messages go at a time to a domain that has not answered yet.
	firstWindow = 2
	// slowRoom is how many messages to slow domains are in the channel at a time, and slowAhead how long one waits there
	// for its turn.
	slowRoom  = 512
	slowAhead = 30 * time.Second
	// interval is how often a rate is lowered at most, and how long it stays as it is.
	interval = 10 * time.Second
	// leastRate is the lowest rate that is learned, in a second; one above unlimited is none.
	leastRate, unlimited = 1, 1000
	// manyDomains is the number of domains at which idle ones are forgotten, and manyClients that of a domain's clients.
	manyDomains = 10_000
	manyClients = 64
	// idleAfter is how long a client counts that has no messages to a domain.
	idleAfter = time.Minute
	// soonest and latest are when messages come back that have no turn.
	soonest = time.Second
	latest  = 10 * time.Minute
)

// Pacer knows the receiving domains. It is safe for concurrent use.
type Pacer struct {
	o Options

	mu      sync.Mutex
	domains map[string]*domain
	held    int // messages to slow domains that were admitted
	side    int // those that are being sent on the connections for slow domains
	waiting bool
	changed chan struct{}
	counts  notify.MailPostponed
}

// New returns a Pacer that knows no domain.
func New(o Options) *Pacer {
	if o.Servers == nil {
		o.Servers = func() int { return 1 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Connections, o.Slow = max(1, o.Connections), max(1, o.Slow)
	return &Pacer{o: o, domains: map[string]*domain{}, changed: make(chan struct{})}
}

// domain is what is known of a receiving domain.
type domain struct {
	limit Limit
	seen  time.Time
	// window is how many messages go to it at a time, and used and side how many do, on the connections for all domains
	// and those for slow ones.
	window, used, side int
	// took is a moving average, and slow is whether it was at least SlowAfter and has not yet been below quickBelow.
	took time.Duration
	slow bool
	// rate was learned, 0 if there is none; why is the answer that led to it. It was lowered last at lowered, and rises
	// from rated on.
	rate           float64
	lowered, rated time.Time
	why            string
	// answers and busy ones since from.
	from          time.Time
	answers, busy int
	// held are messages that were admitted while it is slow.
	held   int
	shares map[string]*share
	many   int // shares at which those of idle clients are forgotten
	active int // clients, at count
	count  time.Time
	warmth
}

// share is what a client has of a domain.
type share struct {
	seen time.Time
	due  time.Time // of the next message by rate
	next time.Time // when the next that has no turn may come back
	// planned are how many messages wait for each later day of a warm-up plan.
	planned map[int]int
	held    int
}

// of returns the state of a domain. p.mu is held.
func (p *Pacer) of(name string, now time.Time) *domain {
	d := p.domains[name]
	if d == nil {
		if len(p.domains) >= manyDomains {
			p.forget(now)
		}
		limit, listed := p.o.Domains[name]
		if !listed {
			limit = p.o.Default
		}
		d = &domain{limit: limit, window: firstWindow, from: now}
		p.domains[name] = d
	}
	d.seen = now
	return d
}

// forget removes domains without messages: those of which nothing was learned, or if these are few, all.
func (p *Pacer) forget(now time.Time) {
	for _, all := range []bool{false, true} {
		for name, d := range p.domains {
			if d.used+d.side+d.held == 0 && (all || !d.slow && d.rate == 0 && now.Sub(d.seen) > idleAfter) {
				delete(p.domains, name)
			}
		}
		if len(p.domains) < manyDomains/2 {
			return
		}
	}
}

// share returns that of a client, and counts it as active.
func (d *domain) share(client string, now time.Time) *share {
	s := d.shares[client]
	if s == nil {
		if d.shares == nil {
			d.shares = map[string]*share{}
		}
		if len(d.shares) >= max(d.many, manyClients) {
			for id, other := range d.shares {
				if other.held == 0 && now.Sub(other.seen) > idleAfter && other.next.Before(now) {
					delete(d.shares, id)
				}
			}
			d.many = 2 * len(d.shares)
		}
		s = &share{}
		d.shares[client] = s
		d.active++
	}
	s.seen = now
	if now.Sub(d.count) > time.Second {
		d.count, d.active = now, 0
		for _, other := range d.shares {
			if now.Sub(other.seen) <= idleAfter || other.next.After(now) {
				d.active++
			}
		}
	}
	return s
}

// allowed returns how many messages may be sent to the domain in a second; 0 means no limit.
func (p *Pacer) allowed(d *domain, now time.Time) float64 {
	if d.rate > 0 {
		if steps := int(now.Sub(d.rated) / interval); steps > 0 {
			d.rate *= math.Pow(1.5, float64(min(steps, 50)))
			d.rated = now
			if d.rate > unlimited {
				d.rate, d.why = 0, ""
			}
		}
	}
	configured := d.limit.Rate / float64(max(1, p.o.Servers()))
	switch {
	case configured == 0:
		return d.rate
	case d.rate == 0:
		return configured
	}
	return min(configured, d.rate)
}

// permits returns how many messages may go to a domain at a time on connections for all domains.
func (p *Pacer) permits(d *domain) int {
	n := min(d.window, p.o.Connections)
	if d.limit.Connections > 0 {
		n = min(n, p.connections(d))
	}
	return max(1, n)
}

// connections returns this server's part of a configured number.
func (p *Pacer) connections(d *domain) int { return max(1, d.limit.Connections/max(1, p.o.Servers())) }

// sidePermits returns how many messages may go to a slow domain at a time. The more connections others use, the
// fewer: so one that has none always finds one soon.
func (p *Pacer) sidePermits(d *domain) int {
	n := 3 * (p.o.Slow - p.side)
	if d.limit.Connections > 0 {
		n = min(n, p.connections(d)-d.used)
	}
	return n
}

// Answer is how a message ended at the mail server.
type Answer struct {
	Took time.Duration // 0 if it was not sent
	Busy bool
	// Unsent means that the mail server has not got the message, although it may have answered.
	Unsent bool
	Why    string
}

// Answered records how an admitted message ended.
func (p *Pacer) Answered(client, name string, a Admission, how Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	d := p.of(name, now)
	if a.Pool == Side {
		d.held--
		p.held--
		if s := d.shares[client]; s != nil {
			s.held--
		}
	}
	if how.Took <= 0 || how.Unsent {
		d.unreserve(a.day)
	}
	if how.Took <= 0 {
		return
	}
	d.timed(how.Took)
	if now.Sub(d.from) > interval {
		d.from, d.answers, d.busy = now, 0, 0
	}
	d.answers++
	if !how.Busy {
		d.window = min(d.window+1, p.o.Connections)
		return
	}
	p.counts.Busy++
	d.busy++
	d.window = max(1, d.window/2)
	if d.busy < 3 || d.busy*10 < d.answers {
		return
	}
	if d.rated = now; d.rate > 0 && now.Sub(d.lowered) < interval {
		return
	}
	rate := float64(d.answers) / max(now.Sub(d.from), 100*time.Millisecond).Seconds()
	if d.rate > 0 {
		rate = min(rate, d.rate)
	}
	if d.rate == 0 {
		p.o.Log.Info("a receiving domain asks for less mail, its rate is lowered", "domain", name, "answer", how.Why)
	}
	d.rate, d.lowered, d.why = min(max(rate/2, leastRate), unlimited), now, how.Why
	d.from, d.answers, d.busy = now, 0, 0
}

// timed adds to the average.
func (d *domain) timed(took time.Duration) {
	if d.took == 0 {
		d.took = took
	}
	d.took = (3*d.took + took) / 4
	switch {
	case d.took >= SlowAfter:
		d.slow = true
	case d.took < quickBelow:
		d.slow = false
	}
}

// Gate returns the smtp.Gate of a pool.
func (p *Pacer) Gate(l Pool) smtp.Gate { return &gate{p, l == Side} }

type gate struct {
	*Pacer
	side bool
}

// Enter implements smtp.Gate.
func (g *gate) Enter(name string) smtp.Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.of(name, g.o.Now())
	switch {
	case g.side && d.side < g.sidePermits(d):
		d.side++
		g.Pacer.side++
		return smtp.Enter
	case !g.side && d.slow:
		return smtp.Away
	case !g.side && d.used+d.side < g.permits(d):
		d.used++
		return smtp.Enter
	}
	g.waiting = true
	return smtp.Wait
}

// Follow implements smtp.Gate.
func (g *gate) Follow(name string) smtp.Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.of(name, g.o.Now())
	switch {
	case g.side && d.side <= g.sidePermits(d)+3, !g.side && !d.slow && d.used+d.side <= g.permits(d):
		return smtp.Enter
	case !g.side && d.slow:
		return smtp.Away
	}
	g.waiting = true
	return smtp.Wait
}

// Leave implements smtp.Gate.
func (g *gate) Leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.of(name, g.o.Now())
	if g.side {
		d.side--
		g.Pacer.side--
	} else {
		d.used--
	}
	g.change()
}

// Changes implements smtp.Gate.
func (g *gate) Changes() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// Quick implements smtp.Gate.
func (g *gate) Quick(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.of(name, g.o.Now())
	return d.took > 0 && d.took < quickBelow
}

// Late implements smtp.Gate.
func (g *gate) Late(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.of(name, g.o.Now())
	d.slow, d.took = true, max(d.took, SlowAfter)
	g.waiting = true // messages that wait are to be turned away
	g.change()
}

// change wakes those that wait for a permit. p.mu is held.
func (p *Pacer) change() {
	if p.waiting {
		p.waiting = false
		close(p.changed)
		p.changed = make(chan struct{})
	}
}
