package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// message is a claimed message with its address.
type message struct {
	notify.Claimed
	// found is the address that was looked up if the message had none.
	found string
	// phone is the number that a text goes to.
	phone string
	// browsers are those of the user, for Push.
	browsers []notify.PushSubscription
	// locale is the user's language if it was asked for, "" if there is none.
	locale string
	asked  bool
	// choice is what the recipient has chosen for the kind, if sought.
	choice notify.Choice
	sought bool
	// token is what contents.token has made; nil before.
	token *string
	// permit is that of throttle, if the message is limited.
	permit notify.Permit
	// template and version are what it was rendered with.
	template string
	version  int64
}

// rendered adds to an outcome what the message was rendered with.
func (l *message) rendered(o notify.Outcome) notify.Outcome {
	o.TemplateID, o.TemplateVersion = l.template, l.version
	return o
}

func (l *message) to() string {
	if l.found != "" {
		return l.found
	}
	return l.Email
}

// subscriber returns the id whose preferences apply: the user, or the address
// if there is no user.
func (l *message) subscriber() string {
	if l.UserID != "" {
		return l.UserID
	}
	return notify.AddressSubscriber(l.Email)
}

// subscription returns what the recipient can unsubscribe from.
func (l *message) subscription() notify.Subscription {
	return notify.Subscription{UserID: l.subscriber(), KindRef: l.Send.Preferred()}
}

// sorted is a batch divided into messages to deliver and outcomes of messages
// that are not delivered.
type sorted struct {
	ready    []message
	outcomes []notify.Outcome
}

// Reasons of messages that are not attempted.
const (
	reasonNoUser       = "the user does not exist"
	reasonNoAddress    = "the user has no email address"
	reasonMalformed    = "the email address is malformed"
	reasonUnsubscribed = "the user has unsubscribed: nothing was mailed"
	reasonUnwanted     = "the user has turned this channel off for this kind: nothing was sent"
	reasonNoInbox      = "the recipient is an address without a user, which has no inbox"
	reasonSuppressed   = "the address is on the suppression list: nothing was mailed"
	reasonCanceled     = "the send was canceled"
	reasonExpired      = "expired: it was not delivered in time"
	reasonDirectory    = "the user's address could not be looked up: the authorization server is unavailable"
	reasonStore        = "the database was unavailable"
)

// sort looks up, for the whole batch at once, what decides whether to deliver
// each message.
func (d *Delivery) sort(ctx context.Context, l *line, claimed []notify.Claimed) sorted {
	s := sorted{ready: make([]message, len(claimed))}
	for i, c := range claimed {
		s.ready[i].Claimed = c
	}
	for _, step := range l.steps {
		if err := step(ctx, &s); err != nil {
			// The store failed, not the messages: all of them are retried.
			if ctx.Err() == nil {
				d.o.Log.Error("prepare batch failed, retrying", "messages", len(s.ready), "error", err)
				d.postpone(&s, reasonStore)
			}
			s.ready = nil
		}
	}
	return s
}

// keep divides ready: decide returns the outcome of a message that is not
// delivered.
func (s *sorted) keep(decide func(l *message) (notify.Outcome, bool)) {
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

// current removes messages that have expired or were canceled.
func (d *Delivery) current(_ context.Context, s *sorted) error {
	s.keep(func(l *message) (notify.Outcome, bool) {
		if l.Canceled {
			return untried(l.Message, notify.Canceled, reasonCanceled, d.o.Now()), true
		}
		if l.Send.ExpiresAt.IsZero() {
			return notify.Outcome{}, false
		}
		now := d.o.Now()
		return untried(l.Message, notify.Undeliverable, reasonExpired, now), !now.Before(l.Send.ExpiresAt)
	})
	return nil
}

// addresses looks up missing addresses and removes messages without a usable
// one.
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
			d.o.Log.Warn("address lookup failed, messages postponed", "users", len(missing), "error", err)
			again := d.later()
			s.keep(func(l *message) (notify.Outcome, bool) {
				return postpone(l, reasonDirectory, d.o.Now(), again), l.Email == "" && l.UserID != ""
			})
		default:
			d.lookups.clear()
		}
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
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
		return untried(l.Message, notify.Undeliverable, reason, d.o.Now()), reason != ""
	})
	return nil
}

// users removes messages to addresses, which only mail reaches.
func (d *Delivery) users(_ context.Context, s *sorted) error {
	s.keep(func(l *message) (notify.Outcome, bool) {
		return untried(l.Message, notify.Undeliverable, reasonNoInbox, d.o.Now()), l.UserID == ""
	})
	return nil
}

// notSuppressed removes messages to suppressed addresses.
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
	if len(suppressed) == 0 {
		return nil
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		return untried(l.Message, notify.Undeliverable, reasonSuppressed, d.o.Now()), suppressed[l.to()]
	})
	return nil
}

// manyBytes limits the size of the bodies of a part of a batch: templates that
// show the recipient need one for each.
const manyBytes = 4 << 20

