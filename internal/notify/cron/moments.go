package cron

import "time"

// Moments returns when clocks in a zone show a wall time, which is given as if it were UTC: twice if they were set back
// meanwhile, otherwise both are the same. If they skip it, both are the moment of the skip.
func Moments(wall time.Time, zone *time.Location) (first, last time.Time) {
	// No zone is more than 26 hours away from another.
	const farthest = 26 * time.Hour
	for at := wall.Add(-farthest).In(zone); ; {
		start, end := at.ZoneBounds()
		_, offset := at.Zone()
		shown := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case shown.Before(start):
			if first.IsZero() {
				first, last = start.UTC(), start.UTC()
			}
			return first, last
		case end.IsZero() || shown.Before(end):
			if last = shown.UTC(); first.IsZero() {
				first = last
			}
		}
		if end.IsZero() || end.After(wall.Add(farthest)) {
			return first, last
		}
		at = end
	}
}
