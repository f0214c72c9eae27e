package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestSchedules checks known times, among them those at which clocks are changed.
func TestSchedules(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ zone, line, after, want string }{
		{"UTC", "*/5 * * * * x", "2026-11-16T13:31:07Z", "13:35 13:40 13:45"},
		{"UTC", "5/20 * * * * x", "2026-11-16T13:31:07Z", "13:45 14:05 14:25"},
		{"UTC", "0 9-17/4 * * mon-fri x", "2026-11-13T14:00:00Z", "Fri 17:00 Mon 09:00 Mon 13:00"},
		{"UTC", "0 0 13 * 5 x", "2026-11-14T00:00:00Z", "Nov 20 Nov 27 Dec 04"},  // a Friday or a 13th
		{"UTC", "0 0 */2 * 5 x", "2026-11-14T00:00:00Z", "Nov 27 Dec 11 Dec 25"}, // a Friday and an odd day
		{"UTC", "0 0 29 2 * x", "2096-03-01T00:00:00Z", "2104 2108 2112"},        // 2100 has none
		{"UTC", "0 0 1 jan,JUL 0-7 x", "2026-01-01T00:00:00Z", "Jan 02 Jan 03 Jan 04"},
		{"UTC", "@weekly x", "2026-11-16T00:00:00Z", "Nov 22 Nov 29 Dec 06"},
		{"UTC", "@yearly x", "2026-11-16T00:00:00Z", "2027 2028 2029"},
		// Clocks are put forward from 02:00 to 03:00: 02:30 is skipped, and runs at 03:00.
		{"Europe/Berlin", "30 2 * * * x", "2026-03-28T00:00:00Z", "28T02:30 29T03:00 30T02:30"},
		{"Europe/Berlin", "*/20 2 * * * x", "2026-03-28T01:30:00Z", "28T02:40 29T03:00 30T02:00"},
		{"Europe/Berlin", "*/30 * * * * x", "2026-03-29T00:25:00Z", "29T01:30 29T03:00 29T03:30"},
		// Clocks are put back from 03:00 to 02:00: 02:30 comes twice, and runs once.
		{"Europe/Berlin", "30 2 * * * x", "2026-10-24T00:00:00Z", "24T02:30 25T02:30:00+02:00 26T02:30"},
		{"Europe/Berlin", "30 * * * * x", "2026-10-25T00:00:00Z", "25T02:30:00+02:00 25T02:30:00+01:00 25T03:30"},
		// Newfoundland put its clocks back at one minute past midnight: 6 November continues.
		{"America/St_Johns", "18,31 */20 7 * 5 x", "2010-11-05T23:02:00Z", "07T00:18 07T00:31 07T20:18"},
		{"America/St_Johns", "30 * 6 11 * x", "2010-11-07T01:30:00Z", "06T23:30:00-02:30 06T23:30:00-03:30 2011-11-06T00:30"},
		// Samoa had no 30 December 2011.
		{"Pacific/Apia", "0 12 30 12 * x", "2011-12-01T00:00:00Z", "2011-12-31T00:00:00 2012-12-30T12:00 2013-12-30T12:00"},
		{"UTC", "@every 90s x", "2026-11-16T13:31:07Z", "13:32:37 13:34:07 13:35:37"},
	} {
		at, err := time.Parse(time.RFC3339, x.after)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := parse(x.line, zone(t, x.zone), time.Hour, at)
		if err != nil {
			t.Errorf("%s: %v", x.line, err)
			continue
		}
		var got []string
		for range 3 {
			at = jobs[0].schedule.next(at)
			got = append(got, at.Format("2006-01-02T15:04:05Z07:00 Mon 15:04 Jan 02"))
		}
		words := strings.Fields(x.want)
		for i := range got {
			want := strings.Join(words[i*len(words)/3:(i+1)*len(words)/3], " ")
			if !strings.Contains(got[i], want) {
				t.Errorf("%s in %s after %s: time %d is %s, want %s", x.line, x.zone, x.after, i, got[i], want)
			}
		}
	}
}

// model returns the times of a schedule between two times, minute by minute. A job of
// every hour runs when the clock shows a time of its. Another runs when the clock passes
// such a time for the first time.
func model(c *calendar, from, to time.Time) []time.Time {
	wallOf := func(at time.Time) time.Time {
		at = at.In(c.zone)
		return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
	}
	matches := func(wall time.Time) bool {
		return c.onDay(wall) && c.hours&(1<<wall.Hour()) != 0 && c.minutes&(1<<wall.Minute()) != 0
	}
	var all []time.Time
	// An earlier time may have been the latest that the clock has shown.
	var latest time.Time
	for at := from.Add(-26 * time.Hour); !at.After(from); at = at.Add(time.Minute) {
		if wall := wallOf(at); wall.After(latest) {
			latest = wall
		}
	}
	for at := from.Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		wall := wallOf(at)
		runs := matches(wall)
		if !c.anyHour {
			runs = false
			for ; latest.Before(wall); latest = latest.Add(time.Minute) {
				runs = runs || matches(latest.Add(time.Minute))
			}
		}
		if runs {
			all = append(all, at)
		}
	}
	return all
}

