package delivery

import (
	"context"

	"ingot/internal/notify"
)

const (
	reasonNoPhone     = "the user has no phone number with a country code, such as +4915112345678"
	reasonPhoneless   = "the recipient is an address without a phone number"
	reasonPhoneLookup = "the user's phone number could not be looked up: the authorization server is unavailable"
)

// phones finds the phone numbers of recipients: that which the sender gave, or the user's. It removes messages without
// one.
func (d *Delivery) phones(ctx context.Context, s *sorted) error {
	var missing []string
	asked := map[string]bool{}
	for i := range s.ready {
		l := &s.ready[i]
		if l.Send.List() != "" {
			m, err := d.contents.data.listed(ctx, l)
			if err != nil {
				return err
			}
			l.phone = m.Phone
		}
		if l.Send.Digest != nil {
			l.phone = l.Send.Digest.Phone
		}
		if l.phone == "" && l.UserID == "" && notify.UsablePhone(l.Email) {
			l.phone = l.Email
		}
		if l.phone == "" && l.UserID != "" && !asked[l.UserID] {
			asked[l.UserID] = true
			missing = append(missing, l.UserID)
		}
	}
	var found map[string]string
	if len(missing) > 0 {
		var err error
		found, err = d.o.Directory.Phones(ctx, missing)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			d.o.Metrics.directoryFailed("phones")
			d.o.Log.Warn("phone number lookup failed, messages postponed", "users", len(missing), "error", err)
			again := d.later()
			s.keep(func(l *message) (notify.Outcome, bool) {
				return postpone(l, reasonPhoneLookup, d.o.Now(), again), l.phone == "" && l.UserID != ""
			})
		default:
			d.lookups.clear()
		}
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		reason := ""
		if l.phone == "" && l.UserID == "" {
			reason = reasonPhoneless
		} else if l.phone == "" {
			number, known := found[l.UserID]
			switch l.phone = number; {
			case !known:
				reason = reasonNoUser
			case number == "":
				reason = reasonNoPhone
			}
		}
		return untried(l.Message, notify.Undeliverable, reason, d.o.Now()), reason != ""
	})
	return nil
}
