package recurring

import (
	"fmt"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/cron"
)

// Plan finds the occurrences of a Timetable.
type Plan struct {
	times        cron.Schedule
	zone         *time.Location
	starts, ends time.Time
}

// maxCount limits Timetable.Count.
const maxCount = 1_000_000

// NewPlan validates a timetable.
func NewPlan(t notify.Timetable) (Plan, error) {
	var problems []string
	zone, err := cron.Zone(t.Zone)
	if err != nil {
		problems = append(problems, `"zone": `+err.Error())
		zone = time.UTC
	}
	p := Plan{zone: zone, starts: t.Starts, ends: t.Ends}
	if p.times, err = cron.Parse(t.Cron, zone); err != nil {
		problems = append(problems, `"cron": `+err.Error())
	}
	if t.Count < 0 || t.Count > maxCount {
		problems = append(problems, fmt.Sprintf(`"count" must be a number from 1 to %d`, maxCount))
	}
	if !t.Starts.IsZero() && !t.Ends.IsZero() && t.Ends.Before(t.Starts) {
		problems = append(problems, `"ends_at" is before "starts_at"`)
	}
	return p, fault.Invalid(problems...)
}

// Next returns the first occurrence after a time; zero if there is none.
func (p Plan) Next(after time.Time) time.Time {
	if before := p.starts.Add(-1); !p.starts.IsZero() && after.Before(before) {
		after = before
	}
	at := p.times.Next(after)
	if !p.ends.IsZero() && at.After(p.ends) {
		return time.Time{}
	}
	return at
}

// Times returns the next occurrences of a recurring send that is active, at most n, in its time zone.
func Times(r *notify.Recurring, n int) []time.Time {
	if r.Next.IsZero() {
		return nil
	}
	p, err := NewPlan(r.Timetable)
	if err != nil {
		return []time.Time{r.Next}
	}
	list := []time.Time{r.Next.In(p.zone)}
	if r.Count > 0 {
		n = min(n, r.Count-r.Runs)
	}
	for len(list) < n {
		next := p.Next(list[len(list)-1])
		if next.IsZero() {
			break
		}
		list = append(list, next.In(p.zone))
	}
	return list
}

// Begin sets State and Next of a recurring send that is to be active from now on: it ends if nothing is left.
func Begin(r *notify.Recurring, now time.Time) error {
	p, err := NewPlan(r.Timetable)
	if err != nil {
		return err
	}
	// What was sent is not sent again if the clock was set back since.
	r.Next, r.State = p.Next(later(now, r.LastDue)), notify.RecurringActive
	if r.Count > 0 && r.Runs >= r.Count {
		r.Next = time.Time{}
	}
	if r.Next.IsZero() {
		r.State = notify.RecurringEnded
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
