//go:build linux

package network

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/filelock"
	"ingot/internal/base/testkit"
)

// warnings passes on the messages of a log.
type warnings struct {
	slog.Handler
	said chan string
}

func (w warnings) Enabled(context.Context, slog.Level) bool { return true }
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	w.said <- r.Level.String() + " " + r.Message
	return nil
}

// TestMachineLock: one engine at a time changes the network, and one that waits says so.
func TestMachineLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := openLock(path)
	testkit.Must(t, err)
	defer first.Close()
	testkit.Must(t, filelock.Lock(t.Context(), first, 0))
	said := make(chan string, 1)
	ran := false
	done := background.Async("lock", func() error {
		return lockedBy(path, 0, slog.New(warnings{said: said}), func() error {
			ran = true
			return nil
		})
	})
	if got := <-said; !strings.HasPrefix(got, "WARN another engine") {
		t.Errorf("it says %q while it waits", got)
	}
	testkit.Must(t, first.Close())
	if err := <-done; err != nil || !ran {
		t.Errorf("after the lock is free: %v, ran is %t", err, ran)
	}
}

// TestMachineLockIsPrivate: what others can open, or have put there, is not locked.
func TestMachineLockIsPrivate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put  func(path string) error
		want string // in the error
	}{
		"none":           {func(string) error { return nil }, ""},
		"that of before": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, ""},
		"a link": {func(path string) error { return os.Symlink("/etc/hostname", path) },
			unix.ELOOP.Error()},
		"a link to nothing": {func(path string) error { return os.Symlink(path+"-other", path) }, unix.ELOOP.Error()},
		"a directory":       {func(path string) error { return os.Mkdir(path, 0o700) }, unix.EISDIR.Error()},
		"a pipe":            {func(path string) error { return unix.Mkfifo(path, 0o600) }, "remove it"},
		"a readable file": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o644))
		}, "remove it"},
		"a file of another user": {func(path string) error {
			err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 2000, 2000))
			if errors.Is(err, fs.ErrPermission) { // only root can give files away
				return os.Chmod(path, 0o640)
			}
			return err
		}, "remove it"},
	} {
		path := filepath.Join(t.TempDir(), "lock")
		testkit.Must(t, c.put(path))
		ran := false
		err := lockedBy(path, 0, quiet, func() error {
			ran = true
			info, err := os.Lstat(path)
			if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm() != 0o600) {
				err = errors.New("others can open " + info.Mode().String())
			}
			return err
		})
		if ran != (c.want == "") || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, ran is %t, want %q", name, err, ran, c.want)
		}
	}
}

// TestEnginesLockTheirFile: the lock of the machine is that of the file which only root can open. Engines locked the
// directory /run before, which every user can open, and so lock.
func TestEnginesLockTheirFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can do this")
	}
	testkit.Must(t, lockMachine(quiet, func() error {
		other, err := openLock(machineLock)
		if err != nil {
			return err
		}
		defer other.Close()
		if err := filelock.Lock(t.Context(), other, 0); !errors.Is(err, filelock.ErrLocked) {
			t.Errorf("another engine locks it as well: %v", err)
		}
		return nil
	}))
}
