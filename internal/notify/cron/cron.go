package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule is a cron expression in a time zone. The zero value has no times.
type Schedule struct {
	minutes, hours, days, months, weekdays uint64 // bit sets
	// either is set if both days and weekdays are restricted: a day then needs to be in one of them.
	either bool
	zone   *time.Location
}

const (
	maxExpression = 200
	maxZone       = 64
	// maxDays is how far Next looks: 29 February may be eight years away.
	maxDays = 9 * 366
)

// field describes one of the five fields.
type field struct {
	name       string
	first, max int
	names      []string // of first, first+1, …
}

var fields = [5]field{
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of the month", first: 1, max: 31},
	{name: "month", first: 1, max: 12,
		names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of the week", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

var shortcuts = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Parse reads an expression with five fields (minute, hour, day of the month, month, day of the week) or a shortcut
// such as @daily. Errors are for the user and name the field.
func Parse(expression string, zone *time.Location) (Schedule, error) {
	if len(expression) > maxExpression {
		return Schedule{}, fmt.Errorf("it is %d bytes long, at most %d are allowed", len(expression), maxExpression)
	}
	text := strings.ToLower(strings.TrimSpace(expression))
	if strings.HasPrefix(text, "@") {
		long, ok := shortcuts[text]
		if !ok {
			return Schedule{}, fmt.Errorf("%q is unknown: use @hourly, @daily, @weekly, @monthly or @yearly", text)
		}
		text = long
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return Schedule{}, fmt.Errorf("it has %d fields, but needs 5: minute, hour, day of the month, month, day of the week",
			len(parts))
	}
	s := Schedule{zone: zone}
	for i, to := range []*uint64{&s.minutes, &s.hours, &s.days, &s.months, &s.weekdays} {
		set, err := fields[i].parse(parts[i])
		if err != nil {
			return Schedule{}, fmt.Errorf("%s %q: %w", fields[i].name, parts[i], err)
		}
		*to = set
	}
	if s.weekdays&(1<<7) != 0 { // Sunday is 0 and 7
		s.weekdays |= 1
	}
	s.weekdays &= 1<<7 - 1
	s.either = s.days != span(1, 31, 1) && s.weekdays != span(0, 6, 1)
	if s.Next(time.Now()).IsZero() {
		return Schedule{}, fmt.Errorf("no such day exists: day %s of month %s", parts[2], parts[3])
	}
	return s, nil
}

// Zone returns a time zone of the IANA database.
func Zone(name string) (*time.Location, error) {
	if len(name) > maxZone {
		return nil, fmt.Errorf("it is %d bytes long, at most %d are allowed", len(name), maxZone)
	}
	// Local is the server's own, which is none of the user's business.
	if name == "" || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%q is not a time zone: use a name such as Europe/Berlin or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not a time zone: use a name such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}

// parse reads a field: a list of *, numbers, names and ranges, each with an optional step.
func (f field) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		item, stepText, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			if step, err = number(stepText); err != nil || step < 1 || step > f.max {
				return 0, fmt.Errorf("the step must be a number from 1 to %d", f.max)
			}
		}
		from, to := f.first, f.max
		if item != "*" {
			low, high, isRange := strings.Cut(item, "-")
			if from, err = f.value(low); err != nil {
				return 0, err
			}
			switch {
			case isRange:
				if to, err = f.value(high); err != nil {
					return 0, err
				}
				if to < from {
					return 0, fmt.Errorf("the range %s ends before it begins", item)
				}
			case !stepped:
				to = from
			}
		}
		set |= span(from, to, step)
	}
	return set, nil
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.first + i, nil
	}
	n, err := number(text)
	if err != nil || n < f.first || n > f.max {
		return 0, fmt.Errorf("use * or numbers from %d to %d, such as %d,%d or %d-%d", f.first, f.max, f.first, f.first+1,
			f.first, f.first+4)
	}
	return n, nil
}

// number reads one or two digits, without a sign.
func number(text string) (int, error) {
	if len(text) == 0 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

func span(from, to, step int) (set uint64) {
	for i := from; i <= to; i += step {
		set |= 1 << i
	}
	return set
}

// Next returns the first time after another; zero if there is none. A time that clocks show twice counts once, when
// they show it first. One that they skip counts at the moment of the skip. Times that are the same moment are one.
func (s Schedule) Next(after time.Time) time.Time {
	if s.zone == nil {
		return time.Time{}
	}
	local := after.In(s.zone)
	y, m, d := local.Date()
	// Days are counted without a zone: clocks may skip midnight, or a whole day.
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	for range maxDays {
		if s.on(day) {
			for hours := s.hours; hours != 0; hours &= hours - 1 {
				hour := time.Duration(bits.TrailingZeros64(hours)) * time.Hour
				// Nothing in this hour is later.
				if !s.moment(day.Add(hour + 59*time.Minute)).After(after) {
					continue
				}
				for minutes := s.minutes; minutes != 0; minutes &= minutes - 1 {
					minute := time.Duration(bits.TrailingZeros64(minutes)) * time.Minute
					if at := s.moment(day.Add(hour + minute)); at.After(after) {
						return at
					}
				}
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// on reports whether a day is one of the schedule.
func (s Schedule) on(day time.Time) bool {
	if s.months&(1<<day.Month()) == 0 {
		return false
	}
	date, weekday := s.days&(1<<day.Day()) != 0, s.weekdays&(1<<day.Weekday()) != 0
	if s.either {
		return date || weekday
	}
	return date && weekday
}

// moment returns when clocks show a wall time, which is given as if it were UTC: the first time if they show it twice,
// and the moment at which they skip it if they never do. A later wall time is never an earlier moment.
func (s Schedule) moment(wall time.Time) time.Time {
	// No zone is more than 26 hours away from another, so none of its periods that may show it ended before.
	at := wall.Add(-26 * time.Hour).In(s.zone)
	for {
		start, end := at.ZoneBounds()
		_, offset := at.Zone()
		shown := wall.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || shown.Before(end) {
			if shown.Before(start) {
				return start.UTC()
			}
			return shown.UTC()
		}
		at = end
	}
}
