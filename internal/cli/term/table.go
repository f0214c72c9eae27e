package term

import (
	"strings"
	"unicode/utf8"
)

// Cell is the text of a table cell and its colour. It is as wide as the text.
type Cell struct {
	Text  string
	Paint func(string) string
}

// Table is a heading and rows.
type Table struct {
	Heading []string
	Rows    [][]Cell
}

// Cells returns plain cells.
func Cells(words ...string) []Cell {
	row := make([]Cell, len(words))
	for i, w := range words {
		row[i] = Cell{Text: w}
	}
	return row
}

const gap = "   "

// Table writes a table: columns as wide as their widest cell, separated by three
// spaces, without trailing spaces.
func (p *Printer) Table(t Table) {
	var widths []int
	measure := func(i int, s string) {
		for len(widths) <= i {
			widths = append(widths, 0)
		}
		widths[i] = max(widths[i], utf8.RuneCountInString(s))
	}
	for i, h := range t.Heading {
		measure(i, h)
	}
	for _, row := range t.Rows {
		for i, c := range row {
			measure(i, c.Text)
		}
	}
	if len(t.Heading) > 0 {
		heading := make([]Cell, len(t.Heading))
		for i, h := range t.Heading {
			heading[i] = Cell{Text: h, Paint: func(s string) string { return p.paint(s, 1) }}
		}
		p.Println(line(heading, widths))
	}
	for _, row := range t.Rows {
		p.Println(line(row, widths))
	}
}

func line(row []Cell, widths []int) string {
	last := len(row) - 1
	for last > 0 && row[last].Text == "" {
		last--
	}
	var b strings.Builder
	for i, c := range row[:last+1] {
		text := c.Text
		if c.Paint != nil {
			text = c.Paint(text)
		}
		b.WriteString(text)
		if i < last {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text)) + gap)
		}
	}
	return b.String()
}

// Pairs writes names and values, aligned.
func (p *Printer) Pairs(pairs ...[2]string) {
	width := 0
	for _, pair := range pairs {
		width = max(width, utf8.RuneCountInString(pair[0])+1)
	}
	for _, pair := range pairs {
		name := pair[0] + ":"
		if pair[1] == "" {
			p.Println(name)
			continue
		}
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(name))
		p.Println(name + pad + gap + pair[1])
	}
}
