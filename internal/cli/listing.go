package cli

import (
	"ingot/internal/cli/term"
)

// listing is a list of rows, shown as a table or as a JSON array.
type listing[T any] struct {
	key     string // name of the array in the JSON
	heading []string
	rows    []T
	cells   func(T) []string // cells of a row
}

func (l *listing[T]) MarshalJSON() ([]byte, error) {
	rows := l.rows
	if rows == nil {
		rows = []T{} // write [] rather than null
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

// yesNo returns "yes" or "no".
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// jsonAs is a result with a different value in JSON.
type jsonAs struct {
	result
	json any
}

// MarshalJSON encodes the JSON value.
func (j *jsonAs) MarshalJSON() ([]byte, error) { return marshal(j.json) }
