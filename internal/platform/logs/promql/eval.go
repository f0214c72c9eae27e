package promql

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Sample is a value at a time.
type Sample struct {
	Time  time.Time
	Value float64
}

// Series are samples with the same labels, in order.
type Series struct {
	Labels  map[string]string
	Samples []Sample
}

// Source has the samples of metrics.
type Source interface {
	// Select returns the series of a metric of a source between two times, both included.
	Select(ctx context.Context, source, metric string, from, to time.Time) ([]Series, error)
}

const (
	// lookback is how old the value of an instant vector may be.
	lookback = 5 * time.Minute
	// maxSteps limits the steps of a range query, as Prometheus does.
	maxSteps = 11000
	// maxSamples limits the samples that a query reads, each counted every time, and so its processor time.
	maxSamples = 20_000_000
)

// Instant evaluates the query at a time. Each series of the result has one sample; scalar
// means that the query has no labels at all.
func (q *Query) Instant(ctx context.Context, s Source, at time.Time) (result []Series, scalar bool, err error) {
	e := &evaluator{ctx: ctx, source: s, from: at, to: at}
	v, err := e.eval(q.root, at)
	if err != nil {
		return nil, false, err
	}
	return v.series(at), v.scalar, nil
}

// Range evaluates the query at every step of a range.
func (q *Query) Range(ctx context.Context, s Source, from, to time.Time, step time.Duration) ([]Series, error) {
	switch {
	case to.Before(from):
		return nil, fmt.Errorf("end timestamp must not be before start time")
	case step <= 0:
		return nil, fmt.Errorf("zero or negative query resolution step widths are not accepted. Try a positive integer")
	case to.Sub(from)/step > maxSteps:
		return nil,
			fmt.Errorf("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution " +
				"(?step=XX)")
	}
	e := &evaluator{ctx: ctx, source: s, from: from, to: to}
	all := map[string]*Series{}
	for at := from; !at.After(to); at = at.Add(step) {
		v, err := e.eval(q.root, at)
		if err != nil {
			return nil, err
		}
		for _, one := range v.series(at) {
			key := keyOf(one.Labels)
			if all[key] == nil {
				all[key] = &Series{Labels: one.Labels}
			}
			all[key].Samples = append(all[key].Samples, one.Samples...)
		}
	}
	out := make([]Series, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[key])
	}
	return out, nil
}

// value is the result of a node: a scalar, or a vector.
type value struct {
	scalar  bool
	number  float64
	vectors []element
}

type element struct {
	labels map[string]string
	value  float64
}

func (v value) series(at time.Time) []Series {
	if v.scalar {
		return []Series{{Labels: map[string]string{}, Samples: []Sample{{at, v.number}}}}
	}
	out := make([]Series, 0, len(v.vectors))
	for _, e := range v.vectors {
		out = append(out, Series{Labels: e.labels, Samples: []Sample{{at, e.value}}})
	}
	slices.SortFunc(out, func(a, b Series) int { return strings.Compare(keyOf(a.Labels), keyOf(b.Labels)) })
	return out
}

func keyOf(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(name + "\x00" + labels[name] + "\x00")
	}
	return b.String()
}

type evaluator struct {
	ctx      context.Context //nolint:containedctx // of one evaluation
	source   Source
	from, to time.Time
	read     map[*selector][]Series // what selectors need over the whole range
	samples  int                    // that were read
}

// ErrTooMuch means that a query reads too many samples.
var ErrTooMuch = fmt.Errorf(
	"the query reads more than %d samples: use a shorter time, a larger step or a shorter range", maxSamples)

// spend counts samples that are read.
func (e *evaluator) spend(n int) error {
	if e.samples += n; e.samples > maxSamples {
		return ErrTooMuch
	}
	return e.ctx.Err()
}

func (e *evaluator) eval(n node, at time.Time) (value, error) {
	switch n := n.(type) {
	case literal:
		return value{scalar: true, number: float64(n)}, nil
	case *selector:
		return e.instant(n, at)
	case *negative:
		v, err := e.eval(n.of, at)
		return v.each(func(x float64) float64 { return -x }), err
	case *call:
		return e.call(n, at)
	case *aggregate:
		v, err := e.eval(n.of, at)
		return n.apply(v), err
	case *binary:
		left, err := e.eval(n.left, at)
		if err != nil {
			return value{}, err
		}
		right, err := e.eval(n.right, at)
		if err != nil {
			return value{}, err
		}
		return n.apply(left, right)
	}
	return value{}, fmt.Errorf("unknown expression %T", n)
}

func (v value) each(f func(float64) float64) value {
	if v.scalar {
		v.number = f(v.number)
		return v
	}
	out := value{vectors: make([]element, len(v.vectors))}
	for i, e := range v.vectors {
		out.vectors[i] = element{e.labels, f(e.value)}
	}
	return out
}