// TestAgainstModel compares random schedules with the model, around changes of clocks.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	zones := []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Africa/Casablanca",
		"America/Sao_Paulo",
		"Asia/Kathmandu", "Pacific/Chatham", "Africa/Cairo", "Asia/Pyongyang", "UTC",
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	pick := func(most int, any string) string {
		switch random.IntN(4) {
		case 0:
			return any
		case 1:
			return fmt.Sprintf("*/%d", 1+random.IntN(most))
		case 2:
			low := random.IntN(most)
			return fmt.Sprintf("%d-%d/%d", low, low+random.IntN(most-low), 1+random.IntN(5))
		default:
			return fmt.Sprintf("%d,%d", random.IntN(most), random.IntN(most))
		}
	}
	for range 100 {
		z := zone(t, zones[random.IntN(len(zones))])
		// The start of a period of the zone, if it has any.
		middle := time.Date(2010+random.IntN(17), time.Month(1+random.IntN(12)), 15, 0, 0, 0, 0, time.UTC)
		if start, _ := middle.In(z).ZoneBounds(); !start.IsZero() {
			middle = start.UTC()
		}
		from, to := middle.Add(-30*time.Hour).Truncate(time.Minute), middle.Add(30*time.Hour)
		day, weekday := "*", "*"
		if random.IntN(4) == 0 {
			day, weekday = fmt.Sprint(middle.Day()), fmt.Sprint(random.IntN(8))
		}
		line := strings.Join([]string{pick(59, "*"), pick(23, "0-23"), day, "*", weekday}, " ")
		c, err := parseCalendar(strings.Fields(line), z)
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Time
		for at := c.next(from); !at.After(to); at = c.next(at) {
			if len(got) > 0 && !at.After(got[len(got)-1]) {
				t.Fatalf("seed %d: %s in %s: %s does not come after %s", seed, line, z, at, got[len(got)-1])
			}
			got = append(got, at)
		}
		want := model(c, from, to)
		// From any time on, also one that the clock shows for the second time.
		for range 50 {
			at := from.Add(time.Duration(random.Int64N(int64(to.Sub(from)))))
			i := slices.IndexFunc(want, func(w time.Time) bool { return w.After(at) })
			if next := c.next(at); !next.After(at) || i >= 0 && !next.Equal(want[i]) {
				t.Errorf("seed %d: %s in %s after %s: %s, want time %d of %v", seed, line, z, at, next, i, want)
			}
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			i := 0
			for i < min(len(got), len(want)) && got[i].Equal(want[i]) {
				i++
			}
			t.Errorf("seed %d: %s in %s after %s: %d times, want %d; from time %d on: %v, want %v", seed, line, z, from,
				len(got), len(want), i, got[i:min(i+2, len(got))], want[i:min(i+2, len(want))])
		}
	}
}

func TestCrontab(t *testing.T) {
	t.Parallel()
	jobs, err := parse(`
# a comment
* * * * * ./clean  --all "a  b"
PATH=/opt/bin
CRON_TZ = Europe/Berlin
name=nightly timeout=5m missed=run 30 2 * * *	./backup
@hourly ./clean
tz=Asia/Tokyo @daily X=1 ./report
`, time.UTC, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range jobs {
		z := j.schedule.(*calendar).zone.String()
		got = append(got, fmt.Sprintf("%s|%s|%s|%v|%v|%s", j.name, j.command, j.timeout, j.catchUp, j.env, z))
	}
	want := []string{
		`clean|./clean  --all "a  b"|1h0m0s|false|[]|UTC`,
		`nightly|./backup|5m0s|true|[PATH=/opt/bin CRON_TZ=Europe/Berlin]|Europe/Berlin`,
		`clean-2|./clean|1h0m0s|false|[PATH=/opt/bin CRON_TZ=Europe/Berlin]|Europe/Berlin`,
		`X=1|X=1 ./report|1h0m0s|false|[PATH=/opt/bin CRON_TZ=Europe/Berlin]|Asia/Tokyo`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for line, want := range map[string]string{
		"":                                "no jobs",
		"* * * *":                         "5 fields",
		"* * * * *":                       "no command",
		"60 * * * * x":                    "minute is \"60\"",
		"* 24 * * * x":                    "hour is",
		"* * 0 * * x":                     "day of the month is",
		"* * * 13 * x":                    "month is",
		"* * * * 8 x":                     "day of the week is",
		"9-3 * * * * x":                   "ends before it begins",
		"*/0 * * * * x":                   "step",
		"*/x * * * * x":                   "step",
		"1/9223372036854775807 * * * * x": "step",
		"0 0 30 2 * x":                    "never comes",
		"@often x":                        "@often is unknown",
		"@every x":                        "at least 1s",
		"@every":                          "needs a duration",
		"@every 1ms x":                    "at least 1s",
		"tz=Mars @daily x":                `time zone "Mars"`,
		"CRON_TZ=Mars":                    `time zone "Mars"`,
		"timeout=1 @daily x":              "timeout=1",
		"missed=maybe @daily x":           "missed=maybe",
		"nice=1 @daily x":                 "option nice=1",
		"name=x":                          "no schedule",
	} {
		if _, err := parse(line, time.UTC, time.Hour, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if _, err := parse("60 * * * * x\n* * * * * y\n* * z", time.UTC, time.Hour, time.Now()); err == nil ||
		!strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("two wrong lines: %v", err)
	}
}

func FuzzCrontab(f *testing.F) {
	f.Add("*/5 1-3,7 * jan mon x")
	f.Add("1/9223372036854775807 * * * * x")
	f.Add("name=a @every 5s x\nA=b\n0 0 31 4 * y")
	now := time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := parse(text, berlin, time.Hour, now)
		if err != nil {
			return
		}
		for _, j := range jobs {
			if next := j.schedule.next(now); !next.After(now) {
				t.Errorf("%q: the next time is %s", j.command, next)
			}
		}
	})
}
