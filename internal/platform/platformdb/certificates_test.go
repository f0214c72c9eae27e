//go:build unix

package platformdb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

// TestCertificates keeps files with paths, and locks for them, on both databases.
func TestCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, c := t.Context(), open(t, d).Certificates()
		if _, _, err := c.File(ctx, "a/b"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that does not exist: %v, want fs.ErrNotExist", err)
		}
		for _, name := range []string{"a/b", "a/c/d", "a0", "a-", "b/x", "a/b"} {
			if err := c.WriteFile(ctx, name, []byte("value of "+name)); err != nil {
				t.Fatal(err)
			}
		}
		value, modified, err := c.File(ctx, "a/c/d")
		if err != nil || string(value) != "value of a/c/d" || time.Since(modified) > time.Minute {
			t.Errorf("got %q of %s, %v", value, modified, err)
		}
		for dir, want := range map[string]string{"a": "[a/b a/c/d]", "a/c": "[a/c/d]", "a/b": "[]",
			"": "[a- a/b a/c/d a0 b/x]"} {
			if names, err := c.FileNames(ctx, dir); err != nil || fmt.Sprint(names) != want {
				t.Errorf("%q has %v, %v, want %s", dir, names, err, want)
			}
		}
		if err := errors.Join(c.DeleteFiles(ctx, "a"), c.DeleteFiles(ctx, "b/x"), c.DeleteFiles(ctx, "none")); err != nil {
			t.Fatal(err)
		}
		if names, err := c.FileNames(ctx, ""); err != nil || fmt.Sprint(names) != "[a- a0]" {
			t.Errorf("left are %v, %v", names, err)
		}
	})
}

// TestCertificateLocks lets one of many holders lock a name, and another when its time is over.
func TestCertificateLocks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, c := t.Context(), open(t, d).Certificates()
		later := time.Now().Add(time.Hour)
		var got atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				ok, err := c.TryLock(ctx, "name", fmt.Sprint("holder ", i), later)
				if err != nil {
					t.Error(err)
				}
				if ok {
					got.Add(1)
				}
			})
		}
		all.Wait()
		if got.Load() != 1 {
			t.Errorf("%d holders have the lock, want 1", got.Load())
		}
		try := func(name, holder string, until time.Time, want bool) {
			t.Helper()
			if ok, err := c.TryLock(ctx, name, holder, until); err != nil || ok != want {
				t.Errorf("%s by %s: %t, %v, want %t", name, holder, ok, err, want)
			}
		}
		try("other", "a", time.Now().Add(-time.Second), true)
		try("other", "b", later, true)
		try("other", "a", later, false)
		try("other", "b", later, true)
		if err := errors.Join(c.Unlock(ctx, "other", "a"), c.Unlock(ctx, "name", "nobody")); err != nil {
			t.Fatal(err)
		}
		try("other", "a", later, false)
		if err := c.Unlock(ctx, "other", "b"); err != nil {
			t.Fatal(err)
		}
		try("other", "a", later, true)
	})
}
