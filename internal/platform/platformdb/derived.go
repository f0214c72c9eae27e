package platformdb

import (
	"maps"
	"slices"
	"strings"

	"ingot/internal/base/db"
)

// derived is a table that repeats a column of another, one row an element, so
// that an index can find it. The column is what is read; this is only searched.
// The repositories keep both the same.
type derived[T any] struct {
	column string                               // of the table it is derived from
	text   func(tx *db.Tx, row *T) (any, error) // what is stored there
	remove string                               // a DELETE up to the comparison of the owner
	insert string                               // an INSERT up to its rows
	tuple  string                               // one row
	rows   func(row *T) [][]any                 // the values of each
	// follow, unless it is nil, is all that there is to do, when the column changes: rows of other tables repeat it.
	follow func(tx *db.Tx, row *T) error
}

// labelsOf derives the labels of all nouns, which share a table.
func (t *table[T]) labelsOf(c column[T]) derived[T] {
	return derived[T]{
		column: c.name, text: c.write,
		remove: "DELETE FROM platform_labels WHERE resource_type = '" + t.plural + "' AND resource_guid",
		insert: "INSERT INTO platform_labels (resource_type, resource_guid, name, value) VALUES ",
		tuple:  "('" + t.plural + "', ?, ?, ?)",
		rows: func(row *T) (rows [][]any) {
			labels := t.meta(row).Labels
			for _, name := range slices.Sorted(maps.Keys(labels)) {
				rows = append(rows, []any{t.base(row).GUID, name, labels[name]})
			}
			return rows
		},
	}
}

func (t *table[T]) membersOf(c column[T]) derived[T] {
	m := c.members
	return derived[T]{
		column: c.name, text: c.write,
		remove: "DELETE FROM " + m.table + " WHERE " + m.owner,
		insert: "INSERT INTO " + m.table + " (" + m.owner + ", " + m.member + ") VALUES ",
		tuple:  "(?, ?)",
		rows: func(row *T) (rows [][]any) {
			for _, guid := range slices.Compact(slices.Sorted(slices.Values(c.elements(row)))) {
				rows = append(rows, []any{t.base(row).GUID, guid})
			}
			return rows
		},
	}
}

// rowsOfInsert bounds how many rows one statement inserts.
const rowsOfInsert = 64

// change makes the table follow a change of the row.
func (d *derived[T]) change(tx *db.Tx, row *T, guid string) error {
	if d.follow != nil {
		return d.follow(tx, row)
	}
	if err := d.drop(tx, guid); err != nil {
		return err
	}
	return written(d.add(tx, row))
}

func (d *derived[T]) add(tx *db.Tx, row *T) error {
	if d.follow != nil {
		return nil
	}
	for part := range slices.Chunk(d.rows(row), rowsOfInsert) {
		tuples := strings.TrimSuffix(strings.Repeat(d.tuple+", ", len(part)), ", ")
		if _, err := tx.Exec(d.insert+tuples, slices.Concat(part...)...); err != nil {
			return err
		}
	}
	return nil
}

func (d *derived[T]) drop(tx *db.Tx, guids ...string) error {
	if d.follow != nil {
		return nil
	}
	for part := range slices.Chunk(guids, maxMarks) {
		in, args := oneOf(tx.Dialect(), exact, values(part))
		if _, err := tx.Exec(d.remove+in, args...); err != nil {
			return err
		}
	}
	return nil
}
