package filelock_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"ingot/internal/base/filelock"
)

// One open file at a time has the lock, until it is closed.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first, second := open(), open()
	if err := filelock.Lock(t.Context(), first, 0); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Lock(t.Context(), second, 0); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("a second lock: %v, want ErrLocked", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := filelock.Lock(canceled, second, math.MaxInt64); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled wait: %v", err)
	}
	got := make(chan error)
	go func() { got <- filelock.Lock(t.Context(), second, math.MaxInt64) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
}
