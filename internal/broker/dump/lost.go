package dump

import (
	"fmt"
	"strings"
	"unicode"
)

// Lost is what could not be saved or loaded of an instance. A tenant controls how much that is and
// what it is called.
type Lost struct {
	first []string
	more  int // that are not in first
}

const (
	maxLost     = 20
	maxLostText = 300
)

// Add adds an object, and why it is lost.
func (l *Lost) Add(what, why string) {
	if len(l.first) == maxLost {
		l.more++
		return
	}
	l.first = append(l.first, Printable(what)+": "+Printable(why))
}

// List returns a line for each object, or the number of those that are too many.
func (l *Lost) List() []string {
	if l.more == 0 {
		return l.first
	}
	return append(l.first, fmt.Sprintf("and %d more", l.more))
}

// Printable returns the beginning of a text without characters that control a terminal.
func Printable(text string) string {
	clean := []rune(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), " "))
	if len(clean) > maxLostText {
		return string(clean[:maxLostText]) + "…"
	}
	return string(clean)
}
