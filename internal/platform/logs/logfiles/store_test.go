package logfiles_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

const writerEnv = "INGOT_TEST_LOG_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		logstest.WriteForever(func(o logstest.Options) (logs.Store, error) { return openIn(dir, o) })
	}
	goleak.VerifyTestMain(m)
}

func openIn(dir string, o logstest.Options) (logs.Store, error) {
	return logfiles.Open(dir, logfiles.Options{PerAppBytes: o.PerAppBytes, TotalBytes: o.TotalBytes, OpenFiles: 2,
		IdleAfter: time.Millisecond, MemoryBytes: 1 << 20})
}

func TestStore(t *testing.T) {
	t.Parallel()
	logstest.Run(t, func(t *testing.T) logstest.Location {
		t.Helper()
		dir := t.TempDir()
		return logstest.Location{
			Open:   func(o logstest.Options) (logs.Store, error) { return openIn(dir, o) },
			Settle: func(logs.Store) error { return nil }, // it is within its limits after every write
			Break: func() (func(), error) {
				folder := filepath.Join(dir, "a") // a file where the folder should be
				return func() { _ = os.Remove(folder) }, os.WriteFile(folder, nil, 0o600)
			},
			Environment: []string{writerEnv + "=" + dir},
		}
	})
}

func open(t testing.TB, dir string, o logfiles.Options) *logfiles.Store {
	t.Helper()
	s, err := logfiles.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if errors.Is(err, os.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// The disk never has more than the share of an app.
func TestShareOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const share = 256 << 10
	s := open(t, dir, logfiles.Options{PerAppBytes: share})
	for i := range 100 {
		logstest.Fill(t, s, "a", i*100, (i+1)*100)
		if size := diskUse(t, dir); size > share+4<<10 {
			t.Fatalf("%d bytes on disk, the share is %d", size, share)
		}
	}
	testkit.CheckMode(t, filepath.Join(dir, "a"), 0o700)
}

// All apps together stay within the limit of the disk, at any time.
func TestTotalOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const total = 2 << 20
	s := open(t, dir, logfiles.Options{PerAppBytes: 1 << 20, TotalBytes: total})
	for i := range 40 {
		logstest.Fill(t, s, "noisy-"+strconv.Itoa(i%10), i/10*2000, (i/10+1)*2000)
		if size := diskUse(t, dir); size > total || size != s.Totals().Bytes {
			t.Fatalf("%d bytes on disk, %d counted, the limit is %d", size, s.Totals().Bytes, total)
		}
	}
	if err := s.DeleteApp("noisy-1"); err != nil {
		t.Fatal(err)
	}
	if size := diskUse(t, dir); size != s.Totals().Bytes {
		t.Errorf("%d bytes on disk, %d counted", size, s.Totals().Bytes)
	}
}

// What a crash left of a deletion is removed when the store opens.
func TestUnfinishedDeletion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, ".deleted-c")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir, logfiles.Options{})
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the deleted app: %v, want that it does not exist", err)
	}
}

// Lines behind damage are missed, not made up.
func TestTailOverDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logfiles.Options{PerAppBytes: 1 << 20})
	logstest.Fill(t, s, "a", 0, 3000)
	files, err := filepath.Glob(filepath.Join(dir, "a", "*.log"))
	if err != nil || len(files) < 3 {
		t.Fatalf("segments are %v, %v, want 3 or more", files, err)
	}
	b, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0xff
	if err := os.WriteFile(files[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	tail := logstest.Tail(t, s, "a", logs.After(0))
	got, missed := 0, uint64(0)
	for last := uint64(0); last < 3000; {
		b := logstest.Next(t, tail)
		missed += b.Missed
		got += len(b.Entries)
		for i, e := range b.Entries {
			if n := b.First + uint64(i); e.Seq != n || string(e.Text) != fmt.Sprintf("%040d", n-1) {
				t.Fatalf("number %d is %d %s", n, e.Seq, e.Text)
			}
		}
		last = b.Last()
	}
	if missed == 0 || uint64(got)+missed != 3000 {
		t.Errorf("%d lines, %d missed, want 3000 together", got, missed)
	}
}