// selected returns the series of a selector, read once for the whole evaluation.
func (e *evaluator) selected(s *selector) ([]Series, error) {
	if have, ok := e.read[s]; ok {
		return have, nil
	}
	span := max(s.span, lookback)
	all, err := e.source.Select(e.ctx, s.source, s.name, e.from.Add(-s.offset-span), e.to.Add(-s.offset))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(one Series) bool {
		return slices.ContainsFunc(s.matchers, func(m Matcher) bool { return !m.Matches(one.Labels[m.Label]) })
	})
	for _, one := range all {
		if err := e.spend(len(one.Samples)); err != nil {
			return nil, err
		}
	}
	if e.read == nil {
		e.read = map[*selector][]Series{}
	}
	e.read[s] = all
	return all, nil
}

// window returns the samples after from and up to to.
func window(all []Sample, from, to time.Time) []Sample {
	low, _ := slices.BinarySearchFunc(all, from, func(s Sample, t time.Time) int {
		if s.Time.After(t) {
			return 1
		}
		return -1
	})
	high, _ := slices.BinarySearchFunc(all, to, func(s Sample, t time.Time) int {
		if s.Time.After(t) {
			return 1
		}
		return -1
	})
	return all[low:high]
}

func (e *evaluator) instant(s *selector, at time.Time) (value, error) {
	all, err := e.selected(s)
	var out value
	if err := e.spend(len(all)); err != nil {
		return out, err
	}
	for _, one := range all {
		to := at.Add(-s.offset)
		if in := window(one.Samples, to.Add(-lookback), to); len(in) > 0 {
			out.vectors = append(out.vectors, element{one.Labels, in[len(in)-1].Value})
		}
	}
	return out, err
}

func (e *evaluator) call(c *call, at time.Time) (value, error) {
	if f := plain[c.name]; f != nil {
		v, err := e.eval(c.args[0], at)
		return v.each(f), err
	}
	s, _ := c.args[0].(*selector)
	all, err := e.selected(s)
	var out value
	for _, one := range all {
		to := at.Add(-s.offset)
		in := window(one.Samples, to.Add(-s.span), to)
		if err := e.spend(len(in)); err != nil {
			return out, err
		}
		if v, ok := ranged[c.name](in, s.span); ok {
			out.vectors = append(out.vectors, element{one.Labels, v})
		}
	}
	return out, err
}

func (a *aggregate) apply(v value) value {
	type group struct {
		labels map[string]string
		values []float64
	}
	groups := map[string]*group{}
	for _, e := range v.vectors {
		labels := map[string]string{}
		for name, x := range e.labels {
			if !a.all && slices.Contains(a.labels, name) != a.without {
				labels[name] = x
			}
		}
		key := keyOf(labels)
		if groups[key] == nil {
			groups[key] = &group{labels: labels}
		}
		groups[key].values = append(groups[key].values, e.value)
	}
	var out value
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		out.vectors = append(out.vectors, element{g.labels, combine(a.name, g.values)})
	}
	return out
}

// combine combines values, of which there is at least one.
func combine(how string, values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	switch how {
	case "avg":
		return sum / float64(len(values))
	case "min":
		return slices.Min(values)
	case "max":
		return slices.Max(values)
	case "count":
		return float64(len(values))
	}
	return sum
}

// apply applies an operator. Two vectors are matched by all their labels.
func (b *binary) apply(left, right value) (value, error) {
	compares := precedence[b.op] == 1
	if left.scalar && right.scalar {
		if compares && !b.boolean {
			return value{}, fmt.Errorf("comparisons between scalars must use BOOL modifier")
		}
		v, _ := operate(b.op, left.number, right.number, true)
		return value{scalar: true, number: v}, nil
	}
	var out value
	add := func(labels map[string]string, x, y, kept float64) {
		v, keep := operate(b.op, x, y, b.boolean)
		if compares && !b.boolean {
			v = kept
		}
		if keep {
			out.vectors = append(out.vectors, element{labels, v})
		}
	}
	switch {
	case left.scalar:
		for _, e := range right.vectors {
			add(e.labels, left.number, e.value, e.value)
		}
	case right.scalar:
		for _, e := range left.vectors {
			add(e.labels, e.value, right.number, e.value)
		}
	default:
		other := map[string]float64{}
		for _, e := range right.vectors {
			other[keyOf(e.labels)] = e.value
		}
		for _, e := range left.vectors {
			if y, ok := other[keyOf(e.labels)]; ok {
				add(e.labels, e.value, y, e.value)
			}
		}
	}
	return out, nil
}

// operate returns the result of an operator, and whether a comparison keeps the element:
// with boolean it is always kept, as 0 or 1.
func operate(op string, x, y float64, boolean bool) (float64, bool) {
	var holds bool
	switch op {
	case "+":
		return x + y, true
	case "-":
		return x - y, true
	case "*":
		return x * y, true
	case "/":
		return x / y, true
	case "%":
		return math.Mod(x, y), true
	case "^":
		return math.Pow(x, y), true
	case "==":
		holds = x == y
	case "!=":
		holds = x != y
	case ">":
		holds = x > y
	case "<":
		holds = x < y
	case ">=":
		holds = x >= y
	case "<=":
		holds = x <= y
	}
	if !boolean {
		return x, holds
	}
	if holds {
		return 1, true
	}
	return 0, true
}
