package watch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"ingot/internal/cli/watch"
)

// wait waits for a change, as long as it takes.
func wait(t *testing.T, f *watch.Folders) {
	t.Helper()
	if err := f.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	must(t, os.Mkdir(sub, 0o700))
	f := watch.New(time.Millisecond, time.Millisecond)
	t.Cleanup(func() { must(t, f.Close()) })
	f.Set([]string{dir, sub})
	name := filepath.Join(dir, "a")
	for _, change := range []func(){
		func() { write(t, name, "1") },
		func() { write(t, name, "2") },
		func() {
			if runtime.GOOS == "windows" { // it has no such mode
				write(t, name, "3")
				return
			}
			must(t, os.Chmod(name, 0o700))
		},
		func() { // as editors save
			write(t, name+".tmp", "3")
			must(t, os.Rename(name+".tmp", name))
		},
		func() {
			if runtime.GOOS == "windows" { // it allows links to administrators only
				write(t, filepath.Join(dir, "link"), "1")
				return
			}
			must(t, os.Symlink("a", filepath.Join(dir, "link")))
		},
		func() { write(t, filepath.Join(sub, "b"), "1") },
		func() { must(t, os.Remove(name)) },
		func() { must(t, os.Mkdir(filepath.Join(dir, "new"), 0o700)) },
		func() {
			f.Set([]string{dir, sub, filepath.Join(dir, "new")})
			write(t, filepath.Join(dir, "new", "c"), "1")
		},
		func() { must(t, os.RemoveAll(sub)) },
	} {
		change()
		wait(t, f)
	}
	if err := f.Degraded(); err != nil {
		t.Error(err)
	}
}

// TestOneForMany: what happens until Wait is called is reported together.
func TestOneForMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := watch.New(50*time.Millisecond, time.Millisecond)
	t.Cleanup(func() { must(t, f.Close()) })
	f.Set([]string{dir})
	for range 50 {
		write(t, filepath.Join(dir, "a"), "x")
	}
	wait(t, f)
	f.Set(nil) // nothing is watched any more
	ctx, cancel := context.WithCancel(t.Context())
	write(t, filepath.Join(dir, "a"), "y")
	cancel()
	if err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
		// At most an event from before Set can be left.
		if err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

// TestBusy: a file that is written all the time does not hide that something changed.
func TestBusy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := watch.New(time.Minute, time.Millisecond)
	t.Cleanup(func() { must(t, f.Close()) })
	f.Set([]string{dir})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(filepath.Join(dir, "log"), []byte("x"), 0o600) // the directory may be gone at the end
			}
		}
	}()
	wait(t, f)
	close(stop)
	<-done
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	f := watch.New(time.Minute, time.Minute)
	t.Cleanup(func() { must(t, f.Close()) })
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := f.Wait(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
