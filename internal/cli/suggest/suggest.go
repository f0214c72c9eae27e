package suggest

import "strings"

// Closest returns the candidate that is nearest to a word, or nothing when
// none is near enough to be what was meant.
func Closest(word string, candidates []string) string {
	best, distance := "", len([]rune(word))/2+1
	lower := strings.ToLower(word)
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

// Distance counts the letters to add, drop or change to get from a to b.
func Distance(a, b string) int {
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
