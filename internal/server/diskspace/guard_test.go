package diskspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/fault"
)

// disk is a file system of 1000 MiB in which files of the guard count.
type disk struct {
	dir   string
	other int64 // what everybody else uses
}

const mib = 1 << 20

func (d *disk) measure(string) (int64, int64, error) {
	used := d.other
	for _, name := range []string{reserveFile, startFile} {
		if info, err := os.Stat(filepath.Join(d.dir, name)); err == nil {
			used += info.Size()
		}
	}
	return 1000 * mib, max(0, 1000*mib-used), nil
}

func (d *disk) has(name string) bool {
	_, err := os.Stat(filepath.Join(d.dir, name))
	return err == nil
}

func TestGuard(t *testing.T) {
	t.Parallel()
	d := &disk{dir: t.TempDir()}
	open := func() *Guard {
		t.Helper()
		g, err := Open(Options{Dir: d.dir, Reserve: 64 * mib, Measure: d.measure})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := open()
	look := func(other int64, state State, room, ready bool, files ...string) {
		t.Helper()
		d.other = other
		if err := g.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, _ := g.State()
		if got != state || (g.Room() == nil) != room || (g.Ready(t.Context()) == nil) != ready {
			t.Errorf("state %v, room %v, ready %v; want %v, %v, %v", got, g.Room(), g.Ready(t.Context()), state, room, ready)
		}
		if err := g.Room(); err != nil && !fault.Is(err, fault.InsufficientStorage) {
			t.Errorf("refused with %v", err)
		}
		for _, name := range []string{reserveFile, startFile} {
			want := false
			for _, f := range files {
				want = want || f == name
			}
			if d.has(name) != want {
				t.Errorf("%s exists: %v, want %v", name, d.has(name), want)
			}
		}
	}
	look(100*mib, Enough, true, true, reserveFile, startFile)
	look(940*mib, Low, false, true, reserveFile, startFile)
	if len(g.low) != 1 {
		t.Error("low space asks for no sweep")
	}
	look(989*mib, Full, false, false, startFile) // the reserve is given back ...
	look(989*mib, Full, false, false, startFile)
	look(1000*mib, Full, false, false, startFile) // ... and eaten
	for range startParts - 1 {
		g = open() // each server that starts now has a part of the rest
		look(1000*mib, Full, false, false, startFile)
	}
	g = open()
	look(1000*mib, Full, false, false)
	d.other -= 3 * mib // what the databases give back at the end is kept for the next start
	g.Restock()
	look(998*mib, Full, false, false, startFile)
	g = open()
	if err := os.Remove(filepath.Join(d.dir, startFile)); err != nil {
		t.Fatal(err)
	}
	look(930*mib, Enough, true, true) // too little to take some of it away again
	look(500*mib, Enough, true, true, reserveFile, startFile)
}

// A sweep that takes long, or fails, does not hold up the watch.
func TestWatchGoesOnDuringASweep(t *testing.T) {
	t.Parallel()
	swept, measured := make(chan struct{}), make(chan struct{})
	var sweeps atomic.Int32
	g, err := Open(Options{Dir: t.TempDir(), Reserve: mib, Every: time.Millisecond,
		Relieve: func(ctx context.Context) {
			if sweeps.Add(1) == 1 {
				panic("a sweep that fails")
			}
			close(swept)
			<-ctx.Done()
		},
		Measure: func(string) (int64, int64, error) {
			select {
			case <-swept:
				select {
				case measured <- struct{}{}:
				default:
				}
			default:
			}
			return 10 * mib, 1, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-measured
	g.Stop()
}

func TestReserveFollowsTheSize(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int64{1000 * mib: 50 * mib, 1 << 40: maxReserve} {
		g, err := Open(Options{Dir: t.TempDir(), Measure: func(string) (int64, int64, error) { return size, 0, nil }})
		if err != nil || g.o.Reserve != want {
			t.Errorf("of %d bytes %d are kept free, %v; want %d", size, g.o.Reserve, err, want)
		}
	}
}

// The real file system takes the file, with its blocks.
func TestAllocate(t *testing.T) {
	t.Parallel()
	g, err := Open(Options{Dir: t.TempDir(), Reserve: mib})
	if err != nil {
		t.Fatal(err)
	}
	if state, free := g.State(); state != Enough || free <= 0 {
		t.Skipf("no room here to try: %v, %d", state, free)
	}
	info, err := os.Stat(filepath.Join(g.o.Dir, reserveFile))
	if err != nil || info.Size() != mib/fileShare {
		t.Errorf("reserve is %v, %v, want %d bytes", info, err, mib/fileShare)
	}
}

func TestHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		t.Helper()
		g, err := Open(Options{Dir: t.TempDir(), Reserve: mib, Every: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		return g
	})
}

func TestStates(t *testing.T) {
	t.Parallel()
	for s, want := range map[State]string{Enough: "enough", Low: "low", Full: "full", 7: "State(7)"} {
		if s.String() != want {
			t.Errorf("%d is %q, want %q", int(s), s, want)
		}
	}
}

// Space that was freed after the last check counts at once.
func TestRoomMeasuresAgain(t *testing.T) {
	t.Parallel()
	d := &disk{dir: t.TempDir()}
	g, err := Open(Options{Dir: d.dir, Reserve: 64 * mib, Measure: d.measure})
	if err != nil {
		t.Fatal(err)
	}
	_, free, err := d.measure(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	d.other += free - 10*mib
	if err := g.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Room(); !fault.Is(err, fault.InsufficientStorage) {
		t.Errorf("with 10 MiB free: %v, want InsufficientStorage", err)
	}
	d.other -= 100 * mib
	if err := g.Room(); err != nil {
		t.Errorf("with 110 MiB free, before the next check: %v, want no error", err)
	}
}

// A directory that cannot be written to is not ready. The probe leaves nothing.
func TestReadyWrites(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := Open(Options{Dir: dir, Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v, want none", err)
	}
	if _, err := os.Stat(filepath.Join(dir, probeFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the probe's file: %v, want none", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := g.Ready(t.Context()); err != nil {
		t.Errorf("Ready shortly after: %v, want no new probe", err)
	}
	g.probed = time.Time{}
	if err := g.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be written to") {
		t.Errorf("Ready: %v, want that it cannot be written to", err)
	}
}

// What is held for a file is there when the disk is full, and its size stays as it is.
func TestHold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := Open(Options{Dir: dir, Reserve: 8 * mib})
	if err != nil {
		t.Fatal(err)
	}
	g.Hold(path)
	g.Hold(filepath.Join(dir, "none")) // is not created
	info, err := os.Stat(path)
	if err != nil || info.Size() != 4 {
		t.Fatalf("%v, %v, want the size of before", info, err)
	}
	if got := allocated(info); got < mib {
		t.Skipf("the file system cannot hold blocks: %d of %d bytes", got, mib)
	}
	// A file that begins anew has them again when there is enough space.
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || allocated(info) < mib {
		t.Errorf("%v, %v, want %d bytes allocated again", info, err, mib)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that did not exist: %v, want none", err)
	}
}