// render renders the first messages, as many as fit into memory. taken counts
// the messages that are in out or in outcomes.
func (d *Delivery) render(ctx context.Context, messages []message) (out []outgoing, taken int,
	outcomes []notify.Outcome) {
	out = make([]outgoing, 0, len(messages))
	var held load
	for i := range messages {
		l := &messages[i]
		taken = i + 1
		body, own, err := d.contents.body(ctx, l)
		var files *notify.Attached
		if err == nil && l.Channel == notify.Email {
			files, err = d.contents.files.of(ctx, l.Send)
		}
		switch {
		case err == nil:
		case errors.Is(err, errStore):
			if ctx.Err() == nil && len(outcomes) == 0 {
				d.o.Log.Error("read template or attachments failed, retrying messages", "message",
					d.o.IDs.Message(l.Number), "error", err)
			}
			outcomes = append(outcomes, postpone(l, reasonStore, d.o.Now(), d.later()))
			continue
		default:
			if len(outcomes) == 0 { // log once per batch
				d.o.Log.Warn("messages parked: rendering failed", "first", d.o.IDs.Message(l.Number), "client", l.Send.ClientID,
					"error", err)
			}
			o := park(l.Message, "the message cannot be rendered: "+err.Error(), d.o.Now())
			o.Email = l.found
			outcomes = append(outcomes, l.rendered(o))
			continue
		}
		body, own = d.contents.marked(l, body, own)
		made := notify.Outgoing{
			Number: l.Number, ID: d.o.IDs.Message(l.Number), Attempt: l.Attempts + 1,
			To: l.to(), UserID: l.UserID, KindID: l.Send.Preferred().KindID, ReplyTo: l.Send.Content.ReplyTo, Body: body,
			ClientID: l.Send.ClientID, Received: l.Send.Received, Unsubscribe: d.contents.link(l), Attached: files,
		}
		if l.Channel == notify.Email {
			made.Event = l.Send.Content.Event
			if key := l.Send.Content.Thread; key != "" {
				made.Thread = d.o.IDs.Thread(l.Send.ClientID, key, made.To)
			}
		}
		if l.Channel == notify.SMS {
			made.To = l.phone
		}
		if l.Channel == notify.Push {
			made.Browsers, made.Critical, made.ExpiresAt = l.browsers, l.Send.Critical, l.Send.ExpiresAt
		}
		if l.Channel == notify.Hook || l.Channel == notify.Push {
			made.SendID = d.o.IDs.Send(l.Send.Number)
			if made.Data, err = d.contents.webhookData(ctx, l); err != nil { // it was read for the template
				outcomes = append(outcomes, postpone(l, reasonStore, d.o.Now(), d.later()))
				continue
			}
		}
		out = append(out, outgoing{message: l, Outgoing: made})
		if held.add(body, own, files) {
			break
		}
	}
	return out, taken, outcomes
}

type outgoing struct {
	notify.Outgoing
	message *message
}

// send passes messages to the channel and records the results. It calls settled after each.
func (d *Delivery) send(ctx context.Context, all []outgoing, p *batchState, settled func()) {
	if len(all) == 0 {
		return
	}
	batch := make([]notify.Outgoing, len(all))
	for i := range all {
		batch[i] = all[i].Outgoing
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, d.o.Patience)
	defer cancel()
	err := background.Within(limited, "delivery of a batch", min(deliverGrace, d.o.Patience), func() error {
		p.line.channel.Deliver(limited, batch, func(i int, r notify.Result) {
			if r.Verdict != notify.Accepted && ctx.Err() != nil {
				return // not attempted, because the process stops
			}
			d.attempted(ctx, all[i].message, r, began)
			d.concluded(all[i].message, r, p)
			settled()
		})
		return nil
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	// It counts as an attempt: one of the messages may be the cause, and must
	// not be retried forever. Outcomes that were recorded stay.
	d.o.Log.Error("channel failed, retrying the rest of the batch", "messages", len(all), "error", err)
	for i := range all {
		d.concluded(all[i].message, notify.Result{Verdict: notify.Temporary, Reason: "the delivery ended unexpectedly"}, p)
	}
}

const (
	// deliverTime is the default of Options.Patience: much more than a batch
	// takes.
	deliverTime = 10 * time.Minute
	// deliverGrace is how long a channel may take to return after that, or at
	// shutdown.
	deliverGrace = 15 * time.Second
)

// concluded records one result.
func (d *Delivery) concluded(l *message, r notify.Result, p *batchState) {
	now, steady := d.o.Now(), d.o.steady()
	o := d.o.Schedule.after(l.Message, r, now, steady)
	if r.Untried && r.Verdict == notify.Temporary {
		o = postpone(l, r.Reason, now, steady.Add(max(time.Second, r.RetryAfter)))
	}
	o.Email = l.found
	if o.Status == notify.Retry && !l.Send.ExpiresAt.IsZero() {
		// It is looked at again when it expires, not when the next attempt would be.
		o.Due = earlier(o.Due, steady.Add(max(0, l.Send.ExpiresAt.Sub(now))))
	}
	if r.Verdict == notify.Permanent && r.BadAddress {
		p.mu.Lock()
		p.refused = append(p.refused, notify.Suppression{Email: l.to(), Reason: o.Reason, Source: "smtp", Created: d.o.Now()})
		p.mu.Unlock()
	}
	p.settle(l.rendered(o))
}

// later returns when to retry after a failure that no message caused.
func (d *Delivery) later() time.Time { return d.o.steady().Add(d.lookups.next()) }

// postpone is the outcome of a message that was not attempted and keeps its
// number of attempts.
func postpone(l *message, reason string, now, due time.Time) notify.Outcome {
	o := untried(l.Message, notify.Retry, reason, now)
	o.Due = due
	return o
}

// postpone schedules all ready messages again.
func (d *Delivery) postpone(s *sorted, reason string) {
	due := d.later()
	s.keep(func(l *message) (notify.Outcome, bool) { return postpone(l, reason, d.o.Now(), due), true })
}
