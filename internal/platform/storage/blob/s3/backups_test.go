package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/storage/blob/s3/s3test"
	"ingot/internal/server/backup"
	"ingot/internal/server/backup/backuptest"
)

var _ backup.Objects = (*Backups)(nil)

// TestBackups: the objects of backups are complete or not there, whatever the store does.
func TestBackups(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	o := b.open().Backups(backup.ErrBusy)
	backuptest.Run(t, o, int(o.part))
}

// TestBackupsFail: requests are repeated, and a download that breaks off is continued.
func TestBackupsFail(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	o := b.open().Backups(backup.ErrBusy)
	data := bytes.Repeat([]byte("0123456789"), int(o.part)*3/10)
	b.Fail(first(2, s3test.Away))
	if n, err := o.Put(t.Context(), "backups/x.age", bytes.NewReader(data)); err != nil || n != int64(len(data)) {
		t.Fatalf("put: %d, %v", n, err)
	}
	// Downloads end after some bytes.
	broken := 0
	b.Fail(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if r.Method != http.MethodGet || broken >= 2 {
			return false
		}
		broken++
		next.ServeHTTP(&brokenAnswer{w, len(data) / 3}, r)
		return true
	})
	r, err := o.Open(t.Context(), "backups/x.age")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, data) || broken != 2 {
		t.Errorf("read %d bytes with %d breaks, %v, want all %d with two", len(got), broken, err, len(data))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	b.Fail(s3test.Away)
	if _, err := o.Put(t.Context(), "backups/y.age", bytes.NewReader(data)); err == nil {
		t.Error("put to a store that is away succeeds")
	}
}

// brokenAnswer breaks off after some bytes.
type brokenAnswer struct {
	http.ResponseWriter
	left int
}

func (s *brokenAnswer) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return s.ResponseWriter.Write(p)
}

// TestBackupsLock: a lock that is not renewed is taken, and its holder notices.
func TestBackupsLock(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	one, two := b.open().Backups(backup.ErrBusy), b.open().Backups(backup.ErrBusy)
	one.stale = time.Second // it looks five times as often
	locked, unlock, err := one.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	var unlockTwo func()
	testkit.Eventually(t, "the second takes it", func() bool { // unless the first has just renewed it
		b.Age(10 * time.Minute)
		_, unlockTwo, err = two.Lock(t.Context())
		return err == nil
	})
	defer unlockTwo()
	testkit.Eventually(t, "the first notices", func() bool { return locked.Err() != nil })
	if errors.Is(context.Cause(locked), context.Canceled) {
		t.Errorf("the cause is %v, want who has the lock", context.Cause(locked))
	}
	unlock()
	if _, _, err := b.open().Backups(backup.ErrBusy).Lock(t.Context()); !errors.Is(err, backup.ErrBusy) {
		t.Errorf("a third: %v, want %v: the first must not remove the lock of the second", err, backup.ErrBusy)
	}
}
