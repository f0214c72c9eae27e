package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify/cron"
)

// QuietHours are when a user does not want to be disturbed: a part of some days, on the clocks of a zone. Messages that
// are due then wait until it ends, except critical ones. NewQuietHours makes them; they must not be changed.
type QuietHours struct {
	// From and To are times of day such as 22:00. If To is not later, it is on the next day.
	From string `json:"from"`
	To   string `json:"to"`
	// Zone is a name in the IANA database.
	Zone string `json:"zone"`
	// Days are those on which they begin, such as mon; none means every day.
	Days []string `json:"days,omitempty"`
	// Channels are those that wait; none means all but the Inbox, also later ones.
	Channels []ChannelID `json:"channels,omitempty"`

	from, to time.Duration // after midnight
	days     uint8         // a bit for each time.Weekday
	zone     *time.Location
}

// weekdays are the names of days, from Sunday as in package time.
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

const everyDay = 1<<7 - 1

// zones are the time zones that were used: reading one takes longer than everything else about a message.
var zones sync.Map

func zoneOf(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil //nolint:forcetypeassert // nothing else is stored
	}
	zone, err := cron.Zone(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// clockTime reads a time of day.
func clockTime(text string) (time.Duration, bool) {
	if len(text) != len("22:00") {
		return 0, false
	}
	at, err := time.Parse("15:04", text)
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, err == nil
}

// NewQuietHours returns quiet hours, or an error that says what is wrong, with the path of each field.
func NewQuietHours(from, to, zone string, days, channels []string) (*QuietHours, error) {
	var problems []string
	add := func(field, problem string) { problems = append(problems, "quiet_hours."+field+": "+problem) }
	q := &QuietHours{From: from, To: to, Zone: zone}
	var ok bool
	const times = "it must be a time of day from 00:00 to 23:59, such as 22:00"
	if q.from, ok = clockTime(from); !ok {
		add("from", times)
	}
	if q.to, ok = clockTime(to); !ok {
		add("to", times)
	}
	var err error
	if q.zone, err = zoneOf(zone); err != nil {
		add("zone", err.Error())
	}
	for _, day := range days {
		i := slices.Index(weekdays, strings.ToLower(day))
		if i < 0 {
			add("days", "they must be sun, mon, tue, wed, thu, fri or sat")
			break
		}
		q.days |= 1 << i
	}
	if q.days == 0 || q.days == everyDay {
		q.days = everyDay
	} else {
		for i := range weekdays { // from Monday
			if day := (i + 1) % len(weekdays); q.days&(1<<day) != 0 {
				q.Days = append(q.Days, weekdays[day])
			}
		}
	}
	if q.days == everyDay && q.from == q.to && len(problems) == 0 {
		add("to", "the quiet hours would never end: turn kinds or channels off instead")
	}
	if len(channels) > 0 {
		set, err := ParseChannels(channels)
		var wrong *fault.Error
		switch {
		case errors.As(err, &wrong):
			for _, problem := range wrong.Messages() {
				add("channels", problem)
			}
		case slices.Contains(set.List(), Chat):
			add("channels", "a chat is a room that others read: it does not wait for one of them")
		default:
			q.Channels = set.List()
		}
	}
	return q, fault.Invalid(problems...)
}

// ReadQuietHours reads what json.Marshal wrote.
func ReadQuietHours(text []byte) (*QuietHours, error) {
	var q QuietHours
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, err
	}
	names := make([]string, len(q.Channels))
	for i, id := range q.Channels {
		names[i] = id.String()
	}
	return NewQuietHours(q.From, q.To, q.Zone, q.Days, names)
}

// String describes them: "22:00 to 07:00 (Europe/Berlin) on mon, tue".
func (q *QuietHours) String() string {
	text := fmt.Sprintf("%s to %s (%s)", q.From, q.To, q.Zone)
	if len(q.Days) > 0 {
		text += " on " + strings.Join(q.Days, ", ")
	}
	if len(q.Channels) > 0 {
		text += ", only " + strings.Join(ChannelsOf(q.Channels...).Names(), ", ")
	}
	return text
}

// Holds reports whether messages of a channel wait.
func (q *QuietHours) Holds(by ChannelID) bool {
	if len(q.Channels) == 0 {
		return by != Inbox && by != Chat
	}
	return slices.Contains(q.Channels, by)
}

// Until returns when the quiet hours end that a time is in; zero if it is in none. Where clocks are set back, they
// begin when clocks show their beginning first, and end when clocks show their end last. Where clocks skip one of the
// two, it is the moment of the skip.
func (q *QuietHours) Until(t time.Time) time.Time {
	end := t
	// With whole days, one may follow the other, for at most a week.
	for range 2 * len(weekdays) {
		next := q.after(end)
		if !next.After(end) {
			break
		}
		end = next
	}
	if end.Equal(t) {
		return time.Time{}
	}
	return end.UTC()
}

// after returns the latest end of those that a time is in, or the time.
func (q *QuietHours) after(t time.Time) time.Time {
	y, m, d := t.In(q.zone).Date()
	today := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	length := q.to - q.from
	if length <= 0 {
		length += 24 * time.Hour
	}
	latest := t
	for day := today.AddDate(0, 0, -2); !day.After(today.AddDate(0, 0, 1)); day = day.AddDate(0, 0, 1) {
		if q.days&(1<<day.Weekday()) == 0 {
			continue
		}
		begin := day.Add(q.from)
		start, _ := cron.Moments(begin, q.zone)
		_, end := cron.Moments(begin.Add(length), q.zone)
		if !t.Before(start) && end.After(latest) {
			latest = end
		}
	}
	return latest
}

// Held reports whether quiet hours apply to a send: to what a user can unsubscribe from.
func (s *Send) Held() bool { return !s.Critical && s.Preferred().KindID != "" }
