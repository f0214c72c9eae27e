package series

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Stored is a block as it is stored.
type Stored struct {
	Server     string // that measured
	Resolution int    // its ID
	Start      int64
	Data       []byte
}

// History are the points of an app in a time span: blocks of all servers and resolutions, merged.
type History struct {
	from, to, step int64
	servers        []string
	byServer       map[string][]*Block
	// Scopes are those that have points in this time, sorted.
	Scopes []string
}

// Range is a time span that users ask for, with the step of its points.
type Range struct {
	Name   string
	Length int64 // seconds
	Step   int64
}

// Ranges are the time spans, the shortest first.
var Ranges = []Range{
	{"1h", 3600, Seconds.Step}, {"24h", 86400, Minutes.Step}, {"7d", 7 * 86400, Quarters.Step},
	{"30d", 30 * 86400, Quarters.Step},
}

// Window returns the first and the last point of the range at a time: the last is complete.
func (r Range) Window(now int64) (from, to int64) {
	to = floor(now, r.Step)
	return to - r.Length, to
}

// Merge returns the history between two times in a step, which is that of a resolution. Where a server has
// stored no point of that resolution yet, finer ones are used. A damaged block is left out.
func Merge(blocks []Stored, from, to, step int64) *History {
	h, names := &History{from: from, to: to, step: step, byServer: map[string][]*Block{}}, map[string]bool{}
	for _, one := range blocks {
		if one.Resolution < 0 || one.Resolution > Quarters.ID {
			continue
		}
		r := Resolutions()[one.Resolution]
		if r.Step > step || one.Start+r.Span() <= from || one.Start >= to {
			continue
		}
		b, err := Decode(r, one.Start, one.Data)
		if err != nil {
			continue
		}
		h.byServer[one.Server] = append(h.byServer[one.Server], b)
		for name := range b.scopes {
			names[name] = true
		}
	}
	h.servers, h.Scopes = slices.Sorted(maps.Keys(h.byServer)), slices.Sorted(maps.Keys(names))
	return h
}

// Points returns the points of a scope of an app. An instance is measured by one server at a time, so the largest
// of the servers' levels counts.
func (h *History) Points(scope string) Points { return h.points(scope, math.Max) }

// Sum returns the points of a scope whose levels are to be added: each server measures a part.
func (h *History) Sum(scope string) Points {
	return h.points(scope, func(x, y float64) float64 { return x + y })
}

func (h *History) points(scope string, levels func(x, y float64) float64) Points {
	out := empty(h.from, h.step, int((h.to-h.from)/h.step))
	for _, server := range h.servers {
		found := ofServer(h.byServer[server], scope, h.from, h.to, h.step)
		for i := range out.All {
			out.All[i].merge(&found.All[i], levels)
		}
	}
	return out
}

// ofServer returns the points of one server. Those of the coarsest resolution that is fine enough
// come first; finer ones fill its gaps.
func ofServer(blocks []*Block, scope string, from, to, step int64) Points {
	out := empty(from, step, int((to-from)/step))
	all := Resolutions()
	slices.SortFunc(all, func(x, y Resolution) int { return cmp.Compare(y.Step, x.Step) })
	for _, r := range all {
		if r.Step > step {
			continue
		}
		// Fine points are only kept for a short time: those of the whole range would be mostly empty, and many.
		first, last := to, from
		for _, b := range blocks {
			if b.resolution.ID == r.ID && b.scopes[scope] != nil {
				first, last = min(first, b.start), max(last, b.start+r.Span())
			}
		}
		first, last = max(from, floor(first-from, step)+from), min(to, last)
		if first >= last {
			continue
		}
		found := empty(first, r.Step, int((last-first+r.Step-1)/r.Step))
		for _, b := range blocks {
			if b.resolution.ID == r.ID && b.scopes[scope] != nil {
				found.put(b, scope)
			}
		}
		before := int((first - from) / step)
		for i, p := range found.Coarser(step).All {
			if before+i < len(out.All) && out.All[before+i].Empty() {
				out.All[before+i] = p
			}
		}
	}
	return out
}

// put adds the points of a block, which have the same step.
func (p Points) put(b *Block, scope string) {
	for i, codes := range b.scopes[scope] {
		at := b.start + int64(i)*b.resolution.Step
		if at >= p.Start && codes != (row{}) {
			if n := (at - p.Start) / p.Step; n < int64(len(p.All)) {
				p.All[n] = codes.point()
			}
		}
	}
}

func empty(from, step int64, n int) Points {
	all := make([]Point, n)
	for i := range all {
		all[i] = None()
	}
	return Points{Start: from, Step: step, All: all}
}
