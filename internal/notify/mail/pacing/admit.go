package pacing

import (
	"context"
	"math"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
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

// Admission is the answer. Answered has to be called for each that is not Later.
type Admission struct {
	Pool Pool
	// RetryAfter is when a message that is Later may come back, and Reason why.
	RetryAfter time.Duration
	Reason     string
}

// Admit decides about the messages of a batch. An error is that of the Quotas; then nothing was admitted.
func (p *Pacer) Admit(ctx context.Context, batch []Message) ([]Admission, error) {
	if err := p.takeQuotas(ctx, batch); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	all := make([]Admission, len(batch))
	for i, m := range batch {
		all[i] = p.admit(m, now)
	}
	return all, nil
}

func (p *Pacer) admit(m Message, now time.Time) Admission {
	d := p.of(m.Domain, now)
	if p.o.WarmUp.on() && d.quota <= 0 {
		p.counts.WarmUp++
		return p.tomorrow(d, m.Client, now)
	}
	rate := p.allowed(d, now)
	if rate == 0 && !d.slow {
		d.quota--
		return Admission{Pool: Main}
	}
	s := d.share(m.Client, now)
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
	d.quota--
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
func (p *Pacer) Away(m Message) Admission {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	d := p.of(m.Domain, now)
	d.quota++
	p.counts.Slow++
	s := d.share(m.Client, now)
	return s.later(now, d.took/time.Duration(p.o.Slow)*time.Duration(max(1, d.active)),
		"waiting: the recipient's domain is slow")
}

// WarmUp is a plan for a sender that receivers do not know yet: how many messages go to a domain on each day, counted
// from the first. The zero value is none.
type WarmUp struct {
	// First is the number of the first day, and each further one has Growth times as many, up to the end of Days.
	First  int
	Growth float64
	Days   int
}

func (w WarmUp) on() bool { return w.Days > 0 }

// Quota returns how many messages may be sent to a domain on a day, counted from 0; negative when the plan is over.
func (w WarmUp) Quota(day int) int {
	if day >= w.Days {
		return -1
	}
	return int(min(float64(w.First)*math.Pow(w.Growth, float64(max(0, day))), math.MaxInt32))
}

// dayOf returns the number of a day since 1970.
func dayOf(now time.Time) int { return int(now.Unix() / (24 * 3600)) }

// takeQuotas takes what the batch needs.
func (p *Pacer) takeQuotas(ctx context.Context, batch []Message) error {
	if !p.o.WarmUp.on() {
		return nil
	}
	now := p.o.Now()
	day := dayOf(now)
	wanted := map[string]int{}
	for _, m := range batch {
		wanted[m.Domain]++
	}
	p.mu.Lock()
	for name, n := range wanted {
		d := p.of(name, now)
		if d.quotaDay != day {
			d.quota, d.quotaDay, d.spent = 0, day, false
		}
		if n <= d.quota || d.spent {
			delete(wanted, name)
		} else {
			wanted[name] = n - max(0, d.quota)
		}
	}
	p.mu.Unlock()
	if len(wanted) == 0 {
		return nil
	}
	var got map[string]int
	if err := background.Do("warm-up quotas", func() (err error) {
		got, err = p.o.Quotas.TakeMail(ctx, day, wanted, p.o.WarmUp.Quota)
		return err
	}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range got {
		if d := p.of(name, now); d.quotaDay == day {
			d.quota = min(max(0, d.quota)+n, notify.NoMailQuota)
			d.spent = n < wanted[name]
		}
	}
	return nil
}

// tomorrow is the answer for a message that the plan does not allow today.
func (p *Pacer) tomorrow(d *domain, client string, now time.Time) Admission {
	s := d.share(client, now)
	midnight := time.Unix(int64(dayOf(now)+1)*24*3600, 0)
	spread := time.Duration(s.spread%10_000) * 10 * time.Millisecond
	s.spread++
	return Admission{RetryAfter: midnight.Sub(now) + spread,
		Reason: "waiting: the warm-up plan allows no more mail to this domain today"}
}
