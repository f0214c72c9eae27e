package dbcopy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"

	"ingot/internal/base/db"
)

// quote returns a name as SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// tables returns the names of all tables, sorted. Partitions belong to their tables.
func tables(tx *db.Tx) ([]string, error) {
	query := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
	if tx.Dialect() == db.Postgres {
		query = `SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace(current_schema())
			AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname COLLATE "C"`
	}
	return db.All(tx, func(s db.Scanner) (name string, err error) {
		err = s.Scan(&name)
		return name, err
	}, query)
}

// column is a column of a table. kind is the name of its type in PostgreSQL.
type column struct{ name, kind string }

// columns returns the columns of a table by name.
func columns(tx *db.Tx, table string) ([]column, error) {
	query := "SELECT name, type FROM pragma_table_info(?) ORDER BY name"
	if tx.Dialect() == db.Postgres {
		query = `SELECT column_name, data_type FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name = ? ORDER BY column_name COLLATE "C"`
	}
	return db.All(tx, func(s db.Scanner) (c column, err error) {
		err = s.Scan(&c.name, &c.kind)
		return c, err
	}, query, table)
}

func namesOf(cols []column) []string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.name
	}
	slices.Sort(names)
	return names
}

// list returns the columns as SQL.
func list(cols []column) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = quote(c.name)
	}
	return strings.Join(names, ", ")
}

// scan calls f with each row of a table. The values have the types of cols; the
// slice is used again.
func scan(tx *db.Tx, table string, cols []column, f func(row []any) error) error {
	rows, err := tx.Query("SELECT " + list(cols) + " FROM " + quote(table))
	if err != nil {
		return err
	}
	defer rows.Close()
	row, into := make([]any, len(cols)), make([]any, len(cols))
	for i := range row {
		into[i] = &row[i]
	}
	for n := 1; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, c := range cols {
			if row[i], err = convert(row[i], c.kind); err != nil {
				return fmt.Errorf("row %d, column %s: %w", n, c.name, err)
			}
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// convert returns a value as the type of a column in PostgreSQL: nil, string, int64,
// bool, float64 or []byte. SQLite stores anything in any column, so it may fail.
func convert(v any, kind string) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch kind {
	case "text":
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		if s, ok := v.(string); ok {
			return s, nil
		}
	case "bigint", "integer":
		n, ok := v.(int64)
		if ok && kind == "integer" && (n < math.MinInt32 || n > math.MaxInt32) {
			return nil, fmt.Errorf("%d does not fit into 32 bits", n)
		}
		if ok {
			return n, nil
		}
	case "boolean":
		switch b := v.(type) {
		case bool:
			return b, nil
		case int64:
			if b == 0 || b == 1 {
				return b == 1, nil
			}
		}
	case "double precision":
		switch x := v.(type) {
		case float64:
			return x, nil
		case int64:
			return float64(x), nil
		}
	case "bytea":
		if b, ok := v.([]byte); ok {
			return b, nil
		}
	default:
		return nil, fmt.Errorf("%s is a type that cannot be copied", kind)
	}
	return nil, fmt.Errorf("it holds %T, want %s", v, kind)
}

const (
	// A statement inserts at most so many values and bytes. PostgreSQL allows 65,535
	// values.
	maxValues = 10_000
	maxBytes  = 4 << 20
	// reportRows is after how many rows progress is reported.
	reportRows = 100_000
)

// copied is the result of insert.
type copied struct {
	sum sum
	err error
}

// insert copies the rows of a table in batches.
func (o Options) insert(from, to *db.Tx, table string, cols []column) (c copied) {
	batch, err := newBatch(to, table, cols)
	if err != nil {
		return copied{err: err}
	}
	c.err = scan(from, table, cols, func(row []any) error {
		c.sum.add(row)
		if c.sum.rows%reportRows == 0 {
			o.Report(Progress{Table: table, Rows: c.sum.rows})
		}
		return batch.add(row)
	})
	if c.err == nil {
		c.err = batch.flush()
	}
	return c
}

// batch inserts rows into a table, many with one statement.
type batch struct {
	to     *db.Tx
	insert string // begin of the statement
	group  string // placeholders of a row
	width  int
	limit  int // of rows
	args   []any
	size   int
}

func newBatch(to *db.Tx, table string, cols []column) (*batch, error) {
	if len(cols) == 0 {
		return nil, errors.New("it has no columns")
	}
	limit := max(1, maxValues/len(cols))
	return &batch{
		to: to, insert: "INSERT INTO " + quote(table) + " (" + list(cols) + ") VALUES ",
		group: "(" + strings.Repeat("?, ", len(cols)-1) + "?)",
		width: len(cols), limit: limit, args: make([]any, 0, limit*len(cols)),
	}, nil
}

// add adds a row, whose slice may be used again.
func (b *batch) add(row []any) error {
	for _, v := range row {
		switch x := v.(type) {
		case string:
			b.size += len(x)
		case []byte:
			b.size += len(x)
			v = db.Raw{V: slices.Clone(x)}
		}
		b.args = append(b.args, v)
	}
	if len(b.args) < b.limit*b.width && b.size < maxBytes {
		return nil
	}
	return b.flush()
}

func (b *batch) flush() error {
	n := len(b.args) / b.width
	if n == 0 {
		return nil
	}
	_, err := b.to.Exec(b.insert+strings.Repeat(b.group+", ", n-1)+b.group, b.args...)
	b.args, b.size = b.args[:0], 0
	return err
}

// sum is the number of rows and the sum of their hashes, so that the order of rows
// does not matter.
type sum struct {
	rows  int64
	words [4]uint64
}

func (s *sum) add(row []any) {
	h := sha256.New()
	for _, v := range row {
		switch x := v.(type) {
		case nil:
			h.Write([]byte{'n'})
		case string:
			field(h, 's', uint64(len(x)))
			h.Write([]byte(x))
		case []byte:
			field(h, 'b', uint64(len(x)))
			h.Write(x)
		case int64:
			field(h, 'i', uint64(x)) //nolint:gosec // the same bits
		case float64:
			field(h, 'f', math.Float64bits(x))
		case bool:
			var bit uint64
			if x {
				bit = 1
			}
			field(h, 'o', bit)
		}
	}
	digest := h.Sum(nil)
	for i := range s.words {
		s.words[i] += binary.BigEndian.Uint64(digest[8*i:])
	}
	s.rows++
}

func field(h hash.Hash, kind byte, n uint64) {
	h.Write(binary.BigEndian.AppendUint64([]byte{kind}, n))
}

// text returns the checksum for people.
func (s *sum) text() string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, s.words[0]))
}

func (s sum) String() string { return fmt.Sprintf("%d rows with checksum %s", s.rows, s.text()) }
