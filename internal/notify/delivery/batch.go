package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// letter is a message that may be delivered.
type letter struct {
	notify.Claimed
	// found is the address that was looked up, when the message had none.
	found string
}

func (l *letter) to() string {
	if l.found != "" {
		return l.found
	}
	return l.Email
}

// subscriber names the recipient whose preferences decide: the user, or the
// address where there is none.
func (l *letter) subscriber() string {
	if l.UserID != "" {
		return l.UserID
	}
	return notify.AddressSubscriber(l.Email)
}

// sorted is a batch divided into what is to be delivered and what has come to an
// outcome without that.
type sorted struct {
	ready    []letter
	outcomes []notify.Outcome
}

// The reasons given for messages that are not tried.
const (
	reasonNoUser       = "the user does not exist"
	reasonNoAddress    = "the user has no email address"
	reasonMalformed    = "the email address is malformed"
	reasonUnsubscribed = "the user does not want to receive it: nothing was mailed"
	reasonSuppressed   = "the address is on the suppression list because it refused mail for good, or was put there: nothing was mailed"
	reasonDirectory    = "the user's address could not be looked up: the authorization server does not answer"
	reasonStore        = "the database did not answer"
)

// sort looks up for a whole batch at once what decides on each message.
func (d *Delivery) sort(ctx context.Context, claimed []notify.Claimed) sorted {
	s := sorted{ready: make([]letter, len(claimed))}
	for i, c := range claimed {
		s.ready[i].Claimed = c
	}
	for _, step := range []func(context.Context, *sorted) error{d.addresses, d.wanted, d.notSuppressed} {
		if err := step(ctx, &s); err != nil {
			// The store failed, which is nobody's fault: all of them come again.
			if ctx.Err() == nil {
				d.o.Log.Error("a batch cannot be prepared; it is tried again", "messages", len(s.ready), "error", err)
				d.putOff(&s, reasonStore)
			}
			s.ready = nil
		}
	}
	return s
}

// keep divides ready: decide returns the outcome of a message that is not to be
// delivered.
func (s *sorted) keep(decide func(l *letter) (notify.Outcome, bool)) {
	kept := s.ready[:0]
	for i := range s.ready {
		l := &s.ready[i]
		if o, stop := decide(l); stop {
			o.Email = l.found
			s.outcomes = append(s.outcomes, o)
			continue
		}
		kept = append(kept, *l)
	}
	s.ready = kept
}

// addresses fills in missing addresses and drops messages without a usable one.
func (d *Delivery) addresses(ctx context.Context, s *sorted) error {
	var missing []string
	asked := map[string]bool{}
	for i := range s.ready {
		if l := &s.ready[i]; l.Email == "" && l.UserID != "" && !asked[l.UserID] {
			asked[l.UserID] = true
			missing = append(missing, l.UserID)
		}
	}
	var found map[string]string
	if len(missing) > 0 {
		var err error
		found, err = d.o.Directory.Emails(ctx, missing)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			d.o.Metrics.directoryFailed("addresses")
			d.o.Log.Warn("addresses of users cannot be looked up; their messages wait", "users", len(missing), "error", err)
			again := d.later()
			s.keep(func(l *letter) (notify.Outcome, bool) {
				return putOff(l, reasonDirectory, d.o.Now(), again), l.Email == "" && l.UserID != ""
			})
		default:
			d.lookups.clear()
		}
	}
	s.keep(func(l *letter) (notify.Outcome, bool) {
		address, known := l.Email, true
		if address == "" {
			address, known = found[l.UserID]
		}
		reason := ""
		switch {
		case !known:
			reason = reasonNoUser
		case address == "":
			reason = reasonNoAddress
		case !notify.UsableAddress(address):
			reason = reasonMalformed
		case l.Email == "":
			l.found = address
		}
		return aside(l.Message, notify.Undeliverable, reason, d.o.Now()), reason != ""
	})
	return nil
}

// wanted drops messages that users unsubscribed from. Critical ones are always
// wanted. The v2 API counts what was not wanted as sent.
func (d *Delivery) wanted(ctx context.Context, s *sorted) error {
	users := map[notify.KindRef][]string{}
	for i := range s.ready {
		if l, ref := &s.ready[i], s.ready[i].Send.Preferred(); !l.Send.Critical && ref.KindID != "" && l.subscriber() != "" {
			users[ref] = append(users[ref], l.subscriber())
		}
	}
	left := map[notify.KindRef]map[string]bool{}
	for ref, ids := range users {
		unsubscribed, err := d.o.Store.Unsubscribed(ctx, ref, ids)
		if err != nil {
			return fmt.Errorf("look up who unsubscribed: %w", err)
		}
		left[ref] = unsubscribed
	}
	s.keep(func(l *letter) (notify.Outcome, bool) {
		status := notify.Undeliverable
		if l.Send.CampaignTypeID != "" {
			status = notify.Delivered
		}
		return aside(l.Message, status, reasonUnsubscribed, d.o.Now()),
			!l.Send.Critical && left[l.Send.Preferred()][l.subscriber()]
	})
	return nil
}

