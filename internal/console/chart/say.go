package chart

import (
	"fmt"
	"slices"
	"strconv"
)

// PerSecond says a rate with four digits.
func PerSecond(v float64) string {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		short = v
	}
	return strconv.FormatFloat(short, 'f', -1, 64) + "/s"
}

// Number says a number.
func Number(v float64) string { return fmt.Sprintf("%.4g", v) }

// Milliseconds says a time.
func Milliseconds(v float64) string { return Number(v) + " ms" }

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
