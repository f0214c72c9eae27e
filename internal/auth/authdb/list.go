package authdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ingot/internal/auth"
	"ingot/internal/auth/scim"
	"ingot/internal/base/db"
)

// attribute is an attribute that a filter or a sort order may use.
type attribute struct {
	column string
	kind   kind
}

// kind is the type of a column.
type kind int

const (
	exact   kind = iota // text, compared exactly
	folded              // text in lower case: that of the filter is lowered, too
	boolean             //
	instant             // a time
	number              // an integer; not available in filters
)

// attributes are those of one resource type, by lower-case name.
type attributes map[string]attribute

// listing defines the list of one resource type.
type listing[T any] struct {
	table   string // with the columns id and created_at
	columns string
	scan    func(db.Scanner) (T, error)
	attrs   attributes
}

// statement is a query with its arguments.
type statement struct {
	sql  string
	args []any
}

// queries compiles q to a query for the page, and one that counts all matches.
func (l *listing[T]) queries(q auth.Query) (page, count statement, err error) {
	where, args, err := l.attrs.where(q.Filter)
	if err != nil {
		return page, count, err
	}
	order, err := l.attrs.order(q)
	if err != nil {
		return page, count, err
	}
	page = statement{
		"SELECT " + l.columns + " FROM " + l.table + where + order + " LIMIT ? OFFSET ?",
		append(slices.Clip(args), max(q.Count, 0), max(q.Start, 1)-1),
	}
	return page, statement{"SELECT COUNT(*) FROM " + l.table + where, args}, nil
}

// page reads the page that q selects, and counts all matches unless q says not
// to.
func (l *listing[T]) page(tx *db.Tx, q auth.Query) (page []T, total int, err error) {
	size := q.Count
	if q.Uncounted && size > 0 {
		q.Count++ // to see whether there are more
	}
	list, count, err := l.queries(q)
	if err != nil {
		return nil, 0, err
	}
	if q.Count > 0 {
		page, err = db.All(tx, l.scan, list.sql, list.args...)
		if err != nil {
			return nil, 0, err
		}
		// The page reaches the end of the list, so the total is known.
		skipped := max(q.Start, 1) - 1
		if n := len(page); n < q.Count && (n > 0 || skipped == 0) {
			return page, skipped + n, nil
		}
		if len(page) > size {
			return page[:size], skipped + size + 1, nil
		}
	}
	err = tx.QueryRow(count.sql, count.args...).Scan(&total)
	return page, total, err
}

// list runs page in its own transaction. A page that is not counted is one query, nearly always.
func (l *listing[T]) list(ctx context.Context, s *Store, q auth.Query) (page []T, total int, err error) {
	run := s.db.View
	if q.Uncounted {
		run = s.db.Read
	}
	err = run(ctx, func(tx *db.Tx) (err error) {
		page, total, err = l.page(tx, q)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return page, total, nil
}

// order returns the ORDER BY clause. The id makes the order total, so that pages
// neither overlap nor leave gaps. NULL is sorted as PostgreSQL does by default,
// for which both engines can use an index.
func (a attributes) order(q auth.Query) (string, error) {
	column := "created_at"
	if q.SortBy != "" {
		attr, ok := a[lower(q.SortBy)]
		if !ok {
			return "", fmt.Errorf("sortBy: %w", a.unknown(q.SortBy))
		}
		column = attr.column
	}
	direction, nulls := "", " NULLS LAST"
	if q.Descending {
		direction, nulls = " DESC", " NULLS FIRST"
	}
	if column == "id" {
		return " ORDER BY id" + direction, nil
	}
	if !optional[column] {
		nulls = ""
	}
	return " ORDER BY " + column + direction + nulls + ", id" + direction, nil
}

func (a attributes) unknown(name string) error {
	return &scim.AttributeError{Attr: name, Known: slices.Sorted(maps.Keys(a))}
}

// where returns the WHERE clause of a filter, or nothing.
func (a attributes) where(filter scim.Expr) (string, []any, error) {
	if filter == nil {
		return "", nil, nil
	}
	filter, err := a.prepare(filter)
	if err != nil {
		return "", nil, err
	}
	condition, args, err := a.schema().Where(filter)
	if err != nil {
		return "", nil, err
	}
	return " WHERE " + condition, args, nil
}

// schema returns the schema for prepared filters.
func (a attributes) schema() scim.Schema {
	s := make(scim.Schema, len(a))
	for name, attr := range a {
		column := scim.Column{SQL: attr.column}
		switch attr.kind {
		case exact, folded:
			// Not TextFold: that would use LOWER(column), which has no index.
			column.Kind = scim.Text
		case boolean:
			column.Kind = scim.Bool
		case instant:
			column.Kind = scim.Time
		case number:
			column = scim.Column{SQL: "(CAST(" + attr.column + " AS TEXT))", Kind: scim.Text}
		}
		s[name] = column
	}
	return s
}

// prepare converts the values of a filter to the form of the columns.
func (a attributes) prepare(e scim.Expr) (scim.Expr, error) {
	both := func(left, right scim.Expr) (l, r scim.Expr, err error) {
		if l, err = a.prepare(left); err != nil {
			return nil, nil, err
		}
		r, err = a.prepare(right)
		return l, r, err
	}
	switch e := e.(type) {
	case scim.And:
		left, right, err := both(e.Left, e.Right)
		return scim.And{Left: left, Right: right}, err
	case scim.Or:
		left, right, err := both(e.Left, e.Right)
		return scim.Or{Left: left, Right: right}, err
	case scim.Not:
		x, err := a.prepare(e.X)
		return scim.Not{X: x}, err
	case scim.Compare:
		return a.prepareCompare(e)
	}
	return e, nil // Where returns the error
}

func (a attributes) prepareCompare(c scim.Compare) (scim.Expr, error) {
	attr, ok := a[lower(c.Attr)]
	if !ok {
		return nil, a.unknown(c.Attr)
	}
	if attr.kind == number {
		switch c.Op {
		case scim.Eq, scim.Ne, scim.Pr:
		default:
			return nil, &scim.ValueError{Attr: c.Attr,
				Msg: fmt.Sprintf(`a number can be compared with "eq" and "ne" only, not with %q`, c.Op)}
		}
		if n, ok := c.Value.(float64); ok {
			c.Value = strconv.FormatFloat(n, 'f', -1, 64)
		}
	}
	s, ok := c.Value.(string)
	if !ok {
		return c, nil
	}
	if !storable(s) {
		return nil, &scim.ValueError{Attr: c.Attr, Msg: "the text must be valid UTF-8 without NUL characters"}
	}
	if attr.kind == folded {
		c.Value = lower(s)
	}
	return c, nil
}

// storable reports whether a database can store a text.
func storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }
