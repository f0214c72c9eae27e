package platformdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// table is how one noun is stored, asked for and seen. A descriptor says all
// that differs from noun to noun; define adds what follows from it.
type table[T any] struct {
	name    string
	base    func(*T) *platform.Resource
	meta    func(*T) *platform.Metadata // nil: it has none
	columns []column[T]                 // besides those of base and meta
	// virtual are fields that are not columns of the table. In their SQL, t is
	// the row of the table.
	virtual map[string]field
	// visible is the condition under which a reader, whose guid is each ?,
	// sees the row t. Without one, and without seenBy, everybody does.
	visible string
	// seenBy are the columns of which one has to have a guid that the reader sees.
	seenBy []lookup
	// ofApp returns the guid of the app that a row belongs to. Its space is in a column of the table, which
	// nothing but an insert sets, and by which a reader sees the row.
	ofApp func(*T) string
	// with are tables whose rows go with a row of this one, by the column that has its guid.
	with map[string]string

	plural  string // in labels and messages
	fields  map[string]field
	stored  []column[T] // all of them, the guid first
	read    []column[T] // those of stored that are read
	derived []derived[T]
	list    string // the names of read, for a SELECT from t
	bare    string // list with nothing in the place of secrets
	insert  string
	update  string
}

// field is what a query may name.
type field struct {
	kind kind
	sql  string // a column; of a boolean, a condition
	// within is the condition on t in which {} is the comparison of the column.
	// Without one the comparison is the condition.
	within string
	// unordered fields cannot be sorted by.
	unordered bool
}

// through returns a field of other tables: column is the one of t that is among what is selected
// from them where sql, their column, matches.
func through(column, sql, from string) field {
	return field{kind: exact, sql: sql, within: "t." + column + " IN (SELECT " + from + " WHERE {})"}
}

// define completes a descriptor.
func define[T any](t table[T]) *table[T] {
	t.plural = strings.TrimPrefix(t.name, "platform_")
	t.stored = append([]column[T]{
		text("guid", func(row *T) *string { return &t.base(row).GUID }),
		moment("created_at", func(row *T) *time.Time { return &t.base(row).Created }),
		moment("updated_at", func(row *T) *time.Time { return &t.base(row).Updated }),
	}, t.columns...)
	if t.meta != nil {
		labels := object("labels", func(row *T) *map[string]string { return &t.meta(row).Labels })
		t.stored = append(t.stored, labels,
			object("annotations", func(row *T) *map[string]string { return &t.meta(row).Annotations }))
		t.derived = append(t.derived, t.labelsOf(labels))
	}
	t.read = slices.Clone(t.stored)
	t.fields = map[string]field{}
	for _, c := range t.read {
		switch c.kind {
		case opaque:
		case folded:
			t.stored = append(t.stored, c.key())
			t.fields[c.field] = field{kind: folded, sql: "t." + c.name + "_key"}
		default:
			t.fields[c.field] = field{kind: c.kind, sql: "t." + c.name}
		}
		if c.members != nil {
			t.derived = append(t.derived, t.membersOf(c))
		}
	}
	if t.ofApp != nil {
		t.seenBy = inSpaces
		t.fields["space_guid"] = field{kind: exact, sql: "t.space_guid", unordered: true}
		t.fields["organization_guid"] = orgOfSpace
	}
	for name, f := range t.virtual {
		f.unordered = true
		t.fields[name] = f
	}

	var names, qualified, bare []string
	for _, c := range t.stored {
		names = append(names, c.name)
	}
	for _, c := range t.read {
		qualified = append(qualified, "t."+c.name)
		if c.sealed {
			bare = append(bare, "''")
			continue
		}
		bare = append(bare, "t."+c.name)
	}
	t.list, t.bare = strings.Join(qualified, ", "), strings.Join(bare, ", ")
	t.insert = "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ") VALUES (" + marks(len(names)) + ")"
	if t.ofApp != nil {
		t.insert = "INSERT INTO " + t.name + " (" + strings.Join(names, ", ") + ", space_guid) VALUES (" +
			marks(len(names)) + ", COALESCE((SELECT a.space_guid FROM platform_apps a WHERE a.guid = ?), ''))"
	}
	t.update = "UPDATE " + t.name + " SET " + strings.Join(names[1:], " = ?, ") + " = ? WHERE guid = ?"
	return &t
}

// values are those of all stored columns of a row.
func (t *table[T]) values(tx *db.Tx, row *T) ([]any, error) {
	values := make([]any, len(t.stored), len(t.stored)+1)
	for i, c := range t.stored {
		v, err := c.write(tx, row)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.name, c.name, err)
		}
		values[i] = v
	}
	return values, nil
}

// scanner returns a function that makes a T of a row with these columns.
// It is for one query: all rows share its cells.
func scanner[T any](tx *db.Tx, columns []column[T]) func(db.Scanner) (*T, error) {
	cells := make([]cell[T], len(columns))
	dest := make([]any, len(columns))
	for i := range columns {
		cells[i] = cell[T]{tx: tx, column: &columns[i]}
		dest[i] = &cells[i]
	}
	return func(s db.Scanner) (*T, error) {
		row := new(T)
		for i := range cells {
			cells[i].row = row
		}
		return row, s.Scan(dest...)
	}
}

// cell is where one column of a row goes.
type cell[T any] struct {
	tx     *db.Tx
	column *column[T]
	row    *T
}

// Scan implements sql.Scanner.
func (c *cell[T]) Scan(src any) error { return c.column.read(c.tx, c.row, src) }

// field finds a field by its name. That there is none is a mistake of the
// program.
func (t *table[T]) field(name string) (field, error) {
	f, ok := t.fields[name]
	if !ok {
		return field{}, fmt.Errorf("%s have no field %q; they have %s",
			t.plural, name, strings.Join(slices.Sorted(maps.Keys(t.fields)), ", "))
	}
	return f, nil
}

// marks is the placeholders of n values: "?, ?".
func marks(n int) string {
	return strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
}
