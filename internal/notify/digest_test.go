package notify

import "testing"

// TestCollects tests which messages are collected in digests.
func TestCollects(t *testing.T) {
	t.Parallel()
	rule := &DigestRule{Window: 1, Max: 2}
	mails := &DigestRule{Window: 1, Max: 2, Channels: []ChannelID{Email}}
	for name, of := range map[string]struct {
		send Send
		by   ChannelID
		want bool
	}{
		"with a rule":            {Send{DigestRule: rule}, Inbox, true},
		"without":                {Send{}, Email, false},
		"channel of the rule":    {Send{DigestRule: mails}, Email, true},
		"another channel":        {Send{DigestRule: mails}, Inbox, false},
		"critical":               {Send{DigestRule: rule, Critical: true}, Email, false},
		"the digest itself":      {Send{DigestRule: rule, Digest: &Digest{}}, Email, false},
		"with an event":          {Send{DigestRule: rule, Content: Content{Event: &Invitation{}}}, Email, false},
		"if users choose":        {Send{DigestRule: &DigestRule{Choice: []DigestChoice{DigestDaily}}}, Email, false},
		"with an attached image": {Send{DigestRule: rule, Attachments: make([]Attachment, 1)}, Email, false},
	} {
		if got := of.send.Collects(of.by); got != of.want {
			t.Errorf("%s: %t, want %t", name, got, of.want)
		}
	}
}
