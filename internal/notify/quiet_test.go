package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func quietHours(t *testing.T, from, to, zone string, days ...string) *QuietHours {
	t.Helper()
	q, err := NewQuietHours(from, to, zone, days, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestQuietUntil asks when quiet hours end, also where clocks are changed: in Europe/Berlin from 2:00 to 3:00 on 29
// March 2026 and from 3:00 to 2:00 on 25 October, in America/Santiago from midnight to 1:00 on 6 September and from
// midnight to 23:00 on 4 April, and in Australia/Lord_Howe by half an hour.
func TestQuietUntil(t *testing.T) {
	t.Parallel()
	const berlin, santiago, howe = "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"
	for _, c := range []struct {
		name, from, to, zone string
		days                 []string
		at, want             string // want is empty if it is not quiet
	}{
		{"before", "22:00", "07:00", berlin, nil, "2026-11-19T20:59:59Z", ""},
		{"the beginning", "22:00", "07:00", berlin, nil, "2026-11-19T21:00:00Z", "2026-11-20T06:00:00Z"},
		{"after midnight", "22:00", "07:00", berlin, nil, "2026-11-20T05:59:59.999Z", "2026-11-20T06:00:00Z"},
		{"the end", "22:00", "07:00", berlin, nil, "2026-11-20T06:00:00Z", ""},
		{"within a day", "12:00", "13:30", berlin, nil, "2026-11-20T11:00:00Z", "2026-11-20T12:30:00Z"},
		{"until midnight", "12:00", "00:00", berlin, nil, "2026-11-20T11:00:00Z", "2026-11-20T23:00:00Z"},
		{"the night after a day", "22:00", "07:00", berlin, []string{"fri"}, "2026-11-21T05:00:00Z", "2026-11-21T06:00:00Z"},
		{"the night before a day", "22:00", "07:00", berlin, []string{"fri"}, "2026-11-20T05:00:00Z", ""},
		{"whole days", "00:00", "00:00", berlin, []string{"sat", "Sun"}, "2026-11-21T12:00:00Z", "2026-11-22T23:00:00Z"},
		{"all but a day", "00:00", "00:00", berlin, []string{"mon", "tue", "wed", "thu", "fri", "sat"},
			"2026-11-16T12:00:00Z", "2026-11-21T23:00:00Z"},
		{"a day of another zone", "22:00", "07:00", "Pacific/Kiritimati", []string{"fri"}, "2026-11-20T08:00:00Z",
			"2026-11-20T17:00:00Z"},

		{"Berlin, the short night", "22:00", "07:00", berlin, nil, "2026-03-28T21:00:00Z", "2026-03-29T05:00:00Z"},
		{"Berlin, the end is skipped", "22:00", "02:30", berlin, nil, "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"},
		{"Berlin, after the skipped end", "22:00", "02:30", berlin, nil, "2026-03-29T01:00:00Z", ""},
		{"Berlin, the beginning is skipped", "02:30", "07:00", berlin, nil, "2026-03-29T01:00:00Z", "2026-03-29T05:00:00Z"},
		{"Berlin, before the skipped beginning", "02:30", "07:00", berlin, nil, "2026-03-29T00:59:59Z", ""},
		{"Berlin, all of it is skipped", "02:15", "02:45", berlin, nil, "2026-03-29T01:00:00Z", ""},
		{"Berlin, the long night", "22:00", "07:00", berlin, nil, "2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z"},
		{"Berlin, the end comes twice", "22:00", "02:30", berlin, nil, "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"Berlin, between the ends", "22:00", "02:30", berlin, nil, "2026-10-25T01:15:00Z", "2026-10-25T01:30:00Z"},
		{"Berlin, after both ends", "22:00", "02:30", berlin, nil, "2026-10-25T01:30:00Z", ""},
		{"Berlin, the beginning comes twice", "02:30", "07:00", berlin, nil, "2026-10-25T00:30:00Z", "2026-10-25T06:00:00Z"},
		{"Berlin, between the beginnings", "02:30", "07:00", berlin, nil, "2026-10-25T01:15:00Z", "2026-10-25T06:00:00Z"},
		{"Berlin, both come twice", "02:15", "02:45", berlin, nil, "2026-10-25T00:50:00Z", "2026-10-25T01:45:00Z"},

		{"Santiago, the end is skipped", "22:00", "00:30", santiago, nil, "2026-09-06T03:59:59Z", "2026-09-06T04:00:00Z"},
		{"Santiago, the beginning is skipped", "00:30", "07:00", santiago, nil, "2026-09-06T04:00:00Z",
			"2026-09-06T10:00:00Z"},
		{"Santiago, midnight is skipped", "00:00", "00:00", santiago, []string{"sun"}, "2026-09-06T04:00:00Z",
			"2026-09-07T03:00:00Z"},
		{"Santiago, the long night", "22:00", "07:00", santiago, nil, "2026-04-05T01:00:00Z", "2026-04-05T11:00:00Z"},
		{"Santiago, the end comes twice", "20:00", "23:30", santiago, nil, "2026-04-05T02:45:00Z", "2026-04-05T03:30:00Z"},
		{"Santiago, the beginning comes twice", "23:30", "07:00", santiago, nil, "2026-04-05T03:15:00Z",
			"2026-04-05T11:00:00Z"},
		{"Lord Howe, the end is skipped", "22:00", "02:15", howe, nil, "2026-10-03T15:29:59Z", "2026-10-03T15:30:00Z"},
		{"Lord Howe, the end comes twice", "22:00", "01:45", howe, nil, "2026-04-04T14:50:00Z", "2026-04-04T15:15:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if until := quietHours(t, c.from, c.to, c.zone, c.days...).Until(at); !until.IsZero() {
			got = until.Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%s: %s to %s at %s: until %q, want %q", c.name, c.from, c.to, c.at, got, c.want)
		}
	}
}

// TestQuietOnce goes through the days on which clocks change minute by minute: what is due in quiet hours is sent when
// they end, once, and within a day. What is due at other times is sent at once.
func TestQuietOnce(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "America/St_Johns"} {
		for _, hours := range [][2]string{{"22:00", "07:00"}, {"23:30", "00:30"}, {"02:30", "02:15"}, {"01:45", "02:30"}} {
			q := quietHours(t, hours[0], hours[1], zone)
			for _, day := range []string{"2026-03-08", "2026-03-29", "2026-04-05", "2026-09-06", "2026-10-04", "2026-10-25",
				"2026-11-01"} {
				begin, err := time.Parse(time.DateOnly, day)
				if err != nil {
					t.Fatal(err)
				}
				last := time.Time{}
				for at := begin.Add(-24 * time.Hour); at.Before(begin.Add(48 * time.Hour)); at = at.Add(time.Minute) {
					until := q.Until(at)
					if until.IsZero() {
						continue
					}
					if !until.After(at) || until.Sub(at) > 50*time.Hour || until.Before(last) {
						t.Fatalf("%s %s: at %s until %s, before until %s", zone, q, at, until, last)
					}
					if again := q.Until(until); !again.IsZero() {
						t.Fatalf("%s %s: at their end %s until %s", zone, q, until, again)
					}
					last = until
				}
			}
		}
	}
}

func TestQuietHoursRefused(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]struct {
		from, to, zone string
		days, channels []string
	}{
		"from: it must be a time of day":  {from: "24:00", to: "07:00", zone: "UTC"},
		"from: it must be a time":         {from: "7:00", to: "07:00", zone: "UTC"},
		"to: it must be a time of day":    {from: "22:00", to: "07:00:00", zone: "UTC"},
		"to: it must be a time":           {from: "22:00", zone: "UTC"},
		"zone: \"\" is not a time zone":   {from: "22:00", to: "07:00"},
		"zone: \"Local\" is not":          {from: "22:00", to: "07:00", zone: "Local"},
		"zone: \"../etc/passwd\" is not":  {from: "22:00", to: "07:00", zone: "../etc/passwd"},
		"zone: it is 100 bytes long":      {from: "22:00", to: "07:00", zone: strings.Repeat("x", 100)},
		"days: they must be":              {from: "22:00", to: "07:00", zone: "UTC", days: []string{"monday"}},
		"channels: \"fax\" is not a":      {from: "22:00", to: "07:00", zone: "UTC", channels: []string{"fax"}},
		"channels: \"email\" is named":    {from: "22:00", to: "07:00", zone: "UTC", channels: []string{"email", "email"}},
		"channels: a chat is a room":      {from: "22:00", to: "07:00", zone: "UTC", channels: []string{"chat"}},
		"to: the quiet hours would never": {from: "22:00", to: "22:00", zone: "UTC"},
		"to: the quiet hours would never ": {from: "00:00", to: "00:00", zone: "UTC",
			days: strings.Split("mon tue wed thu fri sat sun", " ")},
	} {
		if _, err := NewQuietHours(q.from, q.to, q.zone, q.days, q.channels); err == nil ||
			!strings.Contains(err.Error(), "quiet_hours."+strings.TrimSpace(want)) {
			t.Errorf("%+v: %v, want %s", q, err, want)
		}
	}
}

func TestQuietHoursStored(t *testing.T) {
	t.Parallel()
	q, err := NewQuietHours("22:00", "07:00", "Europe/Berlin", []string{"sun", "MON", "mon"}, []string{"sms", "email"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(q)
	if want := `{"from":"22:00","to":"07:00","zone":"Europe/Berlin","days":["mon","sun"],"channels":["email","sms"]}`; err != nil ||
		string(text) != want {
		t.Errorf("%s %v, want %s", text, err, want)
	}
	back, err := ReadQuietHours(text)
	if err != nil || back.String() != "22:00 to 07:00 (Europe/Berlin) on mon, sun, only email, sms" {
		t.Errorf("%s %v", back, err)
	}
	for id, want := range map[ChannelID]bool{Email: true, SMS: true, Inbox: false, Hook: false, Chat: false} {
		if back.Holds(id) != want {
			t.Errorf("holds %s: %v", id, !want)
		}
	}
	all := quietHours(t, "22:00", "07:00", "UTC", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
	for id, want := range map[ChannelID]bool{Email: true, SMS: true, Hook: true, Inbox: false, Chat: false} {
		if all.Holds(id) != want || len(all.Days) != 0 {
			t.Errorf("all but the inbox: %s %v", id, !want)
		}
	}
}
