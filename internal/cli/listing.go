package cli

import (
	"context"
	"net/url"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
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

// names is a list of resources that are shown by name only.
type names struct {
	kind string
	list []config.Named
}

func (n *names) MarshalJSON() ([]byte, error) { return marshal(map[string]any{n.kind: n.list}) }

func (n *names) show(p *term.Printer) {
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

// listNames lists the resources at a path by their names.
func listNames(ctx context.Context, s *session, kind, path string, q url.Values) (result, error) {
	q.Set("order_by", "name")
	things, err := client.List[client.Thing](ctx, s.api, path, q)
	if err != nil {
		return nil, err
	}
	n := &names{kind, []config.Named{}}
	for _, t := range things {
		n.list = append(n.list, config.Named{GUID: t.GUID, Name: t.Name})
	}
	return n, nil
}
