package chart

import (
	"fmt"
	"slices"

	"ingot/internal/base/digits"
)

// PerSecond says a rate.
func PerSecond(v float64) string { return digits.Short(v, 4) + "/s" }

// Number says a number.
func Number(v float64) string { return digits.Short(v, 4) }

// Percent says a percentage.
func Percent(v float64) string { return fmt.Sprintf("%.1f%%", v) }

// Percents returns values of which 1 is 100 %.
func Percents(values []*float64) []*float64 {
	out := slices.Clone(values)
	for i, v := range out {
		if v != nil {
			percent := *v * 100
			out[i] = &percent
		}
	}
	return out
}
