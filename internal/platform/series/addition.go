package series

import (
	"maps"
	"slices"
)

// FillBack is how far back a coarser resolution is filled from a finer one, in seconds, after a server
// ended without writing its points.
const FillBack = 3600

// Addition are points to add to the blocks of an app in one resolution.
type Addition struct {
	App        string
	Resolution Resolution
	Points     []Timed
	// Since is when the server began to measure the app, if it adds to this resolution for the first
	// time: what is missing before is then filled from finer points. Otherwise it is 0.
	Since int64
}

// Timed is a point of a scope, with its time in Unix seconds.
type Timed struct {
	At    int64
	Scope string
	Point Point
}

// Fill returns the resolution whose points fill gaps, if any.
func (a *Addition) Fill() (finer Resolution, ok bool) {
	if a.Since == 0 || a.Resolution.ID == Seconds.ID {
		return Resolution{}, false
	}
	return Resolutions()[a.Resolution.ID-1], true
}

// Blocks returns the begins of the blocks to change. Points that would be removed at once are
// left out.
func (a *Addition) Blocks(now int64) []int64 {
	first, last := a.Resolution.Kept(now)
	starts := map[int64]bool{}
	for i := range a.Points {
		if start := a.Resolution.Block(a.Points[i].At); start >= first && start <= last {
			starts[start] = true
		}
	}
	return slices.Sorted(maps.Keys(starts))
}

// Apply returns a block with the points, by its begin, its previous content (nil if it is new), and
// blocks of the resolution of Fill. A damaged block is replaced.
func (a *Addition) Apply(start int64, old []byte, finer []Stored) []byte {
	b := NewBlock(a.Resolution, start)
	if old != nil {
		if known, err := Decode(a.Resolution, start, old); err == nil {
			b = known
		}
	}
	a.fill(b, finer)
	for i := range a.Points {
		if p := &a.Points[i]; a.Resolution.Block(p.At) == start {
			b.Add(p.Scope, p.At, &p.Point)
		}
	}
	return b.Encode()
}

// fill adds points that are missing before the server began to measure.
func (a *Addition) fill(b *Block, finer []Stored) {
	fine, ok := a.Fill()
	if !ok || len(finer) == 0 {
		return
	}
	from, to := floor(a.Since-FillBack, a.Resolution.Step), floor(a.Since, fine.Step)
	var blocks []*Block
	scopes := map[string]bool{}
	for _, one := range finer {
		if b, err := Decode(fine, one.Start, one.Data); err == nil {
			blocks = append(blocks, b)
			for scope := range b.scopes {
				scopes[scope] = true
			}
		}
	}
	for scope := range scopes {
		points := ofServer(blocks, scope, from, to, fine.Step).Coarser(a.Resolution.Step)
		for i := range points.All {
			if p := &points.All[i]; !p.Empty() && b.Missing(scope, points.At(i)) {
				b.Add(scope, points.At(i), p)
			}
		}
	}
}