// notSuppressed drops addresses that refused mail for good.
func (d *Delivery) notSuppressed(ctx context.Context, s *sorted) error {
	if len(s.ready) == 0 {
		return nil
	}
	all := make([]string, len(s.ready))
	for i := range s.ready {
		all[i] = s.ready[i].to()
	}
	suppressed, err := d.o.Store.Suppressed(ctx, all)
	if err != nil {
		return fmt.Errorf("look up suppressed addresses: %w", err)
	}
	s.keep(func(l *letter) (notify.Outcome, bool) {
		return aside(l.Message, notify.Undeliverable, reasonSuppressed, d.o.Now()), suppressed[l.to()]
	})
	return nil
}

// manyBytes is how much content of its own a part of a batch may have: templates
// that show the recipient make a body for each.
const manyBytes = 4 << 20

// render makes the mail of the first letters, as many as fit into memory. taken
// counts the letters that are in out or in outcomes.
func (d *Delivery) render(ctx context.Context, letters []letter) (out []outgoing, taken int, outcomes []notify.Outcome) {
	out = make([]outgoing, 0, len(letters))
	bytes := 0
	for i := range letters {
		l := &letters[i]
		taken = i + 1
		body, own, err := d.contents.body(ctx, l)
		switch {
		case err == nil:
		case errors.Is(err, errStore):
			if ctx.Err() == nil && len(outcomes) == 0 {
				d.o.Log.Error("a template cannot be read; messages are tried again", "message", d.o.IDs.Message(l.Number), "error", err)
			}
			outcomes = append(outcomes, putOff(l, reasonStore, d.o.Now(), d.later()))
			continue
		default:
			if len(outcomes) == 0 { // one line for all of them
				d.o.Log.Warn("messages cannot be rendered and are parked", "first", d.o.IDs.Message(l.Number), "client", l.Send.ClientID, "error", err)
			}
			o := park(l.Message, "the message cannot be rendered: "+err.Error(), d.o.Now())
			o.Email = l.found
			outcomes = append(outcomes, o)
			continue
		}
		out = append(out, outgoing{letter: l, Outgoing: notify.Outgoing{
			Number: l.Number, ID: d.o.IDs.Message(l.Number), Attempt: l.Attempts + 1,
			To: l.to(), ReplyTo: l.Send.Content.ReplyTo, Body: body,
			ClientID: l.Send.ClientID, Received: l.Send.Received, Unsubscribe: d.contents.link(l),
		}})
		if own {
			if bytes += size(body); bytes >= manyBytes {
				break
			}
		}
	}
	return out, taken, outcomes
}

type outgoing struct {
	notify.Outgoing
	letter *letter
}

// hand gives mail to the channel and records what came of it.
func (d *Delivery) hand(ctx context.Context, all []outgoing, p *parcel) {
	if len(all) == 0 {
		return
	}
	batch := make([]notify.Outgoing, len(all))
	for i := range all {
		batch[i] = all[i].Outgoing
	}
	limited, cancel := context.WithTimeout(ctx, d.o.Patience)
	defer cancel()
	err := background.Within(limited, "delivery of a batch", min(deliverGrace, d.o.Patience), func() error {
		d.o.Channel.Deliver(limited, batch, func(i int, r notify.Result) {
			if r.Verdict != notify.Accepted && ctx.Err() != nil {
				return // not tried, because the process stops
			}
			d.concluded(all[i].letter, r, p)
		})
		return nil
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	// It counts as an attempt: one of them may be to blame, and must not come back
	// for ever. Those that have their outcome keep it.
	d.o.Log.Error("the channel failed; what is left of a batch is tried again", "messages", len(all), "error", err)
	for i := range all {
		d.concluded(all[i].letter, notify.Result{Verdict: notify.Temporary, Reason: "the delivery ended unexpectedly"}, p)
	}
}

const (
	// deliverTime is the default of Options.Patience: far more than a batch takes.
	deliverTime = 10 * time.Minute
	// deliverGrace is what a channel has after that, or at the stop, to come back.
	deliverGrace = 15 * time.Second
)

// concluded records one result.
func (d *Delivery) concluded(l *letter, r notify.Result, p *parcel) {
	o := d.o.Schedule.after(l.Message, r, d.o.Now())
	o.Email = l.found
	if r.Verdict == notify.Permanent && r.BadAddress {
		p.mu.Lock()
		p.refused = append(p.refused, notify.Suppression{Email: l.to(), Reason: o.Reason, Source: "smtp", Created: d.o.Now()})
		p.mu.Unlock()
	}
	p.settle(o)
}

// later is when something is tried again that failed by no fault of a message.
func (d *Delivery) later() time.Time { return d.o.Now().Add(d.lookups.next()) }

// putOff is the outcome of a message that was not tried and loses no attempt.
func putOff(l *letter, reason string, now, due time.Time) notify.Outcome {
	o := aside(l.Message, notify.Retry, reason, now)
	o.Due = due
	return o
}

// putOff makes all that is ready come again.
func (d *Delivery) putOff(s *sorted, reason string) {
	due := d.later()
	s.keep(func(l *letter) (notify.Outcome, bool) { return putOff(l, reason, d.o.Now(), due), true })
}
