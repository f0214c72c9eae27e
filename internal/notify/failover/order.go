package failover

import (
	"cmp"
	"math"
	"slices"
)

// Order returns the routes in the order in which to try them: each is the first as often as its weight says, and so on
// for the rest. Those without weight come last, in the given order. random returns numbers from 0 to 1.
func Order[T any](routes []T, weight func(T) int, random func() float64) []T {
	type drawn struct {
		route T
		key   float64
	}
	all := make([]drawn, len(routes))
	for i, r := range routes {
		all[i] = drawn{r, math.Inf(1)}
		if w := weight(r); w > 0 {
			// The least of exponentially distributed numbers is a route's with the probability of its share.
			all[i].key = -math.Log(1-random()) / float64(w)
		}
	}
	slices.SortStableFunc(all, func(a, b drawn) int { return cmp.Compare(a.key, b.key) })
	ordered := make([]T, len(all))
	for i, d := range all {
		ordered[i] = d.route
	}
	return ordered
}
