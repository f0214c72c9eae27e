package main

import (
	"fmt"

	"github.com/jessevdk/go-flags"
)

// unknownFlag says that there is no such flag, and which one may be meant.
func unknownFlag(name string, all []*flags.Option) string {
	if len([]rune(name)) == 1 {
		return fmt.Sprintf("unknown flag -%s", name)
	}
	best, distance := "", len(name)/2+1
	for _, o := range all {
		if d := editDistance(name, o.LongName); o.LongName != "" && d < distance {
			best, distance = o.LongName, d
		}
	}
	if best == "" {
		return fmt.Sprintf("unknown flag --%s", name)
	}
	return fmt.Sprintf("unknown flag --%s; did you mean --%s?", name, best)
}

// editDistance counts the letters to add, drop or change to get from a to b.
func editDistance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			change := diagonal
			if from[i] != to[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
