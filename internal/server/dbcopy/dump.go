package dbcopy

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"ingot/internal/base/db"
)

// A dump is a stream of records. A record is a byte, and what follows:
//
//	T  a table: the length of a JSON text, and the text, tableHead
//	R  a row of that table: its values
//	E  the end of the table: the length of a JSON text, and the text, tableEnd
//	Z  the end of the dump
//
// A value is a byte for its type, and what follows: n is NULL; s and b are text and bytes
// with their length; i is a number and f a floating-point number of 8 bytes; t and o are
// true and false.
const (
	recordTable = 'T'
	recordRow   = 'R'
	recordEnd   = 'E'
	recordLast  = 'Z'
)

type tableHead struct {
	Table   string       `json:"table"`
	Columns []dumpColumn `json:"columns"`
}

type dumpColumn struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type tableEnd struct {
	Rows int64     `json:"rows"`
	Sum  [4]uint64 `json:"sum"`
}

// Dump writes the rows of a database, as a transaction sees them. Tables for which skip
// returns true, and those of the migrations, are left out.
func Dump(tx *db.Tx, w io.Writer, skip func(table string) bool) error {
	o := Options{Transient: skip}
	out := bufio.NewWriterSize(w, 64<<10)
	names, err := tables(tx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.skipped(name) {
			continue
		}
		if err := dumpTable(tx, out, name); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	if err := out.WriteByte(recordLast); err != nil {
		return err
	}
	return out.Flush()
}

func dumpTable(tx *db.Tx, out *bufio.Writer, name string) error {
	cols, err := columns(tx, name)
	if err != nil {
		return err
	}
	head := tableHead{Table: name}
	for _, c := range cols {
		head.Columns = append(head.Columns, dumpColumn{c.name, c.kind})
	}
	if err := writeText(out, recordTable, head); err != nil {
		return err
	}
	var s sum
	var b []byte
	err = scan(tx, name, cols, func(row []any) error {
		s.add(row)
		b = appendRow(append(b[:0], recordRow), row)
		_, err := out.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	return writeText(out, recordEnd, tableEnd{s.rows, s.words})
}

func writeText(out *bufio.Writer, record byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = out.Write(append(binary.AppendUvarint([]byte{record}, uint64(len(text))), text...))
	return err
}

func appendRow(b []byte, row []any) []byte {
	for _, v := range row {
		switch x := v.(type) {
		case nil:
			b = append(b, 'n')
		case string:
			b = append(binary.AppendUvarint(append(b, 's'), uint64(len(x))), x...)
		case []byte:
			b = append(binary.AppendUvarint(append(b, 'b'), uint64(len(x))), x...)
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 'i'), uint64(x)) //nolint:gosec // the same bits
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, 'f'), math.Float64bits(x))
		case bool:
			if x {
				b = append(b, 't')
			} else {
				b = append(b, 'o')
			}
		}
	}
	return b
}

// dumpReader reads a dump.
type dumpReader struct{ r *bufio.Reader }

// maxValue limits what a damaged dump can make the reader allocate.
const maxValue = 1 << 30

