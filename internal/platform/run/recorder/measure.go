package recorder

import (
	"context"
	"time"

	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/run/controller/usage"
	"ingot/internal/platform/series"
)

// measure returns what apps and the platform did since the last call, by app and scope. Nothing is measured
// where nothing runs and nothing was requested.
func (r *Recorder) measure(ctx context.Context, now time.Time) map[string]map[string]*sums {
	found := map[string]map[string]*sums{}
	r.measureApps(ctx, now, found)
	r.measurePlatform(found)
	return found
}

func (r *Recorder) measureApps(ctx context.Context, now time.Time, found map[string]map[string]*sums) {
	running, stats, crashes := r.Running(), r.Requests(), r.takeCrashes()
	if len(running) == 0 && len(stats) == 0 && len(crashes) == 0 {
		clear(r.last)
		return
	}
	types := r.typesOf(ctx, running, stats)
	seen := make(map[string]bool, len(running)+len(stats))
	for i := range stats {
		seen[stats[i].Instance] = true
		delta := r.requests(&stats[i])
		if delta.empty() {
			continue
		}
		each(found, stats[i].App, types[stats[i].Process], stats[i].Index, func(s *sums) { s.add(&delta) })
	}
	guids := make([]string, 0, len(running))
	for i := range running {
		guids = append(guids, running[i].Instance)
		seen[running[i].Instance] = true
	}
	var used map[string]usage.Usage
	if len(guids) > 0 {
		used = r.Usage(ctx, guids...)
	}
	for i := range running {
		if u, ok := used[running[i].Instance]; ok {
			level := r.usage(&running[i], u, now)
			each(found, running[i].App, running[i].Type, running[i].Index, func(s *sums) { s.add(&level) })
		}
	}
	for key, n := range crashes {
		each(found, key.app, key.process, key.index, func(s *sums) { s.crashes += n })
	}
	for guid := range r.last {
		if !seen[guid] {
			delete(r.last, guid)
		}
	}
}

// each calls add for the scopes of an instance: its app, its process and itself, and the sum of all apps.
func each(found map[string]map[string]*sums, app, process string, index int, add func(*sums)) {
	add(at(found, series.Platform, ""))
	if s := at(found, app, ""); s != nil {
		add(s)
	}
	if process == "" {
		return // it is gone, and its type with it
	}
	if s := at(found, app, process); s != nil {
		add(s)
	}
	if index >= 0 && index < maxIndex {
		if s := at(found, app, series.Scope(process, index)); s != nil {
			add(s)
		}
	}
}

// at returns the sums of a scope; nil if the app has too many.
func at(found map[string]map[string]*sums, app, scope string) *sums {
	scopes := found[app]
	if scopes == nil {
		scopes = map[string]*sums{}
		found[app] = scopes
	}
	s := scopes[scope]
	if s == nil && (len(scopes) < maxScopes || scope == "") {
		s = &sums{}
		scopes[scope] = s
	}
	return s
}

func (r *Recorder) lastOf(instance string) *last {
	l := r.last[instance]
	if l == nil {
		l = &last{}
		r.last[instance] = l
	}
	return l
}

// requests returns the requests to an instance since the last call.
func (r *Recorder) requests(s *router.Stats) (delta sums) {
	l := r.lastOf(s.Instance)
	if s.Requests == l.stats.Requests {
		return delta
	}
	if s.Requests < l.stats.Requests {
		l.stats = router.Stats{} // the counters were dropped, and begin again
	}
	delta.requests.Requests = s.Requests - l.stats.Requests
	for i, n := range s.Classes {
		delta.classes[i] = max(0, n-l.stats.Classes[i])
	}
	for i, n := range s.Buckets {
		delta.requests.Buckets[i] = max(0, n-l.stats.Buckets[i])
	}
	l.stats = *s
	return delta
}

// usage returns what an instance used since the last call.
func (r *Recorder) usage(one *controller.Running, u usage.Usage, now time.Time) sums {
	l := r.lastOf(one.Instance)
	s := sums{measured: 1, instances: 1, cpu: u.CPU, memory: float64(u.Memory), disk: float64(u.Disk)}
	if passed := now.Sub(l.at); l.known && passed > 0 {
		s.cpu = max(0, float64(u.CPUTime-l.cpu)/float64(passed))
	}
	s.output = max(0, u.Written-l.written)
	l.cpu, l.written, l.at, l.known = u.CPUTime, u.Written, now, true
	return s
}
