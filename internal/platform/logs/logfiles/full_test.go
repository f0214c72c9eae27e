//go:build linux

package logfiles_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

// On a full disk Append fails and what was stored before can be read. When there is room
// again the lines follow without a gap, and a store that is opened afterwards has them all.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	root, filler := filepath.Join(dir, "logs"), filepath.Join(dir, "filler")
	s, err := logfiles.Open(root, logfiles.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seq, failed := uint64(0), 0
	var want []string
	for round := range 5 {
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for size := 64 << 10; size > 0; {
			if _, err := f.Write(bytes.Repeat([]byte{1}, size)); errors.Is(err, syscall.ENOSPC) {
				size /= 2
			} else if err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		// Until the page that the log has begun is full, too.
		for err = error(nil); err == nil; {
			text := fmt.Sprintf("line %d of round %d %s", seq+1, round, bytes.Repeat([]byte("x"), 300))
			if err = s.Append(logstest.Line("a", "s", seq+1, logstest.T0, text)); err == nil {
				seq++
				want = append(want, text)
			}
		}
		if failed++; !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Append on a full disk: %v, want %v", err, syscall.ENOSPC)
		}
		if got := s.Position("s"); got != seq {
			t.Errorf("the position is %d, want %d", got, seq)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("with room in round %d", round)
		if err := s.Append(logstest.Line("a", "s", seq+1, logstest.T0, text)); err != nil {
			t.Fatalf("Append with room: %v", err)
		}
		seq++
		want = append(want, text)
	}
	check := func(s logs.Store) {
		t.Helper()
		if got := logstest.Texts(logstest.Read(t, s, "a", logs.ReadQuery{Limit: 1000})); !slices.Equal(got, want) {
			t.Errorf("%d lines are stored, want %d", len(got), len(want))
		}
	}
	check(s)
	s.Stop()
	again, err := logfiles.Open(root, logfiles.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	check(again)
	if got := again.Position("s"); got != seq {
		t.Errorf("the position after a restart is %d, want %d", got, seq)
	}
}
