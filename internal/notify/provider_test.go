package notify_test

import (
	"testing"

	"ingot/internal/notify"
)

func TestPhones(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"+4915112345678": "+4915112345678", "+49 (151) 123-45.678": "+4915112345678",
		"tel:+49-151-12345678":     "+4915112345678",
		"tel:+4915112345678;ext=1": "+4915112345678", " +15550100 ": "+15550100", "015112345678": "", "004915112345678": "",
		"+0123456789": "", "+1": "", "+1234567890123456": "", "+49151x": "", "": "",
		"+49151123\n45678": "", "+４９151123456": "",
	} {
		if got := notify.NormalPhone(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if notify.UsablePhone("+49 151 12345678") || !notify.UsablePhone("+4915112345678") {
		t.Error("a number with spaces is usable as it is, or one without is not")
	}
}

// TestPhoneMessages sees that who has only a phone number gets text messages and nothing else.
func TestPhoneMessages(t *testing.T) {
	t.Parallel()
	c := notify.ChannelsOf(notify.Email, notify.Inbox, notify.Hook, notify.SMS, notify.Push)
	var got []notify.Recipient
	for _, r := range c.Messages([]notify.Recipient{{Email: "+4915112345678"}, {Email: "a@example.com"}}) {
		if r.Email == "+4915112345678" {
			got = append(got, r)
		}
	}
	if len(got) != 1 || got[0].Channel != notify.SMS {
		t.Errorf("the messages are %+v", got)
	}
}
