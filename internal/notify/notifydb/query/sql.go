package query

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ingot/internal/base/db"
)

// NumbersIn returns a condition on a column, with one argument made by
// NumberList. The statement is the same for lists of any length.
func NumbersIn(d db.Dialect, column string) string {
	if d == db.Postgres {
		return column + " = ANY(CAST(CAST(? AS TEXT) AS BIGINT[]))"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// NumberList formats a list of numbers as one argument.
func NumberList(d db.Dialect, numbers []int64) string {
	out := make([]byte, 0, 2+len(numbers)*12)
	open, end := byte('['), byte(']')
	if d == db.Postgres {
		open, end = '{', '}'
	}
	out = append(out, open)
	for i, n := range numbers {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, n, 10)
	}
	return string(append(out, end))
}

// TextsIn returns a condition on a column, with one argument made by TextList.
func TextsIn(d db.Dialect, column string) string {
	if d == db.Postgres {
		return column + " IN (SELECT json_array_elements_text(CAST(CAST(? AS TEXT) AS JSON)))"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// TextList formats a list of texts as one argument, without those that cannot
// be stored.
func TextList(texts []string) (string, error) {
	list := make([]string, 0, len(texts))
	for _, t := range texts {
		if Storable(t) {
			list = append(list, t)
		}
	}
	out, err := json.Marshal(list)
	return string(out), err
}

// Storable reports whether a database can store a text.
func Storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// AllStorable returns an error for the first text that cannot be stored.
func AllStorable(texts ...string) error {
	for _, t := range texts {
		if !Storable(t) {
			return Unstorable(db.ErrText)
		}
	}
	return nil
}

// rowsAtOnce limits the rows per statement. Larger ones are not faster.
const rowsAtOnce = 128

// Rowwise holds statements for 1, 2, 4 … rows: few enough to stay prepared. They are made when they are used,
// because every client command has this package, too.
type Rowwise struct {
	columns    int
	statements func() map[int]string
}

// NewInsertion returns INSERT statements for rows with these columns. suffix
// follows the values.
func NewInsertion(table, columns, suffix string) Rowwise {
	return NewRowwise("INSERT INTO "+table+" ("+columns+") VALUES ", strings.Count(columns, ",")+1, suffix)
}

// NewRowwise returns statements with the values of rows between two texts.
func NewRowwise(prefix string, columns int, suffix string) Rowwise {
	row := "(" + marks(columns) + ")"
	return Rowwise{columns: columns, statements: sync.OnceValue(func() map[int]string {
		all := map[int]string{}
		for rows := 1; rows <= rowsAtOnce; rows *= 2 {
			all[rows] = prefix + strings.TrimSuffix(strings.Repeat(row+", ", rows), ", ") + suffix
		}
		return all
	})}
}

// All runs the statements for rows whose values are concatenated in args.
func (in Rowwise) All(tx *db.Tx, args []any) error {
	size := rowsAtOnce
	for len(args) > 0 {
		for size*in.columns > len(args) {
			size /= 2
		}
		if _, err := tx.Exec(in.statements()[size], args[:size*in.columns]...); err != nil {
			return err
		}
		args = args[size*in.columns:]
	}
	return nil
}

// marks returns the placeholders of n values: "?, ?".
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// Insert returns a statement that inserts one row with these columns.
func Insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks(strings.Count(columns, ",")+1) + ")"
}

type moment struct{ to *time.Time }

// Moment returns a destination for what db.Nanos stored.
func Moment(to *time.Time) sql.Scanner { return moment{to} }

// Scan implements sql.Scanner.
func (m moment) Scan(src any) error {
	ns, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time column holds %T", src)
	}
	*m.to = db.Time(ns)
	return nil
}

// ScanNumber reads a row with a number.
func ScanNumber(row db.Scanner) (n int64, err error) {
	err = row.Scan(&n)
	return n, err
}

// ScanText reads a row with a text.
func ScanText(row db.Scanner) (t string, err error) {
	err = row.Scan(&t)
	return t, err
}

// MomentOf returns the moment of a column; none for math.MaxInt64.
func MomentOf(next int64) time.Time {
	if next == math.MaxInt64 {
		return time.Time{}
	}
	return db.Time(next)
}

// ByIndex makes PostgreSQL read messages in index order until the transaction
// ends, regardless of its statistics. A queue fills and empties long before the
// planner notices, and sorting all of it would be slow. The planner considers
// the disabled plans expensive and would use JIT compilation: that is disabled
// too.
const ByIndex = "set_config('enable_bitmapscan', 'off', TRUE), set_config('enable_seqscan', 'off', TRUE), " +
	"set_config('enable_sort', 'off', TRUE), set_config('jit', 'off', TRUE)"

// UseIndexes applies ByIndex to statements other than claims.
func UseIndexes(tx *db.Tx) error {
	if tx.Dialect() != db.Postgres {
		return nil
	}
	_, err := tx.Exec("SELECT " + ByIndex)
	return err
}

type longer struct {
	db.Scanner
	more []any
}

// Longer returns a row with further columns at its end, for a scan that does not know them.
func Longer(row db.Scanner, more ...any) db.Scanner { return longer{row, more} }

// Scan implements db.Scanner.
func (l longer) Scan(dest ...any) error { return l.Scanner.Scan(append(dest, l.more...)...) }
