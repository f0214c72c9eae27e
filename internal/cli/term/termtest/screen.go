package termtest

import (
	"regexp"
	"strings"
)

// Screen is the content of a terminal after everything written to it.
type Screen struct {
	width int
	rows  []row
	// column is the column of the next rune, in the last row.
	column int
	// Wraps counts the lines that were longer than the screen.
	Wraps int
}

type row struct {
	text    []rune
	wrapped bool // continues in the next row
}

// NewScreen returns a screen of the given width.
func NewScreen(width int) *Screen { return &Screen{width: width, rows: []row{{}}} }

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Feed interprets output. Unknown sequences are shown verbatim, so that a test
// notices them.
func (s *Screen) Feed(text string) {
	text = colour.ReplaceAllString(text, "")
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b[2K"):
			s.rows[len(s.rows)-1].text = nil
			text = text[4:]
			continue
		case text[0] == '\r':
			s.column = 0
		case text[0] == '\n':
			s.rows = append(s.rows, row{})
			s.column = 0
		default:
			r := []rune(text)[0]
			s.put(r)
			text = text[len(string(r)):]
			continue
		}
		text = text[1:]
	}
}

func (s *Screen) put(r rune) {
	if s.column == s.width {
		s.rows[len(s.rows)-1].wrapped = true
		s.rows = append(s.rows, row{})
		s.column = 0
		s.Wraps++
	}
	last := &s.rows[len(s.rows)-1]
	for len(last.text) <= s.column {
		last.text = append(last.text, ' ')
	}
	last.text[s.column] = r
	s.column++
}

// Lines returns the lines on the screen, with wrapped lines joined.
func (s *Screen) Lines() []string {
	var lines []string
	line := ""
	for _, r := range s.rows {
		line += string(r.text)
		if !r.wrapped {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
