package delivery

import (
	"context"
	"fmt"

	"ingot/internal/notify"
)

// choices looks up what the recipients of messages have chosen. Critical ones are always wanted, on all channels.
func (d *Delivery) choices(ctx context.Context, messages []*message) error {
	of := make([]notify.Subscription, 0, len(messages))
	for _, l := range messages {
		l.sought = true
		if !l.Send.Critical && l.subscription().KindID != "" && l.subscriber() != "" {
			of = append(of, l.subscription())
		}
	}
	if len(of) == 0 {
		return nil
	}
	found, err := d.o.Store.Unsubscribed(ctx, of)
	if err != nil {
		return fmt.Errorf("look up unsubscribed users: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	for _, l := range messages {
		if !l.Send.Critical {
			l.choice = found[l.subscription()]
		}
	}
	return nil
}

// wanted removes messages that recipients do not want, except critical ones. They are unsubscribed if no channel
// of the send is wanted; otherwise only this one is skipped.
func (d *Delivery) wanted(ctx context.Context, s *sorted) error {
	of := make([]*message, 0, len(s.ready))
	for i := range s.ready {
		if l := &s.ready[i]; !l.sought {
			of = append(of, l)
		}
	}
	if err := d.choices(ctx, of); err != nil {
		return err
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		switch now := d.o.Now(); {
		case !l.choice.Unwanted.Has(l.Channel):
			return notify.Outcome{}, false
		case l.choice.Unwanted.All(l.Send.Channels, l.UserID != ""):
			return untried(l.Message, notify.Unsubscribed, reasonUnsubscribed, now), true
		default:
			return untried(l.Message, notify.Skipped, reasonUnwanted, now), true
		}
	})
	return nil
}
