package delivery

import (
	"context"
	"fmt"

	"ingot/internal/notify"
)

const (
	reasonThrottled  = "the recipient got as many messages of this kind as it may send: nothing was sent"
	reasonNoGathered = "the recipient got as many messages of this kind as it may send, and this one cannot be " +
		"collected: nothing was sent"
)

// throttle removes messages over the limits of their kinds. It comes last, so that only what would be sent counts; what
// is then not attempted gives its permit back with its outcome. A message that was attempted before is within its
// limit.
func (d *Delivery) throttle(ctx context.Context, s *sorted) error {
	var asks []notify.Ask
	for i := range s.ready {
		if l := &s.ready[i]; l.limited() {
			asks = append(asks, notify.Ask{Number: l.Number, KindRef: l.Send.Preferred(), Recipient: l.Recipient,
				Rule: l.Send.ThrottleRule})
		}
	}
	if len(asks) == 0 {
		return nil
	}
	admitted, err := d.o.Store.Admit(ctx, asks)
	if err != nil {
		return fmt.Errorf("look up limits of kinds: %w", err)
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		now := d.o.Now()
		switch {
		case !l.limited():
			return notify.Outcome{}, false
		case admitted[l.Number].Limit != "":
			l.permit = admitted[l.Number]
			return notify.Outcome{}, false
		case l.Send.ThrottleRule.Over != notify.OverDigest:
			return untried(l.Message, notify.Throttled, reasonThrottled, now), true
		case !l.Send.Collects(l.Channel) || !l.endsInTime(l.Send.DigestRule, now):
			return untried(l.Message, notify.Throttled, reasonNoGathered, now), true
		}
		return d.entry(ctx, l, &notify.Entry{Rule: l.Send.DigestRule}), true
	})
	return nil
}

func (l *message) limited() bool { return l.Attempts == 0 && l.Send.Throttles(l.Channel) }
