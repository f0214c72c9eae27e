package db

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"ingot/internal/base/fault"
)

// A full disk is reported as such, and existing rows are kept.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "full.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.writer.ExecContext(t.Context(), "CREATE TABLE t (x TEXT)"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.writer.ExecContext(t.Context(), "PRAGMA max_page_count = 20"); err != nil {
		t.Fatal(err)
	}
	insert := func(ctx context.Context, size int) error {
		return d.Update(ctx, func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO t (x) VALUES (?)", strings.Repeat("x", size))
			return err
		})
	}
	if err := insert(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if err := insert(t.Context(), 1<<20); !fault.Is(err, fault.InsufficientStorage) {
		t.Errorf("got %v, want %s", err, fault.InsufficientStorage)
	}
	if err := insert(t.Context(), 10); err != nil {
		t.Errorf("a small write afterwards: %v", err)
	}
	if err := translate(&pgconn.PgError{Code: "53100"}); !fault.Is(err, fault.InsufficientStorage) {
		t.Errorf("of PostgreSQL: %v", err)
	}
}
