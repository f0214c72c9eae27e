package pacing

import (
	"context"
	"time"
)

// Pool is which connections a message takes.
type Pool int

const (
	// Later means that the message has no turn now.
	Later Pool = iota
	// Main are the connections for all domains, Side those for slow ones.
	Main
	Side
)

// Message is what is asked about.
type Message struct{ Client, Domain string }

// Admission is the answer. Answered or Away has to be called for each that is not Later, and Return for the batch.
type Admission struct {
	Pool Pool
	// day is the one of the warm-up plan whose quota the message uses; 0 for none.
	day int
	// RetryAfter is when a message that is Later may come back, and Reason why.
	RetryAfter time.Duration
	Reason     string
}

// Admit decides about the messages of a batch. An error is that of the Quotas; then nothing was admitted.
func (p *Pacer) Admit(ctx context.Context, batch []Message) ([]Admission, error) {
	days := make([]int, len(batch))
	if p.o.WarmUp.on() {
		if err := p.reserve(ctx, batch, days); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	all := make([]Admission, len(batch))
	for i, m := range batch {
		d := p.of(m.Domain, now)
		if p.o.WarmUp.on() && days[i] == 0 {
			all[i] = p.exceeds(d, m.Client, now)
			continue
		}
		if all[i] = p.admit(d, m.Client, now); all[i].Pool == Later {
			d.unreserve(days[i])
		} else {
			all[i].day = days[i]
		}
	}
	return all, nil
}

func (p *Pacer) admit(d *domain, client string, now time.Time) Admission {
	rate := p.allowed(d, now)
	if rate == 0 && !d.slow {
		return Admission{Pool: Main}
	}
	s := d.share(client, now)
	pause := time.Duration(0)
	if rate > 0 {
		pause = time.Duration(float64(max(1, d.active)) / rate * float64(time.Second))
		if s.due.Before(now) {
			s.due = now
		}
		if s.due.Sub(now) > time.Second {
			p.counts.Rate++
			return s.later(now, pause, "waiting: the rate of the recipient's domain is limited")
		}
	}
	if d.slow {
		permits := max(1, min(p.sidePermits(d)+d.side, p.o.Slow))
		room := max(2*permits, int(slowAhead*time.Duration(permits)/max(d.took, time.Millisecond)))
		room = min(room, (slowRoom-p.held)/2+d.held)
		if s.held > 0 && s.held >= room-d.held || d.held >= room {
			p.counts.Slow++
			each := d.took / time.Duration(permits) * time.Duration(max(1, d.active))
			return s.later(now, max(each, pause), "waiting: the recipient's domain is slow")
		}
		s.held++
		d.held++
		p.held++
	}
	s.due = s.due.Add(pause)
	if d.slow {
		return Admission{Pool: Side}
	}
	return Admission{Pool: Main}
}

// later is the answer for a message that comes back when those of the same client before it are likely to be through.
func (s *share) later(now time.Time, pace time.Duration, why string) Admission {
	if first := now.Add(soonest); s.next.Before(first) {
		s.next = first
	}
	pause := s.next.Sub(now)
	// Those that come back too early count again: without an end they would delay later sends for hours.
	s.next = s.next.Add(max(pace, time.Millisecond))
	if end := now.Add(latest); s.next.After(end) {
		s.next = end
	}
	return Admission{RetryAfter: pause, Reason: why}
}

// Away is the answer for a message that the Gate of Main turned away. It ends the message's admission.
func (p *Pacer) Away(m Message, a Admission) Admission {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	d := p.of(m.Domain, now)
	d.unreserve(a.day)
	p.counts.Slow++
	s := d.share(m.Client, now)
	return s.later(now, d.took/time.Duration(p.o.Slow)*time.Duration(max(1, d.active)),
		"waiting: the recipient's domain is slow")
}
