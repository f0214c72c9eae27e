package docs

import (
	"strings"

	"ingot/internal/base/handbook"
	"ingot/internal/base/pattern"
	"ingot/internal/cli/term"
)

// widest is the width of a paragraph on a wide terminal: longer lines are hard to read.
const widest = 100

var (
	item    = pattern.OnUse(`^(\s*)([-*]|\d+\.) +`)
	divider = pattern.OnUse(`^\|[-:| ]+\|$`)
)

// formatter writes a document for a terminal, line by line: the source is nearly readable as it is.
type formatter struct {
	*term.Printer
	width     int
	lines     []string
	paragraph []string // of which lines are collected
	rows      [][]string
	code      bool
	comment   bool
}

// format returns the lines of a document. Without a width, paragraphs are single lines.
func format(source string, width int, p *term.Printer) []string {
	f := &formatter{Printer: p, width: min(width, widest)}
	for line := range strings.SplitSeq(strings.TrimSpace(source), "\n") {
		f.line(line)
	}
	f.flush()
	return f.lines
}

// line formats one line.
func (f *formatter) line(line string) {
	trimmed := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(trimmed, "```"):
		f.flush()
		f.code = !f.code
	case f.code && strings.HasPrefix(trimmed, "$ "):
		f.lines = append(f.lines, "    "+f.Good(line))
	case f.code:
		f.lines = append(f.lines, "    "+line)
	case f.comment || strings.HasPrefix(trimmed, "<!--"):
		f.flush()
		f.comment = !strings.HasSuffix(trimmed, "-->")
	case strings.HasPrefix(line, "#"):
		f.flush()
		f.lines = append(f.lines, f.Bold(unmarked(strings.TrimSpace(strings.TrimLeft(line, "#")))))
	case strings.HasPrefix(line, "|"):
		f.flushParagraph()
		if !divider().MatchString(line) {
			f.rows = append(f.rows, cells(line))
		}
	case trimmed == "":
		f.flush()
		if n := len(f.lines); n > 0 && f.lines[n-1] != "" {
			f.lines = append(f.lines, "")
		}
	case item().MatchString(line):
		f.flush()
		f.paragraph = []string{line}
	default:
		f.paragraph = append(f.paragraph, line)
	}
}

// flush writes what was collected.
func (f *formatter) flush() {
	f.flushParagraph()
	if len(f.rows) > 0 {
		f.table()
		f.rows = nil
	}
}

func (f *formatter) flushParagraph() {
	if len(f.paragraph) == 0 {
		return
	}
	indent := len(f.paragraph[0]) - len(strings.TrimLeft(f.paragraph[0], " "))
	hanging := len(item().FindString(f.paragraph[0]))
	text := unmarked(strings.Join(strings.Fields(strings.Join(f.paragraph, " ")), " "))
	f.paragraph = nil
	room := 0
	if f.width > 0 {
		room = max(20, f.width-max(indent, hanging))
	}
	for i, line := range term.Wrap(text, room) {
		space := indent
		if i > 0 {
			space = max(indent, hanging)
		}
		f.lines = append(f.lines, strings.Repeat(" ", space)+line)
	}
}

// table writes rows in columns if they fit, otherwise each row as a small list.
func (f *formatter) table() {
	widths, total := make([]int, len(f.rows[0])), 0
	for _, row := range f.rows {
		for i := range min(len(row), len(widths)) {
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	for _, w := range widths {
		total += w + 2
	}
	head := f.rows[0]
	if f.width > 0 && total > f.width {
		for _, row := range f.rows[1:] {
			for i := range min(len(row), len(head)) {
				if row[i] == "" {
					continue
				}
				for j, line := range term.Wrap(head[i]+": "+row[i], max(20, f.width-4)) {
					f.lines = append(f.lines, strings.Repeat(" ", 2+2*min(i, 1)+2*min(j, 1))+line)
				}
			}
		}
		return
	}
	for n, row := range f.rows {
		var b strings.Builder
		for i := range min(len(row), len(widths)) {
			b.WriteString(row[i] + strings.Repeat(" ", widths[i]-len([]rune(row[i]))+2))
		}
		line := strings.TrimRight(b.String(), " ")
		if n == 0 {
			line = f.Bold(line)
		}
		f.lines = append(f.lines, line)
	}
}

// cells returns the cells of a row of a table.
func cells(line string) []string {
	const bar = "\x00" // an escaped one is part of a cell
	line = strings.Trim(strings.ReplaceAll(line, `\|`, bar), "|")
	var all []string
	for cell := range strings.SplitSeq(line, "|") {
		all = append(all, unmarked(strings.TrimSpace(strings.ReplaceAll(cell, bar, "|"))))
	}
	return all
}

// unmarked returns a text without the marks of links, code and emphasis.
func unmarked(text string) string {
	return strings.NewReplacer("`", "", "**", "").Replace(handbook.Unlinked(text))
}
