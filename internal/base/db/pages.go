package db

import (
	"errors"
	"fmt"
	"io"
)

// WritePages writes the SQLite file as this transaction sees it, while others read and
// write the database, and returns its size. The file can be opened as it is. It is not
// for PostgreSQL.
func (t *Tx) WritePages(w io.Writer) (size int64, err error) {
	if t.Dialect() != SQLite {
		return 0, errors.New("only SQLite has a file")
	}
	var pages, pageSize int64
	// A query of the schema first: it begins the snapshot.
	for _, one := range []struct {
		query string
		into  *int64
	}{
		{"SELECT COUNT(*) FROM sqlite_master", &pages},
		{"SELECT page_count FROM pragma_page_count", &pages},
		{"SELECT page_size FROM pragma_page_size", &pageSize},
	} {
		if err := t.QueryRow(one.query).Scan(one.into); err != nil {
			return 0, err
		}
	}
	rows, err := t.Query("SELECT pgno, data FROM sqlite_dbpage ORDER BY pgno")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var number, next int64
	var data []byte
	for next = 1; rows.Next(); next++ {
		if err := rows.Scan(&number, &data); err != nil {
			return size, t.fail(err)
		}
		if number != next || int64(len(data)) != pageSize {
			return size, fmt.Errorf("page %d of the database has number %d and %d bytes, want %d", next, number,
				len(data), pageSize)
		}
		if _, err := w.Write(data); err != nil {
			return size, err
		}
		size += pageSize
	}
	if err := rows.Err(); err != nil {
		return size, t.fail(err)
	}
	if next-1 != pages {
		return size, fmt.Errorf("%d of %d pages of the database could be read", next-1, pages)
	}
	return size, rows.Close()
}

// CheckIntegrity reads a whole SQLite database and returns an error that names the
// first problems, if there are any.
func (t *Tx) CheckIntegrity() error {
	if t.Dialect() != SQLite {
		return errors.New("only SQLite files are checked")
	}
	text := func(s Scanner) (line string, err error) {
		err = s.Scan(&line)
		return line, err
	}
	found, err := All(t, text, "SELECT integrity_check FROM pragma_integrity_check LIMIT 10")
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("the database is damaged: %q", found)
	}
	found, err = All(t, text, `SELECT "table" || ' refers to ' || parent FROM pragma_foreign_key_check LIMIT 10`)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("rows of the database refer to rows that do not exist: %q", found)
	}
	return err
}