func (d dumpReader) bytes() ([]byte, error) {
	n, err := binary.ReadUvarint(d.r)
	if err == nil && n > maxValue {
		err = fmt.Errorf("a value of %d bytes is too large", n)
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(d.r, b)
	return b, err
}

func (d dumpReader) text(into any) error {
	b, err := d.bytes()
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

func (d dumpReader) value() (any, error) {
	kind, err := d.r.ReadByte()
	if err != nil {
		return nil, err
	}
	switch kind {
	case 'n':
		return nil, nil
	case 's':
		b, err := d.bytes()
		return string(b), err
	case 'b':
		return d.bytes()
	case 't', 'o':
		return kind == 't', nil
	case 'i', 'f':
		var b [8]byte
		if _, err := io.ReadFull(d.r, b[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint64(b[:])
		if kind == 'f' {
			return math.Float64frombits(n), nil
		}
		return int64(n), nil //nolint:gosec // the same bits
	}
	return nil, fmt.Errorf("%q is no type of a value", kind)
}

// tables calls begin for every table, and the function it returns for every row and, with
// nil, at the end of the table, when the checksum was compared.
func (d dumpReader) tables(begin func(name string, cols []column) (func(row []any, s sum) error, error)) error {
	for {
		record, err := d.r.ReadByte()
		if err != nil {
			return cut(err)
		}
		switch record {
		case recordLast:
			return nil
		case recordTable:
			var head tableHead
			if err := d.text(&head); err != nil {
				return cut(err)
			}
			var cols []column
			for _, c := range head.Columns {
				cols = append(cols, column{c.Name, c.Kind})
			}
			take, err := begin(head.Table, cols)
			if err == nil {
				err = d.rows(len(cols), take)
			}
			if err != nil {
				return fmt.Errorf("table %s: %w", head.Table, cut(err))
			}
		default:
			return fmt.Errorf("%q is no record of a dump", record)
		}
	}
}

func (d dumpReader) rows(width int, take func(row []any, s sum) error) error {
	row := make([]any, width)
	var s sum
	for {
		record, err := d.r.ReadByte()
		if err != nil {
			return err
		}
		switch record {
		case recordRow:
			for i := range row {
				if row[i], err = d.value(); err != nil {
					return err
				}
			}
			s.add(row)
			if err := take(row, s); err != nil {
				return err
			}
		case recordEnd:
			var end tableEnd
			if err := d.text(&end); err != nil {
				return err
			}
			if want := (sum{end.Rows, end.Sum}); s != want {
				return fmt.Errorf("the dump has %s, want %s", s, want)
			}
			return take(nil, s)
		default:
			return fmt.Errorf("%q is no record of a table", record)
		}
	}
}

// cut replaces the end of the file where more should follow.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// CheckDump reads a dump, compares its checksums and returns the number of rows.
func CheckDump(r io.Reader) (rows int64, err error) {
	err = dumpReader{bufio.NewReaderSize(r, 64<<10)}.tables(func(string, []column) (func([]any, sum) error, error) {
		return func(row []any, s sum) error {
			if row == nil {
				rows += s.rows
			}
			return nil
		}, nil
	})
	return rows, err
}

// Load inserts the rows of a dump into o.To, which is an empty PostgreSQL, in one
// transaction, compares every table, and migrates it. Versions are those of the tables in
// the dump, by the names of migrations. Last is called in the transaction before it is
// committed. If Load fails, the target has no rows. It does not use o.From.
func Load(ctx context.Context, o Options, versions map[string]int64, r io.Reader, last func(*db.Tx) error) error {
	if err := o.prepare(ctx, versions); err != nil {
		return err
	}
	began := false
	err := o.To.UpdateLocking(ctx, func(to *db.Tx) error {
		if began {
			return errors.New("the transaction has to be repeated, but the dump was read already: try again")
		}
		began = true
		left, err := o.lockEmpty(to)
		if err != nil {
			return err
		}
		if err := o.load(to, dumpReader{bufio.NewReaderSize(r, 64<<10)}, left); err != nil {
			return err
		}
		if err := complete(left); err != nil {
			return err
		}
		return last(to)
	})
	if err != nil {
		return err
	}
	for _, m := range o.Schemas(o.To.Dialect()) {
		if err := o.To.Migrate(ctx, m); err != nil {
			return fmt.Errorf("everything was copied, but the copy could not be migrated: %w", err)
		}
	}
	return nil
}

func (o Options) load(to *db.Tx, d dumpReader, left map[string]bool) error {
	return d.tables(func(table string, theirs []column) (func([]any, sum) error, error) {
		if !left[table] {
			return nil, errors.New("this program does not know it, or it occurs twice")
		}
		delete(left, table)
		cols, err := columns(to, table)
		if err == nil {
			err = sameColumns(theirs, cols)
		}
		if err == nil {
			err = o.clear(to, table)
		}
		if err != nil {
			return nil, err
		}
		rows, err := newBatch(to, table, theirs)
		if err != nil {
			return nil, err
		}
		return func(row []any, s sum) error {
			if row != nil {
				return rows.add(row)
			}
			if err := rows.flush(); err != nil {
				return err
			}
			// In the dump's order, as the checksum.
			return o.compare(to, table, theirs, s)
		}, nil
	})
}
