package repeats

import (
	"strings"

	"ingot/internal/notify"
)

// MemberOf returns what identifies a recipient: the user, else the address, and the channel. A chat has one for all.
func MemberOf(r notify.Recipient) string {
	if r.UserID == "" && (r.Channel.HasDestination() || r.Channel.HasProviders()) {
		return r.Channel.String() + " " + notify.AddressSubscriber(r.Email)
	}
	if r.UserID != "" && r.Channel != notify.Email {
		return r.Channel.String() + " " + r.UserID
	}
	if r.UserID != "" {
		return "u" + r.UserID
	}
	return "e" + strings.ToLower(r.Email)
}

// Distinct removes duplicate recipients.
func Distinct(all []notify.Recipient) []notify.Recipient {
	if len(all) < 2 {
		return all
	}
	known := make(map[string]struct{}, len(all))
	kept := make([]notify.Recipient, 0, len(all))
	for _, r := range all {
		m := MemberOf(r)
		if _, twice := known[m]; !twice {
			known[m] = struct{}{}
			kept = append(kept, r)
		}
	}
	return kept
}
