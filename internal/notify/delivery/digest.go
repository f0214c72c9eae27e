package delivery

import (
	"context"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

const (
	// digestsAtOnce limits the digests that are ended in one transaction.
	digestsAtOnce = 100
	// digestPause is the least time between two searches for digests that are due.
	digestPause = 50 * time.Millisecond
)

// gather collects messages in digests instead of delivering them, as their senders say or their recipients have chosen.
// Those whose recipient has unsubscribed are not, and those that would expire before the digest ends are delivered on
// their own.
func (d *Delivery) gather(ctx context.Context, s *sorted) error {
	now := d.o.Now()
	var part sorted
	for i := range s.ready {
		l := &s.ready[i]
		if l.Send.MayCollect(l.Channel) {
			part.ready = append(part.ready, *l)
		}
	}
	if len(part.ready) == 0 {
		return nil
	}
	if err := d.wanted(ctx, &part); err != nil {
		return err
	}
	part.keep(func(l *message) (notify.Outcome, bool) {
		e := l.Send.Collecting(l.Channel, l.choice.Digest)
		if e == nil || !l.endsInTime(e.Rule, now) {
			return notify.Outcome{}, false
		}
		return d.entry(ctx, l, e), true
	})
	decided := make(map[int64]notify.Outcome, len(part.outcomes))
	for _, o := range part.outcomes {
		decided[o.Number] = o
	}
	chosen := make(map[int64]notify.Choice, len(part.ready))
	for i := range part.ready {
		chosen[part.ready[i].Number] = part.ready[i].choice
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		if o, is := decided[l.Number]; is {
			return o, true
		}
		if c, is := chosen[l.Number]; is { // it is not looked up twice
			l.choice, l.sought = c, true
		}
		return notify.Outcome{}, false
	})
	return nil
}

// endsInTime reports whether a digest of a message ends before the message expires.
func (l *message) endsInTime(r *notify.DigestRule, now time.Time) bool {
	at := l.Send.ExpiresAt
	return at.IsZero() || !at.Before(now.Add(time.Duration(r.Window)))
}

// entry is the outcome of a message that is collected.
func (d *Delivery) entry(ctx context.Context, l *message, e *notify.Entry) notify.Outcome {
	if e.Rule.Key != "" {
		data, err := d.contents.data.of(ctx, l)
		if err != nil {
			return postpone(l, reasonStore, d.o.Now(), d.later())
		}
		e.Name = e.Rule.Name(data)
	}
	o := untried(l.Message, notify.Queued, "", d.o.Now())
	o.Entry = e
	return o
}

// endDigests ends digests when they are due or full.
func (d *Delivery) endDigests(ctx context.Context) {
	for {
		var closed notify.DigestsClosed
		err := background.Do("digests", func() (err error) {
			closed, err = d.o.Store.CloseDigests(ctx, digestsAtOnce, excerpt)
			return err
		})
		pause := d.o.Poll
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.o.Log.Error("end digests failed, retrying", "error", err)
			pause = recovery
		case !closed.Next.IsZero():
			pause = min(pause, max(closed.Next.Sub(d.o.steady()), 0))
		}
		if closed.Digests > 0 {
			d.o.Metrics.digested(closed.Entries)
			d.wake()
			if pause == 0 {
				continue
			}
		}
		if !wait(ctx, digestPause) || !d.untilDigest(ctx, pause-digestPause) {
			return
		}
	}
}

// untilDigest waits until something was collected, or a digest is due.
func (d *Delivery) untilDigest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-d.collected:
	case <-timer.C:
	}
	return true
}

// excerpt is the text of a message in a digest.
func excerpt(c notify.Content) string {
	if strings.TrimSpace(c.Text) == "" {
		return template.ToText(c.HTML)
	}
	return c.Text
}

// webhookData is what webhooks get as the data of a message: that of its send, or what a digest has collected.
func (c *contents) webhookData(ctx context.Context, l *message) (map[string]any, error) {
	if l.Send.Digest == nil {
		return c.data.of(ctx, l)
	}
	digest, err := l.Send.Digest.Data()
	return map[string]any{"digest": digest}, err
}
