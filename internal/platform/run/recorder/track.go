package recorder

import (
	"math"
	"slices"

	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/series"
)

const (
	// maxIndex is the number of instances of a process with their own points, and maxScopes
	// that of all scopes of an app. Others count for their process and their app.
	maxIndex  = 32
	maxScopes = 60
	// maxPending is the number of points of a scope that wait to be written, if the database
	// cannot be written to: ten minutes, and two hours of the coarser ones.
	maxPending = 60
)

// sums are what is measured of a scope during a time.
type sums struct {
	classes  [6]int64
	requests router.Stats // only its buckets
	crashes  int64
	output   int64

	measured  int // times that levels were measured
	instances float64
	cpu       float64
	memory    float64
	disk      float64
}

// add adds what was measured later.
func (s *sums) add(more *sums) {
	for i, n := range more.classes {
		s.classes[i] += n
	}
	s.requests.Requests += more.requests.Requests
	for i, n := range more.requests.Buckets {
		s.requests.Buckets[i] += n
	}
	s.crashes += more.crashes
	s.output += more.output
	s.measured += more.measured
	s.instances += more.instances
	s.cpu += more.cpu
	s.memory += more.memory
	s.disk += more.disk
}

// empty reports whether nothing was measured.
func (s *sums) empty() bool {
	return s.measured == 0 && s.requests.Requests == 0 && s.crashes == 0 && s.output == 0
}

// point returns the point of the time.
func (s *sums) point() series.Point {
	p := series.None()
	for class, f := range map[int]series.Field{2: series.Status2xx, 3: series.Status3xx, 4: series.Status4xx,
		5: series.Status5xx} {
		p[f] = float64(s.classes[class])
	}
	p[series.StatusOther] = float64(s.classes[0] + s.classes[1])
	p[series.Crashes], p[series.LogBytes] = float64(s.crashes), float64(s.output)
	if s.requests.Requests > 0 {
		p[series.P50] = s.requests.Quantile(0.5).Seconds()
		p[series.P95] = s.requests.Quantile(0.95).Seconds()
		p[series.P99] = s.requests.Quantile(0.99).Seconds()
	}
	if s.measured > 0 {
		n := float64(s.measured)
		p[series.Instances], p[series.CPU] = math.Round(s.instances/n*10)/10, s.cpu/n
		p[series.Memory], p[series.Disk] = s.memory/n, s.disk/n
	}
	return p
}

// coarse is the point of a coarser resolution that is being measured.
type coarse struct {
	at   int64
	sums map[string]*sums
}

// track is what is known of an app.
type track struct {
	minute, quarter coarse
	pending         [3][]series.Timed // by the ID of the resolution
	written         [3]bool           // since the start
	since           int64             // the time of the first point
}

// measured adds what was measured in 10 seconds, by scope. A level was measured once for a scope,
// however many instances it has.
func (t *track) measured(at int64, now map[string]*sums) {
	for scope, s := range now {
		s.measured = min(s.measured, 1)
		t.wait(series.Seconds, series.Timed{At: at, Scope: scope, Point: s.point()})
	}
	for _, one := range []struct {
		c *coarse
		r series.Resolution
	}{{&t.minute, series.Minutes}, {&t.quarter, series.Quarters}} {
		if one.c.sums == nil {
			one.c.at, one.c.sums = at-at%one.r.Step, map[string]*sums{}
		}
		for scope, s := range now {
			sum := one.c.sums[scope]
			if sum == nil {
				if len(one.c.sums) >= maxScopes {
					continue
				}
				sum = &sums{}
				one.c.sums[scope] = sum
			}
			sum.add(s)
		}
	}
}

// finish ends the points of coarser resolutions that are over at a time, or all of them.
func (t *track) finish(now int64, all bool) {
	for _, one := range []struct {
		c *coarse
		r series.Resolution
	}{{&t.minute, series.Minutes}, {&t.quarter, series.Quarters}} {
		over := now >= one.c.at+one.r.Step || now < one.c.at // or the clock was set back
		if one.c.sums == nil || !over && !all {
			continue
		}
		for scope, s := range one.c.sums {
			t.wait(one.r, series.Timed{At: one.c.at, Scope: scope, Point: s.point()})
		}
		one.c.sums = nil
	}
}

// wait lets a point wait to be written. The oldest are dropped if too many wait.
func (t *track) wait(r series.Resolution, p series.Timed) {
	t.pending[r.ID] = append(t.pending[r.ID], p)
	if most, n := maxPending*maxScopes/4, len(t.pending[r.ID]); n > most {
		t.pending[r.ID] = slices.Delete(t.pending[r.ID], 0, n-most)
	}
}

// additions returns what waits in the resolutions that are due.
func (t *track) additions(app string, due func(series.Resolution) bool) (more []series.Addition) {
	for _, r := range series.Resolutions() {
		if len(t.pending[r.ID]) > 0 && due(r) {
			a := series.Addition{App: app, Resolution: r, Points: slices.Clone(t.pending[r.ID])}
			if !t.written[r.ID] {
				a.Since = t.since
			}
			more = append(more, a)
		}
	}
	return more
}

// stored forgets points that were written.
func (t *track) stored(a *series.Addition) {
	t.written[a.Resolution.ID] = true
	left := t.pending[a.Resolution.ID]
	left = left[min(len(left), len(a.Points)):]
	t.pending[a.Resolution.ID] = append([]series.Timed(nil), left...)
}

// idle reports whether nothing waits or is being measured.
func (t *track) idle() bool {
	for _, list := range t.pending {
		if len(list) > 0 {
			return false
		}
	}
	return t.minute.sums == nil && t.quarter.sums == nil
}
