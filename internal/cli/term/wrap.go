package term

import (
	"strings"
	"unicode/utf8"
)

// Wrap splits a text at its spaces into lines of at most width characters. Words are
// never split: a longer one gets its own line. Without a width the text is
// one line.
func Wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line, length := "", 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if line != "" && length+1+n > width {
			lines = append(lines, line)
			line, length = "", 0
		}
		if line != "" {
			line, length = line+" ", length+1
		}
		line, length = line+word, length+n
	}
	return append(lines, line)
}

// leastColumn is the width below which a description is written below its term.
const leastColumn = 24

// Row returns a line of a list of terms and their descriptions, indented by two
// spaces, with a line end: in two columns if the width has room for them, otherwise
// the description below the term. Without a width it is one line.
func Row(term, description string, column, width int) string {
	pad := strings.Repeat(" ", max(1, column-utf8.RuneCountInString(term)+1))
	line := strings.TrimRight("  "+term+pad+description, " ")
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line + "\n"
	}
	if room := width - column - 3; room >= leastColumn && utf8.RuneCountInString(term) <= column {
		indent := "\n" + strings.Repeat(" ", column+3)
		return "  " + term + pad + strings.Join(Wrap(description, room), indent) + "\n"
	}
	return "  " + term + "\n      " + strings.Join(Wrap(description, width-6), "\n      ") + "\n"
}
