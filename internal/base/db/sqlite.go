package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite has one writer connection and a few readers on one file in WAL mode:
// readers and the writer never wait for each other.
//
// synchronous=FULL makes every commit wait for the disk, so that no
// acknowledged transaction is lost in a power cut. Measured with
// BenchmarkCommit on two cores and a disk that flushes in 70 µs: 95 µs per
// commit (10,500 per second) against 26 µs (39,000 per second) with NORMAL,
// which may lose the last commits. The difference is that one flush: expect a
// millisecond on a common SSD, ten on a hard disk, and write related rows in
// one transaction. PostgreSQL, serializable and durable on the same disk, took
// 220 µs for one client and 110 to 135 µs per commit for sixteen; when all
// sixteen wrote one row, 310 µs.
const (
	minReaders = 4
	maxReaders = 8

	// Caches are small, in KiB per connection: the operating system caches the
	// file anyway, and the server should use little memory. They take nearly
	// twice that: a page of 4 KiB and its header take 8 KiB of the driver's
	// allocator, and a server with two files has ten connections.
	writerCache = 768
	readerCache = 256

	// Prepared statements cached by the writer and by each reader; one takes
	// about 7 KiB.
	writerStatements = 512
	readerStatements = 128

	// How long SQLite itself waits for a lock that another process holds. It is
	// short, because the wait cannot be interrupted; Update retries.
	busyTimeout = 500 * time.Millisecond
)

func (d *DB) openSQLite(ctx context.Context, path string, maxConns int) error {
	path, err := sqlitePath(path)
	if err != nil {
		return err
	}
	if err := createPrivate(path); err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	d.path = path

	d.writer, err = openLite(path, writerCache, writerStatements, url.Values{
		"_txlock":       {"immediate"},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
	})
	if err != nil {
		return err
	}
	d.writer.SetMaxOpenConns(1)
	d.writer.SetMaxIdleConns(1)
	// The first connection also sets a new file to WAL mode, before any reader.
	if err := d.writer.PingContext(ctx); err != nil {
		d.writer.Close()
		return fmt.Errorf("database file %s: %w%s", path, orContext(ctx, err), damagedHelp(err))
	}
	var mode string
	err = d.writer.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("journal mode is %q, want wal: is it on a network file system?", mode)
	}
	if err != nil {
		d.writer.Close()
		return fmt.Errorf("database file %s: %w%s", path, orContext(ctx, err), damagedHelp(err))
	}

	d.reader, err = openLite(path, readerCache, readerStatements, url.Values{"_query_only": {"1"}})
	if err != nil {
		d.writer.Close()
		return err
	}
	readers := min(max(maxConns, minReaders), maxReaders)
	d.reader.SetMaxOpenConns(readers)
	d.reader.SetMaxIdleConns(readers)
	// An idle server closes its readers and frees their caches.
	d.reader.SetConnMaxIdleTime(5 * time.Minute)
	return nil
}

// damagedHelp says what to do if an error means that the file is damaged.
func damagedHelp(err error) string {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN:
			return "; if it is damaged, restore it from a backup"
		}
	}
	return ""
}

func sqlitePath(path string) (string, error) {
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return "", errors.New("database URL sqlite:PATH has no file name")
	case strings.Contains(path, ":memory:"):
		return "",
			errors.New("database URL sqlite:PATH: a database in memory is not supported, use a file in a temporary directory")
	case strings.ContainsRune(path, '?'):
		return "", errors.New("database URL sqlite:PATH takes no parameters after a question mark")
	case strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return "", errors.New("database URL: write sqlite:PATH, without slashes before a relative path")
	}
	return filepath.Abs(path)
}

// createPrivate creates a missing file that only the current user can read.
// SQLite gives the WAL and the shared memory file the same mode. It must not
// open an existing file: closing it would drop the locks that SQLite holds on
// it for another DB of this process.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func openLite(path string, cacheKiB, statements int, params url.Values) (*sql.DB, error) {
	params.Set("_busy_timeout", strconv.FormatInt(busyTimeout.Milliseconds(), 10))
	params.Set("_foreign_keys", "1")
	params.Set("_dqs", "0")       // "x" is a name, never a string, as in PostgreSQL
	params.Set("_defensive", "1") // no statement may damage the file
	params.Set("_error_rc", "1")
	params["_pragma"] = []string{
		"cache_size(-" + strconv.Itoa(cacheKiB) + ")",
		"case_sensitive_like(1)",
		"journal_size_limit(16777216)", // a WAL that grew once does not stay large
	}
	file := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: params.Encode()}
	connector, err := sqlite.NewConnector(file.String())
	if err != nil {
		return nil, fmt.Errorf("database file %s: %w", path, err)
	}
	return sql.OpenDB(liteConnector{connector, statements}), nil
}
