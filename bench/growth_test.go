package main

import (
	"math"
	"testing"
)

func TestExponent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{5, 5, 5, 5}, 0},
		{[]float64{1, 10, 100, 1000}, 1},
		{[]float64{2, 200, 20000, 2000000}, 2},
		{[]float64{1, 2, 3, 4}, 0.197}, // the logarithm
	} {
		if got := exponent([]int{10, 100, 1000, 10000}, c.values); math.Abs(got-c.want) > 0.005 {
			t.Errorf("exponent of %v: %.3f, want %.3f", c.values, got, c.want)
		}
	}
}
