package recorder

import "ingot/internal/platform/series"

// Figure is a figure of the platform.
type Figure struct {
	Scope string
	Field series.Field
	// Level means that the value is how it is now; otherwise it is a total since the start.
	Level bool
	Value float64
}

// measurePlatform adds what the platform did since the last call, if it did anything or apps run: an idle server
// writes nothing.
func (r *Recorder) measurePlatform(found map[string]map[string]*sums) {
	if r.Platform == nil {
		return
	}
	busy := len(found) > 0
	figures := r.Platform()
	for i := range figures {
		f := &figures[i]
		if !f.Level {
			total, key := f.Value, *f
			key.Value = 0
			f.Value = max(0, total-r.totals[key])
			r.totals[key] = total
		}
		busy = busy || f.Value > 0
	}
	if !busy {
		return
	}
	for _, f := range figures {
		s := at(found, series.Platform, f.Scope)
		s.measured = 1
		s.set(f.Field, f.Value)
	}
}

// set sets what a field of a point is made of.
func (s *sums) set(f series.Field, v float64) {
	switch f {
	case series.Status2xx:
		s.classes[2] = int64(v)
	case series.Status3xx:
		s.classes[3] = int64(v)
	case series.Status4xx:
		s.classes[4] = int64(v)
	case series.Status5xx:
		s.classes[5] = int64(v)
	case series.StatusOther:
		s.classes[0] = int64(v)
	case series.LogBytes:
		s.output = int64(v)
	case series.Memory:
		s.memory = v
	case series.CPU:
		s.cpu = v
	default: // no figure of the platform has it
	}
}
