package cli

import (
	"ingot/internal/cli/term"
)

// listing is rows of one kind, as a table for people and as a list in JSON.
type listing[T any] struct {
	key     string // their name in the plural, as it stands in the JSON
	heading []string
	rows    []T
	cells   func(T) []string // what stands under the heading
}

func (l *listing[T]) MarshalJSON() ([]byte, error) {
	rows := l.rows
	if rows == nil {
		rows = []T{} // nothing is a list as well
	}
	return marshal(map[string]any{jsonKey(l.key): rows})
}

func jsonKey(plural string) string {
	key := []byte(plural)
	for i, c := range key {
		if c == ' ' {
			key[i] = '_'
		}
	}
	return string(key)
}

func (l *listing[T]) show(p *term.Printer) {
	if len(l.rows) == 0 {
		p.Println("No " + l.key + " found.")
		return
	}
	t := term.Table{Heading: l.heading}
	for _, r := range l.rows {
		row := term.Cells(l.cells(r)...)
		row[0].Paint = p.Bold
		t.Rows = append(t.Rows, row)
	}
	p.Println("")
	p.Table(t)
}

// yesNo is how a table says whether something is so.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// jsonAs is shown as one thing and written as another.
type jsonAs struct {
	result
	json any
}

// MarshalJSON writes the other thing.
func (j *jsonAs) MarshalJSON() ([]byte, error) { return marshal(j.json) }
