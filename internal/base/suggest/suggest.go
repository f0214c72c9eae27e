package suggest

import "strings"

// Closest returns the candidate closest to a misspelled word, or "" if none is
// close enough: the distance may be one for short words, and a quarter of the
// characters for longer ones.
func Closest(word string, candidates []string) string {
	lower := strings.ToLower(word)
	best, distance := "", limit(len([]rune(word)))+1
	for _, c := range candidates {
		if c == "" || c == word {
			continue
		}
		if d := Distance(lower, strings.ToLower(c)); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// limit returns the largest accepted distance for a word of n characters.
func limit(n int) int {
	switch {
	case n < 2:
		return 0
	case n < 8:
		return 1
	}
	return n / 4
}

// Distance returns the number of characters to insert, delete, replace or
// transpose to get from a to b.
func Distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	var before []int // the row above the last one
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		next := make([]int, len(to)+1)
		next[0] = i + 1
		for j := range to {
			change := row[j]
			if from[i] != to[j] {
				change++
			}
			next[j+1] = min(change, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(to)]
}
