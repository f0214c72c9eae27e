package pacing

import (
	"context"
	"maps"
	"math"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

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

const (
	// spentFor is how long a quota counts as spent. Another server may return what it did not use.
	spentFor = time.Minute
	// returning is how long that may take, also at a shutdown.
	returning = 5 * time.Second
)

// warmth is what a server knows of a domain's quota of a day.
type warmth struct {
	day int
	// nth is the number of that day in the domain's plan, from 0.
	nth int
	// left is what was taken from the quota and is not reserved for messages, and free reports that there is no quota.
	left int
	free bool
	// spent is when the quota had less than was wanted; zero if it had enough.
	spent time.Time
	// planned are how many messages wait for each later day.
	planned map[int]int
}

// today begins a new day. One that is over does not come back: a clock may be read before another goroutine reads it.
func (w *warmth) today(day int) {
	if w.day < day {
		maps.DeleteFunc(w.planned, func(d, _ int) bool { return d <= day })
		*w = warmth{day: day, planned: w.planned}
	}
}

// reserve takes one message from the quota, and reports whether there was one.
func (w *warmth) reserve(day int) bool {
	switch {
	case w.day != day:
		return false
	case w.free:
		return true
	case w.left <= 0:
		return false
	}
	w.left--
	return true
}

// unreserve gives back what a message took that was not sent.
func (w *warmth) unreserve(day int) {
	if day != 0 && w.day == day && !w.free {
		w.left++
	}
}

// dayOf returns the number of a day since 1970.
func dayOf(now time.Time) int { return int(now.Unix() / (24 * 3600)) }

// reserve sets the day of messages that are within the quotas of their domains. What is reserved belongs to the message
// from then on, so batches to the same domain do not count on the same numbers.
func (p *Pacer) reserve(ctx context.Context, batch []Message, days []int) error {
	day := dayOf(p.o.Now())
	wanted := p.reserveRest(batch, days, day, nil, nil)
	if len(wanted) == 0 {
		return nil
	}
	var got map[string]notify.MailPart
	if err := background.Do("warm-up quotas", func() (err error) {
		got, err = p.o.Quotas.TakeMail(ctx, day, wanted, p.o.WarmUp.Quota)
		return err
	}); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, m := range batch {
			p.of(m.Domain, p.o.Now()).unreserve(days[i])
		}
		return err
	}
	p.reserveRest(batch, days, day, wanted, got)
	return nil
}

// reserveRest adds what was got of what was wanted, reserves for the messages that have nothing yet, and returns what
// is missing and not known to be spent.
func (p *Pacer) reserveRest(batch []Message, days []int, day int, wanted map[string]int,
	got map[string]notify.MailPart) map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	for name, part := range got {
		d := p.of(name, now)
		if d.today(day); d.day != day {
			continue
		}
		d.nth = part.Day
		switch {
		case part.Messages == notify.NoMailQuota:
			d.free = true
		case part.Messages < wanted[name]:
			d.spent = now
			d.left += part.Messages
		default:
			d.left += part.Messages
		}
	}
	missing := map[string]int{}
	for i, m := range batch {
		d := p.of(m.Domain, now)
		d.today(day)
		switch {
		case days[i] != 0:
		case d.reserve(day):
			days[i] = day
		case now.Sub(d.spent) >= spentFor:
			missing[m.Domain]++
		}
	}
	return missing
}

// exceeds is the answer for a message for which nothing was reserved.
func (p *Pacer) exceeds(d *domain, client string, now time.Time) Admission {
	s := d.share(client, now)
	p.counts.WarmUp++
	if d.day != dayOf(now) || d.spent.IsZero() { // another day has begun, or something was returned
		return s.later(now, 0, "waiting: what the warm-up plan allows is changing")
	}
	return Admission{RetryAfter: p.o.WarmUp.wait(d, s).Sub(now),
		Reason: "waiting: the warm-up plan allows no more mail to this domain today"}
}

const (
	// daysAhead is how many days ahead messages are planned. What comes after comes back on the last one, because the
	// messages before may have been canceled.
	daysAhead = 7
	// apart is between two messages of a day, and spreadOver how long after midnight they begin again.
	apart      = 10 * time.Millisecond
	spreadOver = 12 * time.Hour
)

// wait plans a message for the first later day whose quota has room for it, and returns when it is due. A client that
// has fewer than its part of a day gets one there, so one that has many does not take the next days from others.
func (w WarmUp) wait(d *domain, s *share) time.Time {
	if d.planned == nil {
		d.planned = map[int]int{}
	}
	if s.planned == nil {
		s.planned = map[int]int{}
	}
	maps.DeleteFunc(s.planned, func(day, _ int) bool { return day <= d.day })
	day := d.day + 1
	for ; day < d.day+daysAhead; day++ {
		quota := w.Quota(d.nth + day - d.day)
		if quota < 0 || d.planned[day] < quota || s.planned[day] < quota/max(1, d.active) {
			break
		}
	}
	after := time.Duration(d.planned[day]) * apart % spreadOver
	d.planned[day]++
	s.planned[day]++
	return time.Unix(int64(day)*24*3600, 0).Add(after)
}

// Return gives what this server took from the quotas of a batch's domains and has not used back to the store: other
// servers may use it, and it is not lost when this one stops.
func (p *Pacer) Return(ctx context.Context, batch []Message) {
	if !p.o.WarmUp.on() {
		return
	}
	day, unused := p.unused(batch)
	if len(unused) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returning)
	defer cancel()
	if err := background.Do("warm-up quotas", func() error {
		return p.o.Quotas.ReturnMail(ctx, day, unused)
	}); err != nil {
		p.o.Log.Warn("return the unused part of warm-up quotas failed; this server uses it later", "error", err)
		p.mu.Lock()
		defer p.mu.Unlock()
		for name, n := range unused {
			if d := p.of(name, p.o.Now()); d.day == day {
				d.left += n
			}
		}
	}
}

// unused removes and returns what is left today for the domains of a batch.
func (p *Pacer) unused(batch []Message) (day int, unused map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	day, unused = dayOf(now), map[string]int{}
	for _, m := range batch {
		if d := p.of(m.Domain, now); d.day == day && d.left > 0 {
			unused[m.Domain], d.left, d.spent = d.left, 0, time.Time{}
		}
	}
	return day, unused
}
