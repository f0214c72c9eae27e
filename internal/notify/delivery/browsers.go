package delivery

import (
	"context"
	"fmt"

	"ingot/internal/notify"
)

const (
	reasonNoBrowser  = "the user has no browser or device that is registered for push notifications of this client"
	reasonNoBrowsers = "the recipient is an address without a user, which has neither browsers nor devices"
)

// browsers finds the browsers that users have subscribed, and removes messages to those without one.
func (d *Delivery) browsers(ctx context.Context, s *sorted) error {
	users := map[string][]string{}
	asked := map[notify.Owner]bool{}
	for i := range s.ready {
		l := &s.ready[i]
		of := notify.Owner{ClientID: l.Send.ClientID, UserID: l.UserID}
		if l.UserID != "" && notify.UserProblem(l.UserID) == "" && !asked[of] {
			asked[of] = true
			users[of.ClientID] = append(users[of.ClientID], of.UserID)
		}
	}
	found := map[string]map[string][]notify.PushSubscription{}
	for client, list := range users {
		var err error
		if found[client], err = d.o.Store.PushSubscriptions(ctx, client, list); err != nil {
			return fmt.Errorf("look up push subscriptions: %w", err)
		}
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		reason := ""
		l.browsers = found[l.Send.ClientID][l.UserID]
		switch {
		case l.UserID == "":
			reason = reasonNoBrowsers
		case len(l.browsers) == 0:
			reason = reasonNoBrowser
		}
		return untried(l.Message, notify.Undeliverable, reason, d.o.Now()), reason != ""
	})
	return nil
}
