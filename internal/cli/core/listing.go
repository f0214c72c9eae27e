package core

import (
	"context"
	"net/url"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

// Listing is a list of rows, shown as a table or as a JSON array.
type Listing[T any] struct {
	Key     string // name of the array in the JSON
	Heading []string
	Rows    []T
	Cells   func(T) []string // cells of a row
}

func (l *Listing[T]) MarshalJSON() ([]byte, error) {
	rows := l.Rows
	if rows == nil {
		rows = []T{} // write [] rather than null
	}
	return Marshal(map[string]any{jsonKey(l.Key): rows})
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

func (l *Listing[T]) Show(p *term.Printer) {
	if len(l.Rows) == 0 {
		p.Println("No " + l.Key + " found.")
		return
	}
	t := term.Table{Heading: l.Heading}
	for _, r := range l.Rows {
		row := term.Cells(l.Cells(r)...)
		row[0].Paint = p.Bold
		t.Rows = append(t.Rows, row)
	}
	p.Println("")
	p.Table(t)
}

// YesNo returns "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// names is a list of resources that are shown by name only.
type names struct {
	kind string
	list []config.Named
}

func (n *names) MarshalJSON() ([]byte, error) { return Marshal(map[string]any{n.kind: n.list}) }

func (n *names) Show(p *term.Printer) {
	if len(n.list) == 0 {
		p.Println("No " + n.kind + " found.")
		return
	}
	p.Println("")
	p.Println("name")
	for _, one := range n.list {
		p.Println(p.Bold(one.Name))
	}
}

// ListNames lists the resources at a path by their names.
func ListNames(ctx context.Context, s *Session, kind, path string, q url.Values) (Result, error) {
	q.Set("order_by", "name")
	things, err := client.List[client.Thing](ctx, s.API, path, q)
	if err != nil {
		return nil, err
	}
	n := &names{kind, []config.Named{}}
	for _, t := range things {
		n.list = append(n.list, config.Named{GUID: t.GUID, Name: t.Name})
	}
	return n, nil
}
