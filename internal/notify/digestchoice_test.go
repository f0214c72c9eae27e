package notify

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDigestChoices refuses what users cannot choose, and describes what they can.
func TestDigestChoices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window, key string
		choice      []string
		want        string
	}{
		{"1h", "", []string{"weekly", "at_once"}, "collected for 1h, at most 100; users may choose at once, weekly"},
		{"1h", "a.b", []string{"daily"}, "collected by a.b for 1h, at most 100; users may choose daily"},
		{"", "", []string{"daily", "hourly"}, "not collected; users may choose hourly, daily"},
		{"", "", nil, `"window" must be a duration`},
		{"", "", []string{"at_once"}, `without a "window" all are sent at once`},
		{"", "a.b", []string{"daily"}, `"key" needs a "window"`},
		{"1h", "", []string{"daily", "daily"}, "more than once"},
		{"1h", "", []string{"default"}, `has "default" and may have at_once, hourly, daily, weekly`},
		{"1h", "", []string{"monthly"}, `has "monthly"`},
		{"soon", "", []string{"daily"}, `"window" must be a duration`},
	} {
		var got string
		if r, err := NewDigestRule(c.window, 0, c.key, nil, c.choice...); err != nil {
			got = err.Error()
		} else {
			got = r.String()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestCollecting decides for all choices and rules how messages are collected.
func TestCollecting(t *testing.T) {
	t.Parallel()
	all := []DigestChoice{DigestAtOnce, DigestHourly, DigestDaily, DigestWeekly}
	hour := &DigestRule{Window: Delay(time.Hour), Max: 7, Key: "k", Choice: all}
	only := &DigestRule{Max: 7, Choice: []DigestChoice{DigestDaily}}
	over := &ThrottleRule{Limit: 1, Over: OverDigest}
	for name, c := range map[string]struct {
		send   Send
		choice DigestChoice
		want   string // the window, and whether it is chosen
	}{
		"no rule":               {Send{}, DigestDaily, "no"},
		"as the client says":    {Send{DigestRule: hour}, DigestDefault, "1h false k"},
		"at once":               {Send{DigestRule: hour}, DigestAtOnce, "no"},
		"hourly":                {Send{DigestRule: hour}, DigestHourly, "1h true "},
		"daily":                 {Send{DigestRule: hour}, DigestDaily, "24h true "},
		"weekly":                {Send{DigestRule: hour}, DigestWeekly, "168h true "},
		"no digest":             {Send{DigestRule: only}, DigestDefault, "no"},
		"a digest of their own": {Send{DigestRule: only}, DigestDaily, "24h true "},
		"not offered":           {Send{DigestRule: only}, DigestWeekly, "no"},
		"no longer offered":     {Send{DigestRule: &DigestRule{Window: Delay(time.Hour)}}, DigestAtOnce, "1h false "},
		"critical":              {Send{DigestRule: hour, Critical: true}, DigestDaily, "no"},
		"the digest itself":     {Send{DigestRule: hour, Digest: &Digest{}}, DigestDaily, "no"},
		"with an attachment":    {Send{DigestRule: hour, Attachments: make([]Attachment, 1)}, DigestDaily, "no"},
		"with an event":         {Send{DigestRule: hour, Content: Content{Event: &Invitation{}}}, DigestDaily, "no"},
		"another channel": {Send{DigestRule: &DigestRule{Channels: []ChannelID{Inbox}, Choice: all}}, DigestDaily,
			"no"},
		"over a limit":        {Send{DigestRule: hour, ThrottleRule: over}, DigestDefault, "no"},
		"all despite a limit": {Send{DigestRule: hour, ThrottleRule: over}, DigestDaily, "24h true "},
	} {
		got := "no"
		if e := c.send.Collecting(Email, c.choice); e != nil {
			got = fmt.Sprint(e.Rule.Window, " ", e.Chosen, " ", e.Rule.Key)
			if e.Chosen && (e.Name != "chosen: "+c.choice.String() || e.Rule.Max != 7) {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestErasedSendCountsAsBefore: whether messages count as collected does not change when their send loses its content.
func TestErasedSendCountsAsBefore(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Send{
		"text": {}, "attachment": {Attachments: []Attachment{{}}}, "event": {Content: Content{Event: &Invitation{}}},
	} {
		s.DigestRule = &DigestRule{Window: Delay(time.Hour)}
		if got, want := (&s).Delays(Email), name == "text"; got != want {
			t.Fatalf("%s: %t before", name, got)
		}
		erased := s.WithoutContent(Person{})
		if got, want := erased.Delays(Email), s.Delays(Email); got != want {
			t.Errorf("%s: %t, want %t as before", name, got, want)
		}
	}
	if got := (&DigestRule{Key: "k"}).Name(map[string]any{"k": own + "daily"}); strings.HasPrefix(got, own) {
		t.Errorf("data lead to the digest that a user has chosen: %q", got)
	}
}
