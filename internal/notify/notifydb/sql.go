package notifydb

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ingot/internal/base/db"
)

// numbersIn returns a condition on a column, with one argument made by
// numberList. The statement is the same for lists of any length.
func numbersIn(d db.Dialect, column string) string {
	if d == db.Postgres {
		return column + " = ANY(CAST(CAST(? AS TEXT) AS BIGINT[]))"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// numberList formats a list of numbers as one argument.
func numberList(d db.Dialect, numbers []int64) string {
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

// textsIn returns a condition on a column, with one argument made by textList.
func textsIn(d db.Dialect, column string) string {
	if d == db.Postgres {
		return column + " IN (SELECT json_array_elements_text(CAST(CAST(? AS TEXT) AS JSON)))"
	}
	return column + " IN (SELECT value FROM json_each(?))"
}

// textList formats a list of texts as one argument, without those that cannot
// be stored.
func textList(texts []string) (string, error) {
	list := make([]string, 0, len(texts))
	for _, t := range texts {
		if storable(t) {
			list = append(list, t)
		}
	}
	out, err := json.Marshal(list)
	return string(out), err
}

// storable reports whether a database can store a text.
func storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// allStorable returns an error for the first text that cannot be stored.
func allStorable(texts ...string) error {
	for _, t := range texts {
		if !storable(t) {
			return unstorable(db.ErrText)
		}
	}
	return nil
}

// rowsAtOnce limits the rows per statement. Larger ones are not faster.
const rowsAtOnce = 128

// rowwise holds statements for 1, 2, 4 … rows: few enough to stay prepared. They are made when they are used,
// because every client command has this package, too.
type rowwise struct {
	columns    int
	statements func() map[int]string
}

// newInsertion returns INSERT statements for rows with these columns. suffix
// follows the values.
func newInsertion(table, columns, suffix string) rowwise {
	return newRowwise("INSERT INTO "+table+" ("+columns+") VALUES ", strings.Count(columns, ",")+1, suffix)
}

// newRowwise returns statements with the values of rows between two texts.
func newRowwise(prefix string, columns int, suffix string) rowwise {
	row := "(" + marks(columns) + ")"
	return rowwise{columns: columns, statements: sync.OnceValue(func() map[int]string {
		all := map[int]string{}
		for rows := 1; rows <= rowsAtOnce; rows *= 2 {
			all[rows] = prefix + strings.TrimSuffix(strings.Repeat(row+", ", rows), ", ") + suffix
		}
		return all
	})}
}

// all runs the statements for rows whose values are concatenated in args.
func (in rowwise) all(tx *db.Tx, args []any) error {
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

// insert returns a statement that inserts one row with these columns.
func insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks(strings.Count(columns, ",")+1) + ")"
}

// moment is the inverse of db.Nanos.
type moment struct{ to *time.Time }

func (m moment) Scan(src any) error {
	ns, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time column holds %T", src)
	}
	*m.to = db.Time(ns)
	return nil
}

func scanNumber(row db.Scanner) (n int64, err error) {
	err = row.Scan(&n)
	return n, err
}

func scanText(row db.Scanner) (t string, err error) {
	err = row.Scan(&t)
	return t, err
}
