package httpext

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/cron"
)

// invitationBody is an invitation. Its texts are checked where sends are accepted.
type invitationBody struct {
	Method string `json:"method"`
	UID    string `json:"uid"`
	// Start and End are times with an offset, times in Zone, or dates; Duration may replace End.
	Start       string           `json:"start"`
	End         string           `json:"end"`
	Duration    string           `json:"duration"`
	Zone        string           `json:"zone"`
	Sequence    int              `json:"sequence"`
	Summary     string           `json:"summary"` // the subject, if it is omitted
	Location    string           `json:"location"`
	Description string           `json:"description"`
	Organizer   notify.Organizer `json:"organizer"`
}

const day = 24 * time.Hour

// event returns what a body asks for, nil for none.
func (b *invitationBody) event(subject string) (*notify.Invitation, error) {
	if b == nil {
		return nil, nil
	}
	e := &notify.Invitation{Method: notify.EventMethod(b.Method), UID: b.UID, Sequence: b.Sequence, Summary: b.Summary,
		Location: b.Location, Description: b.Description, Organizer: b.Organizer}
	if b.Method == "" {
		e.Method = notify.RequestEvent
	}
	if e.Summary == "" {
		e.Summary = strings.TrimSpace(subject)
	}
	if e.Organizer.Name != "" && e.Organizer.Email == "" {
		return nil, fault.Invalid(`"event.organizer" needs an "email"`)
	}
	var err error
	if e.Start, e.AllDay, err = b.moment("start", b.Start); err != nil {
		return nil, err
	}
	switch {
	case b.End != "" && b.Duration != "":
		return nil, fault.Invalid(`give either "event.end" or "event.duration", not both`)
	case b.End != "":
		var days bool
		if e.End, days, err = b.moment("end", b.End); err == nil && days != e.AllDay {
			err = fault.Invalid(`"event.start" and "event.end" must both be dates, or both times`)
		}
	case b.Duration != "":
		var d time.Duration
		if d, err = time.ParseDuration(b.Duration); err != nil || d <= 0 || e.AllDay && d%day != 0 {
			err = fault.Invalid(`"event.duration" must be a duration such as 45m or 1h30m, and for dates 24h, 48h and so on`)
		}
		e.End = e.Start.Add(d)
	case e.AllDay:
		e.End = e.Start.Add(day)
	default:
		err = fault.Invalid(`"event.end" or "event.duration" is required`)
	}
	return e, err
}

// moment returns a time, or a date in UTC.
func (b *invitationBody) moment(name, text string) (at time.Time, date bool, err error) {
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at, true, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil && b.Zone == "" {
		return at.UTC().Truncate(time.Second), false, nil
	}
	if b.Zone == "" {
		return at, false, fault.Invalid(fmt.Sprintf(`"event.%s" must be a date, a time with an offset such as `+
			`2026-12-24T18:00:00+01:00, or a time such as 2026-12-24T18:00 with a "zone"`, name))
	}
	zone, err := cron.Zone(b.Zone)
	if err != nil {
		return at, false, fault.Invalid(`"event.zone": ` + err.Error())
	}
	if at, err = localTime(text, zone); err != nil {
		return at, false, fault.Invalid(fmt.Sprintf(`"event.%s" %s`, name, err))
	}
	return at, false, nil
}

// localTime returns the moment at which clocks in a zone show a time. There is exactly one, or an error.
func localTime(text string, zone *time.Location) (time.Time, error) {
	const seconds, minutes = "2006-01-02T15:04:05", "2006-01-02T15:04"
	layout := seconds
	if len(text) == len(minutes) {
		layout = minutes
	}
	at, err := time.ParseInLocation(layout, text, zone)
	if err != nil {
		return at, errors.New(`must be a time such as 2026-12-24T18:00, without an offset, because "zone" is given`)
	}
	if at.Format(layout) != text {
		return at, fmt.Errorf("does not exist in %s: clocks skip it", zone)
	}
	const step, most = 30 * time.Minute, 3 * time.Hour // by which clocks are set back
	for d := -most; d <= most; d += step {
		if d != 0 && at.Add(d).Format(layout) == text {
			return at, fmt.Errorf("is shown twice by clocks in %s: give it with an offset, without \"zone\"", zone)
		}
	}
	return at.UTC(), nil
}
