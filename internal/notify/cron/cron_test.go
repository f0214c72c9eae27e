package cron

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestNext reads times as clocks in the zone show them, beside what the offset is then.
func TestNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"daily": {"0 9 * * *", "Europe/Berlin", "2026-11-18T08:00:00Z",
			[]string{"2026-11-19T09:00:00+01:00", "2026-11-20T09:00:00+01:00"}},
		"the moment itself is not after it": {"0 9 * * *", "UTC", "2026-11-18T09:00:00Z",
			[]string{"2026-11-19T09:00:00Z"}},
		"a nanosecond before": {"0 9 * * *", "UTC", "2026-11-18T08:59:59.999999999Z",
			[]string{"2026-11-18T09:00:00Z"}},
		"nine o'clock stays nine o'clock": {"0 9 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T09:00:00+01:00", "2026-03-29T09:00:00+02:00"}},
		"Berlin skips it in spring": {"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"what is skipped together is one": {"*/20 2-3 * * *", "Europe/Berlin", "2026-03-29T00:59:59Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:20:00+02:00"}},
		"Berlin shows it twice in autumn": {"30 2 * * *", "Europe/Berlin", "2026-10-24T00:30:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"asked between the two": {"30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z",
			[]string{"2026-10-26T02:30:00+01:00"}},
		"every hour in autumn": {"0 * * * *", "Europe/Berlin", "2026-10-24T23:00:00Z",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"}},
		"Lord Howe skips half an hour": {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		"Lord Howe shows half an hour twice": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		"Samoa skips a whole day": {"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"}},
		"Pyongyang changes its zone back": {"30 23 * * *", "Asia/Pyongyang", "2018-05-03T15:00:00Z",
			[]string{"2018-05-05T00:00:00+09:00", "2018-05-05T23:30:00+09:00"}},
		"Pyongyang changes its zone": {"15 0 * * *", "Asia/Pyongyang", "2015-08-13T16:00:00Z",
			[]string{"2015-08-15T00:15:00+08:30", "2015-08-16T00:15:00+08:30"}},
		"Cairo skips midnight": {"0 0 * * *", "Africa/Cairo", "2026-04-22T23:00:00Z",
			[]string{"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
		"leap day": {"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		"the 31st": {"0 0 31 * *", "UTC", "2026-01-31T00:00:00Z",
			[]string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
		"days, either": {"0 0 13 * fri", "UTC", "2026-11-09T00:00:00Z",
			[]string{"2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"}},
		"working days": {"0 9 * * mon-fri", "UTC", "2026-11-20T09:00:00Z", []string{"2026-11-23T09:00:00Z"}},
		"Sunday is 7":  {"0 9 * * 7", "UTC", "2026-11-18T09:00:00Z", []string{"2026-11-22T09:00:00Z"}},
		"names": {"5 4 1 JAN,jul *", "UTC", "2026-11-18T09:00:00Z",
			[]string{"2027-01-01T04:05:00Z", "2027-07-01T04:05:00Z"}},
		"steps": {"10-30/10,55 0/12 * * *", "UTC", "2026-11-18T00:20:00Z",
			[]string{"2026-11-18T00:30:00Z", "2026-11-18T00:55:00Z", "2026-11-18T12:10:00Z"}},
		"a shortcut": {"@Weekly", "UTC", "2026-11-18T00:20:00Z", []string{"2026-11-22T00:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zone(t, c.zone)
			s, err := Parse(c.expression, z)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339Nano, c.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				at = s.Next(at)
				if got := at.In(z).Format(time.RFC3339); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
}

// TestOnceADay sees that there is one time for each date in zones with all kinds of switches.
func TestOnceADay(t *testing.T) {
	t.Parallel()
	zones := []string{"Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Africa/Cairo", "Asia/Pyongyang",
		"America/Santiago", "Asia/Kathmandu", "Africa/Casablanca", "Antarctica/Troll"}
	rapid.Check(t, func(r *rapid.T) {
		z := zone(t, rapid.SampledFrom(zones).Draw(r, "zone"))
		minute, hour := rapid.IntRange(0, 59).Draw(r, "minute"), rapid.IntRange(0, 23).Draw(r, "hour")
		s := Schedule{minutes: 1 << minute, hours: 1 << hour, days: span(1, 31, 1), months: span(1, 12, 1),
			weekdays: span(0, 6, 1), zone: z}
		at := time.Unix(rapid.Int64Range(1_300_000_000, 2_000_000_000).Draw(r, "after"), 0)
		at = s.Next(at)
		for range 400 {
			next := s.Next(at)
			if gap := next.Sub(at); gap < 20*time.Hour || gap > 28*time.Hour {
				r.Fatalf("%s follows %s", next.In(z), at.In(z))
			}
			if again := s.Next(next.Add(-1)); !again.Equal(next) {
				r.Fatalf("just before %s the next is %s", next, again)
			}
			at = next
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *",
		"* * * * 8", "-1 * * * *", "+1 * * * *", "1-", "a * * * *", "*/0 * * * *", "*/60 * * * *", "5-1 * * * *",
		"1--2 * * * *", "1,,2 * * * *", ", * * * *", "0 0 30 2 *", "0 0 31 4,6 *", "@every 1s", "@reboot", "١ * * * *",
		"0x1 * * * *", "1e1 * * * *", "* * * * L", "* * * * mon#2", "0/99999999999999999999 * * * *", "TZ=UTC * * * * *",
		"*\x00 * * * *", strings.Repeat("1,", 500_000) + "1 * * * *", strings.Repeat("*", 1<<20),
	} {
		if s, err := Parse(text, time.UTC); err == nil {
			t.Errorf("%.40q is accepted as %+v", text, s)
		} else if len(err.Error()) > 400 {
			t.Errorf("%.40q: the message has %d bytes", text, len(err.Error()))
		}
	}
	for _, name := range []string{"", "Local", "local", "Nowhere", "../../etc/passwd", "/etc/localtime", "Europe/../../x",
		"Europe\\Berlin", "Europe/Berlin\x00", strings.Repeat("x", 1<<20), "+02:00", "tzdata.zi"} {
		if z, err := Zone(name); err == nil {
			t.Errorf("%.40q is the zone %s", name, z)
		}
	}
	if !(Schedule{}).Next(time.Now()).IsZero() {
		t.Error("the zero value has a time")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("*/5 1-3,7 * jan mon")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, time.UTC)
		if err != nil {
			return
		}
		now := time.Now()
		if next := s.Next(now); !next.After(now) || next.Second() != 0 {
			t.Errorf("%q is next at %s", text, next)
		}
	})
}
