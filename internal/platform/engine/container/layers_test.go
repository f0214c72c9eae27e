//go:build linux

package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
)

// tarOf packs files of the given size, and the links among them.
func tarOf(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, h := range headers {
		h.Mode = 0o755
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func archiveOf(content []byte) engine.Archive {
	return engine.Archive{Key: "droplet",
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }}
}

// Whatever is wrong with an archive is an error of this one call, and the layer
// is not held after it.
func TestLayerThatCannotBeMade(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("layers are owned by another user: needs root")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	good := tarOf(t, &tar.Header{Name: "./app/a", Typeflag: tar.TypeReg, Size: 100})
	unreadable := errors.New("the blob is gone")
	for name, test := range map[string]struct {
		ctx     context.Context //nolint:containedctx // of one case
		archive engine.Archive
		panics  bool
	}{
		"larger than the disk": {t.Context(), archiveOf(tarOf(t, &tar.Header{Name: "./app/a", Typeflag: tar.TypeReg,
			Size: 2 << 20})), false},
		"an entry below a link": {t.Context(), archiveOf(tarOf(t,
			&tar.Header{Name: "./app/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
			&tar.Header{Name: "./app/l/passwd", Typeflag: tar.TypeReg, Size: 1})), false},
		"cut off":           {t.Context(), archiveOf(good[:len(good)/2]), false},
		"no archive at all": {t.Context(), archiveOf([]byte("hello")), false},
		"stopped meanwhile": {ended, archiveOf(good), false},
		"unreadable": {t.Context(), engine.Archive{Key: "droplet", Open: func() (io.ReadCloser, error) {
			return nil, unreadable
		}}, false},
		"panics": {t.Context(), engine.Archive{Key: "droplet", Open: func() (io.ReadCloser, error) { panic("here") }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := openLayers(t.TempDir(), 0)
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() {
					if p := recover(); (p != nil) != test.panics {
						t.Errorf("it panicked: %v", p)
					}
				}()
				if _, _, err = l.get(test.ctx, contentOf(test.archive, 1<<20)); err == nil {
					t.Error("no error")
				}
			}()
			if len(l.using) != 0 {
				t.Errorf("still in use: %v", l.using)
			}
			// The next one gets it.
			_, release, err := l.get(t.Context(), contentOf(archiveOf(good), 1<<20))
			if err != nil {
				t.Fatal(err)
			}
			if len(l.using) != 1 {
				t.Errorf("in use: %v", l.using)
			}
			release()
			if err := l.prune(func(string) bool { return false }); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("while another unpacks", func(t *testing.T) {
		t.Parallel()
		l, err := openLayers(t.TempDir(), 0)
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := l.keyed.Lock(t.Context(), layerID(archiveOf(good)))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if _, _, err := l.get(ended, contentOf(archiveOf(good), 1<<20)); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want %v", err, context.Canceled)
		}
		if len(l.using) != 0 {
			t.Errorf("still in use: %v", l.using)
		}
	})
}

// A layer that does not fit on the disk leaves nothing behind, and the next one has the room.
func TestLayerOnAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a small disk cannot be mounted: needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=711"); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	l, err := openLayers(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	layer := func(size int64) content {
		a := archiveOf(tarOf(t, &tar.Header{Name: "./app/first", Typeflag: tar.TypeReg, Size: 1000},
			&tar.Header{Name: "./app/a", Typeflag: tar.TypeReg, Size: size}))
		a.Key = fmt.Sprint(size)
		return contentOf(a, 64<<20)
	}
	for range 3 {
		if _, _, err := l.get(t.Context(), layer(8<<20)); !fault.Is(err, fault.InsufficientStorage) {
			t.Fatalf("a layer larger than the disk: %v, want %s", err, fault.InsufficientStorage)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(left) != 0 {
			t.Fatalf("left over: %v, %v", left, err)
		}
	}
	_, release, err := l.get(t.Context(), layer(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// Files that a change replaces count once: an app that just fits into its disk still fits after
// it was pushed again.
func TestReplacedFilesCountOnce(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("files are given to another user, which needs root")
	}
	l, err := openLayers(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{layers: l, sharing: true}
	file := func(name string, size int64) *tar.Header {
		return &tar.Header{Name: "./app/" + name, Typeflag: tar.TypeReg, Size: size}
	}
	base := archiveOf(tarOf(t, file("program", 4<<20), file("other", 1<<20)))
	change := archiveOf(tarOf(t, file("program", 3<<20), file("new", 1<<20)))
	change.Key = "change"
	for changes, want := range map[bool]int64{true: 5, false: 9} {
		change.Changes = changes
		var held layerHolds
		shared, _, err := e.splitArchives(t.Context(), []engine.Archive{base, change}, 64<<20, &held)
		held.releaseUnlessKept()
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, one := range shared {
			sum += one.Size
		}
		if sum>>20 != want {
			t.Errorf("changes %t: %d bytes, want about %d MiB", changes, sum, want)
		}
	}
}
