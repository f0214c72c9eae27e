package plural

import (
	"strconv"
	"strings"
)

// Count returns a number with its noun, which is given for one: Count(2, "app
// instance") is "2 app instances". Nouns whose last word ends in s, x, ch, sh or a
// consonant and y get -es or -ies.
func Count[N ~int | ~int64](n N, one string) string {
	if n != 1 {
		one = Of(one)
	}
	return strconv.FormatInt(int64(n), 10) + " " + one
}

// Of returns the plural of an English noun.
func Of(one string) string {
	for _, end := range []string{"s", "x", "ch", "sh"} {
		if strings.HasSuffix(one, end) {
			return one + "es"
		}
	}
	if stem, ok := strings.CutSuffix(one, "y"); ok && stem != "" &&
		!strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return stem + "ies"
	}
	return one + "s"
}
