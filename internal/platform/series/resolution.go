package series

// Resolution is one of the resolutions in which points are kept.
type Resolution struct {
	// ID is stored.
	ID int
	// Step is the time of a point, and Keep is how long points are kept, in seconds.
	Step, Keep int64
	// Points is the number of points of a block, and Bytes bounds its encoded size.
	Points, Bytes int
}

// The resolutions: points of 10 seconds for an hour, of a minute for two days, and of a quarter of an
// hour for 30 days.
var (
	Seconds  = Resolution{ID: 0, Step: 10, Keep: 3600, Points: 60, Bytes: 4800}
	Minutes  = Resolution{ID: 1, Step: 60, Keep: 2 * 86400, Points: 120, Bytes: 3800}
	Quarters = Resolution{ID: 2, Step: 900, Keep: 30 * 86400, Points: 192, Bytes: 3200}
)

// Resolutions returns all, the finest first.
func Resolutions() []Resolution { return []Resolution{Seconds, Minutes, Quarters} }

const (
	// RowOverhead is what a block costs in a database beside its content: the keys, and their
	// index.
	RowOverhead = 150
	// Bound is the number of bytes that the series of an app cost at most.
	Bound = 200_000
)

// Span returns the time of a block in seconds.
func (r Resolution) Span() int64 { return r.Step * int64(r.Points) }

// Block returns the begin of the block that has the point of a time.
func (r Resolution) Block(t int64) int64 { return floor(t, r.Span()) }

// Kept returns the begins of the first and the last block that are kept at a time. Blocks after the
// last one were written while the clock was wrong.
func (r Resolution) Kept(now int64) (first, last int64) {
	return r.Block(now - r.Keep), r.Block(now + r.Step)
}
