package db

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/background"
)

// TestWritePages copies a database while it is written to: the copy is what the
// transaction saw, and whole.
func TestWritePages(t *testing.T) {
	t.Parallel()
	open := func(path string) *DB {
		t.Helper()
		d, err := Open(t.Context(), Options{URL: "sqlite:" + path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	dir := t.TempDir()
	d, other := open(filepath.Join(dir, "a.db")), open(filepath.Join(dir, "a.db"))
	insert := func(ctx context.Context, n int) error {
		return d.Update(ctx, func(tx *Tx) error {
			for range n {
				if _, err := tx.Exec("INSERT INTO t (x) VALUES (?)", strings.Repeat("x", 1000)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if _, err := d.writer.ExecContext(t.Context(), "CREATE TABLE t (x TEXT)"); err != nil {
		t.Fatal(err)
	}
	if err := insert(t.Context(), 2000); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	writing := background.Async("write", func() error {
		for ctx.Err() == nil {
			if err := insert(ctx, 10); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	var saw int
	var file bytes.Buffer
	err := other.View(t.Context(), func(tx *Tx) error {
		if err := tx.QueryRow("SELECT COUNT(*) FROM t").Scan(&saw); err != nil {
			return err
		}
		_, err := tx.WritePages(&file)
		return err
	})
	stop()
	if err := <-writing; err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "b.db")
	if err := os.WriteFile(copied, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(path string) (n int, err error) {
		c := open(path)
		err = c.View(t.Context(), func(tx *Tx) error {
			if err := tx.CheckIntegrity(); err != nil {
				return err
			}
			return tx.QueryRow("SELECT COUNT(*) FROM t").Scan(&n)
		})
		return n, err
	}
	if n, err := check(copied); err != nil || n != saw || saw < 2000 {
		t.Errorf("the copy has %d rows (%v), want %d, which are at least 2000", n, err, saw)
	}

	// Damage is found.
	damaged := file.Bytes()
	copy(damaged[4096*20:], bytes.Repeat([]byte{0xa5}, 4096))
	if err := os.WriteFile(filepath.Join(dir, "c.db"), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := check(filepath.Join(dir, "c.db")); err == nil {
		t.Error("a damaged page is not found")
	}
}
