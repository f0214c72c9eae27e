package main

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// schedule says when a job runs.
type schedule interface {
	// next returns the first time after t, or the zero time if there is none.
	next(t time.Time) time.Time
}

// every runs at a fixed interval, counted from start.
type every struct {
	start    time.Time
	interval time.Duration
}

func (e every) next(t time.Time) time.Time {
	if t.Before(e.start) {
		return e.start.Add(e.interval)
	}
	return e.start.Add((t.Sub(e.start)/e.interval + 1) * e.interval)
}

// calendar is a schedule of five fields, each a set of numbers.
type calendar struct {
	minutes, hours, days, months, weekdays uint64
	// anyDay and anyWeekday are set if the field begins with an asterisk. If neither
	// does, a day that matches one of them is enough, as in every cron.
	anyDay, anyWeekday bool
	// anyHour is set if the field of hours begins with an asterisk.
	anyHour bool
	zone    *time.Location
}

// field describes one of the five fields.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var fields = []field{
	{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// shorthands are the schedules with a name.
var shorthands = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseCalendar parses five fields.
func parseCalendar(words []string, zone *time.Location) (*calendar, error) {
	var sets [5]uint64
	for i, f := range fields {
		var err error
		if sets[i], err = f.parse(words[i]); err != nil {
			return nil, err
		}
	}
	c := &calendar{
		minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4], zone: zone,
		anyHour: strings.HasPrefix(words[1], "*"), anyDay: words[2][0] == '*' || words[2] == "?",
		anyWeekday: words[4][0] == '*' || words[4] == "?",
	}
	if c.weekdays&(1<<7) != 0 { // 7 is Sunday too
		c.weekdays |= 1
	}
	return c, nil
}

// parse parses a field: a list of numbers, names and ranges, each with a step.
func (f field) parse(text string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			var err error
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > f.max {
				return 0, fmt.Errorf("the %s %q has the step %q, which must be from 1 to %d", f.name, text, stepText, f.max)
			}
		}
		from, to := f.min, f.max
		if span != "*" && span != "?" {
			low, high, ranged := strings.Cut(span, "-")
			var err error
			if from, err = f.number(low); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if to, err = f.number(high); err != nil {
					return 0, err
				}
			case !stepped: // 5/10 is 5-59/10
				to = from
			}
			if to < from {
				return 0, fmt.Errorf("the %s %q ends before it begins", f.name, span)
			}
		}
		for i := from; i <= to; i += step {
			set |= 1 << i
		}
	}
	return set, nil
}

func (f field) number(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("the %s is %q, and must be from %d to %d", f.name, text, f.min, f.max)
	}
	return n, nil
}

// onDay reports whether a job runs on a day.
func (c *calendar) onDay(t time.Time) bool {
	if c.months&(1<<t.Month()) == 0 {
		return false
	}
	day, weekday := c.days&(1<<t.Day()) != 0, c.weekdays&(1<<t.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// horizon is how far to look: 29 February can be eight years away.
const horizon = 9 * 366

// next returns the first time after t. When clocks are changed, a job for every hour
// (an asterisk) follows the time that passes. A job at fixed hours runs once a day: a
// time that is skipped runs right after the change, and one that comes twice only the
// first time.
func (c *calendar) next(t time.Time) time.Time {
	if c.anyHour {
		return c.nextPassing(t)
	}
	shown := latest(t, c.zone)
	day := time.Date(shown.Year(), shown.Month(), shown.Day(), 0, 0, 0, 0, time.UTC)
	for range horizon {
		if c.onDay(day) {
			hours := c.hours
			if !day.After(shown) {
				hours &= ^uint64(0) << shown.Hour() // the day of shown itself
			}
			for ; hours != 0; hours &= hours - 1 {
				for minutes := c.minutes; minutes != 0; minutes &= minutes - 1 {
					clock := time.Duration(bits.TrailingZeros64(hours))*time.Hour +
						time.Duration(bits.TrailingZeros64(minutes))*time.Minute
					if at := day.Add(clock); at.After(shown) {
						return first(at, c.zone)
					}
				}
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// latest returns the latest minute that clocks in a zone have shown until t, in UTC. That
// is later than the time at t if they were put back shortly before.
func latest(t time.Time, zone *time.Location) time.Time {
	wall := func(t time.Time) time.Time {
		t = t.In(zone)
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	shown := wall(t)
	if start, _ := t.In(zone).ZoneBounds(); !start.IsZero() {
		if before := wall(start.Add(-time.Second)); before.After(shown) {
			return before
		}
	}
	return shown
}

// first returns the first instant at which clocks in a zone show the time of wall (which
// is in UTC), or a later one if they skip it.
func first(wall time.Time, zone *time.Location) time.Time {
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, zone)
	start, end := guess.ZoneBounds()
	near := []time.Time{guess}
	if !start.IsZero() {
		near = append(near, start.Add(-time.Second))
	}
	if !end.IsZero() {
		near = append(near, end)
	}
	var found, last time.Time
	for _, n := range near {
		_, offset := n.Zone()
		at := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if _, its := at.Zone(); its == offset && (found.IsZero() || at.Before(found)) {
			found = at
		}
		if last.IsZero() || at.After(last) {
			last = at // with the offset before the clocks were put forward
		}
	}
	if found.IsZero() {
		found, _ = last.ZoneBounds()
	}
	return found
}

// nextDay returns the start of the next day, or an earlier time if clocks are changed
// before: some zones put them back at midnight, and the previous day continues.
func (c *calendar) nextDay(at time.Time) time.Time {
	next := first(time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC), c.zone)
	if _, end := at.ZoneBounds(); !end.IsZero() && end.Before(next) {
		next = end
	}
	if !next.After(at) {
		next = at.Add(time.Minute) // this midnight comes for the second time
	}
	return next
}

// nextPassing is next for jobs of every hour.
func (c *calendar) nextPassing(t time.Time) time.Time {
	t = t.In(c.zone)
	at := t.Add(time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	for days := 0; days < horizon; {
		if !c.onDay(at) {
			days++
			at = c.nextDay(at)
			continue
		}
		if c.hours&(1<<at.Hour()) != 0 && c.minutes&(1<<at.Minute()) != 0 {
			return at
		}
		day := at.Day()
		at = at.Add(time.Minute)
		if at.Day() != day {
			days++
		}
	}
	return time.Time{}
}
