package core

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"ingot/internal/base/cfapi"
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
	// Paint has the colors of the columns; without it the first one is bold.
	Paint []Paint
	None  string // what is shown for an empty list, unless it is that none were found
}

// Paint colors a text.
type Paint = func(p *term.Printer, text string) string

// The colors of columns; nil is none.
var (
	Bold  Paint = (*term.Printer).Bold
	State Paint = (*term.Printer).State
)

// Plain is the paint of a list without colors.
var Plain = []Paint{nil}

func (l *Listing[T]) MarshalJSON() ([]byte, error) {
	rows := l.Rows
	if rows == nil {
		rows = []T{} // write [] rather than null
	}
	return Marshal(map[string]any{strings.ReplaceAll(l.Key, " ", "_"): rows})
}

func (l *Listing[T]) Show(p *term.Printer) {
	if len(l.Rows) == 0 {
		p.Println(cmp.Or(l.None, "No "+l.Key+" found."))
		return
	}
	t := term.Table{Heading: l.Heading}
	paints := l.Paint
	if paints == nil {
		paints = []Paint{Bold}
	}
	for _, r := range l.Rows {
		row := term.Cells(l.Cells(r)...)
		for i, paint := range paints {
			if paint != nil {
				row[i].Paint = func(text string) string { return paint(p, text) }
			}
		}
		t.Rows = append(t.Rows, row)
	}
	p.Println("")
	p.Table(t)
}

// List requests the resources at a path as the rows of a list.
func (l *Listing[T]) List(ctx context.Context, s *Session, path string, q url.Values) (_ Result, err error) {
	if l.Rows, err = client.List[T](ctx, s.API, path, q); err != nil {
		return nil, err
	}
	return l, nil
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
	things, err := client.List[cfapi.Thing](ctx, s.API, path, q)
	if err != nil {
		return nil, err
	}
	n := &names{kind, []config.Named{}}
	for _, t := range things {
		n.list = append(n.list, config.Named{GUID: t.GUID, Name: t.Name})
	}
	return n, nil
}
