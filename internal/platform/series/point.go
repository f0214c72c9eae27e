package series

import "math"

// Field is one figure of a point.
type Field int

// The fields. Counts are sums over the time of a point, levels are averages over it.
const (
	Status2xx   Field = iota // requests, by the class of their answer
	Status3xx                //
	Status4xx                //
	Status5xx                //
	StatusOther              // requests with another status, or without one
	P50                      // seconds that half of the requests did not exceed
	P95                      //
	P99                      //
	CPU                      // processors
	Memory                   // bytes
	Disk                     // bytes
	Crashes                  // of instances; restarts by users are none
	LogBytes                 // bytes of output
	Instances                // that were measured
	fields
)

// kind says how values of a field are combined.
type kind int

const (
	count   kind = iota // added
	level               // averaged over time, the larger one of two servers
	latency             // averaged, by the number of requests
)

var kinds = [fields]kind{
	P50: latency, P95: latency, P99: latency, CPU: level, Memory: level, Disk: level, Instances: level,
}

// Point has the values of all fields for a time. A value that was not measured is not a number.
type Point [fields]float64

// None returns a point without values.
func None() Point {
	var p Point
	for f := range p {
		p[f] = math.NaN()
	}
	return p
}

// Has reports whether a field was measured.
func (p *Point) Has(f Field) bool { return !math.IsNaN(p[f]) }

// Empty reports whether nothing was measured.
func (p *Point) Empty() bool {
	for f := range p {
		if !math.IsNaN(p[f]) {
			return false
		}
	}
	return true
}

// Requests returns the number of requests.
func (p *Point) Requests() float64 {
	sum := 0.0
	for f := Status2xx; f <= StatusOther; f++ {
		if p.Has(f) {
			sum += p[f]
		}
	}
	return sum
}

// merge combines two points; levels is used for fields that are levels.
func (p *Point) merge(other *Point, levels func(x, y float64) float64) {
	mine, theirs := p.Requests(), other.Requests()
	for f := range p {
		x, y := p[f], other[f]
		switch {
		case math.IsNaN(y):
		case math.IsNaN(x):
			p[f] = y
		case kinds[f] == count:
			p[f] = x + y
		case kinds[f] == level:
			p[f] = levels(x, y)
		case mine+theirs > 0:
			p[f] = (x*mine + y*theirs) / (mine + theirs)
		default:
			p[f] = max(x, y)
		}
	}
}

// mean is the point of several consecutive ones.
type mean struct {
	sum    Point
	levels [fields]int
}

func newMean() mean { return mean{sum: None()} }

func (m *mean) add(p *Point) {
	for f := range m.levels {
		if kinds[f] == level && p.Has(Field(f)) {
			m.levels[f]++
		}
	}
	m.sum.merge(p, func(x, y float64) float64 { return x + y })
}

func (m *mean) point() Point {
	p := m.sum
	for f, n := range m.levels {
		if n > 1 {
			p[f] /= float64(n)
		}
	}
	return p
}

// Points are the points of a scope: the first begins at Start, in Unix seconds, and each has Step
// seconds.
type Points struct {
	Start, Step int64
	All         []Point
}

// At returns the time of a point.
func (p Points) At(i int) int64 { return p.Start + int64(i)*p.Step }

// Coarser returns the points of a larger step, which is a multiple of the points' own. They begin
// at multiples of it.
func (p Points) Coarser(step int64) Points {
	if step <= p.Step || len(p.All) == 0 {
		return p
	}
	out := Points{Start: floor(p.Start, step), Step: step}
	for i := 0; i < len(p.All); {
		slot := floor(p.At(i), step)
		sum := newMean()
		for ; i < len(p.All) && floor(p.At(i), step) == slot; i++ {
			sum.add(&p.All[i])
		}
		out.All = append(out.All, sum.point())
	}
	return out
}

// AtMost returns n points at most, of a step that is a multiple of the points' own. They begin at multiples of it, but
// a single point begins where the points do.
func (p Points) AtMost(n int) Points {
	if n < 1 || len(p.All) <= n {
		return p
	}
	if n == 1 {
		sum := newMean()
		for i := range p.All {
			sum.add(&p.All[i])
		}
		return Points{Start: p.Start, Step: int64(len(p.All)) * p.Step, All: []Point{sum.point()}}
	}
	// Steps that begin at their multiples may need one more than the points fill.
	step := p.Step * int64((len(p.All)+n-1)/n)
	for (floor(p.At(len(p.All)-1), step)-floor(p.Start, step))/step >= int64(n) {
		step += p.Step
	}
	return p.Coarser(step)
}

// floor rounds a time down to a multiple of step.
func floor(t, step int64) int64 {
	rest := t % step
	if rest < 0 {
		rest += step
	}
	return t - rest
}
