package delivery

import (
	"context"
	"fmt"
	"time"

	"ingot/internal/notify"
)

// quiet postpones messages whose recipients do not want to be disturbed now, to the end of their quiet hours. Then
// everything about them is decided again. Critical ones never wait.
func (d *Delivery) quiet(ctx context.Context, s *sorted) error {
	var users []string
	asked := map[string]bool{}
	for i := range s.ready {
		l := &s.ready[i]
		if id := l.subscriber(); l.Send.Held() && id != "" && !asked[id] {
			asked[id] = true
			users = append(users, id)
		}
	}
	if len(users) == 0 {
		return nil
	}
	hours, err := d.o.Store.QuietHours(ctx, users)
	if err != nil {
		return fmt.Errorf("look up quiet hours: %w", err)
	}
	if len(hours) == 0 {
		return nil
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		q := hours[l.subscriber()]
		if q == nil || !l.Send.Held() || !q.Holds(l.Channel) {
			return notify.Outcome{}, false
		}
		now, steady := d.o.Now(), d.o.steady()
		until := q.Until(now)
		if until.IsZero() {
			return notify.Outcome{}, false
		}
		reason := "waits for the end of the recipient's quiet hours at " + until.UTC().Format(time.RFC3339)
		due := until
		if at := l.Send.ExpiresAt; !at.IsZero() && at.Before(until) {
			due = at
			reason += ", but expires before"
		}
		o := postpone(l, reason, now, steady.Add(due.Sub(now)))
		o.Quiet = true
		return o, true
	})
	return nil
}
