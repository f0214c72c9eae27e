package blob

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"ingot/internal/base/fault"
)

// sick is a temporary file on a disk that fails.
type sick struct {
	*os.File
	room             int // bytes that can be written, -1 for any
	full             error
	sync, closeError error
}

func (s *sick) Write(p []byte) (int, error) {
	if s.room >= 0 && len(p) > s.room {
		n, _ := s.File.Write(p[:s.room])
		s.room = 0
		return n, s.full
	}
	if s.room >= 0 {
		s.room -= len(p)
	}
	return s.File.Write(p)
}

func (s *sick) Sync() error  { return errors.Join(s.sync, s.File.Sync()) }
func (s *sick) Close() error { return errors.Join(s.closeError, s.File.Close()) }

func TestDiskFails(t *testing.T) {
	t.Parallel()
	full := &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for name, test := range map[string]struct {
		disk sick
		want fault.Code
	}{
		"full at once":       {sick{room: 0, full: full}, fault.InsufficientStorage},
		"full in between":    {sick{room: 300_000, full: full}, fault.InsufficientStorage},
		"full in the end":    {sick{room: 500_000, full: full}, fault.InsufficientStorage},
		"full in trailer":    {sick{room: 500_030, full: full}, fault.InsufficientStorage},
		"quota":              {sick{room: 10, full: syscall.EDQUOT}, fault.InsufficientStorage},
		"full when synced":   {sick{room: -1, sync: full}, fault.InsufficientStorage},
		"full when closed":   {sick{room: -1, closeError: full}, fault.InsufficientStorage},
		"broken":             {sick{room: 10, full: syscall.EIO}, fault.Internal},
		"broken when synced": {sick{room: -1, sync: syscall.EIO}, fault.Internal},
		"short write":        {sick{room: 10}, fault.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Put(t.Context(), Packages, "a", strings.NewReader("old"), PutOptions{}); err != nil {
				t.Fatal(err)
			}
			well := s.create
			s.create = func() (tempFile, error) {
				f, err := well()
				if err != nil {
					return nil, err
				}
				broken := test.disk
				broken.File = f.(*os.File) //nolint:errorlint,forcetypeassert // it is
				return &broken, nil
			}
			_, err = s.Put(t.Context(), Packages, "a", strings.NewReader(strings.Repeat("x", 500_000)), PutOptions{})
			if fault.CodeOf(err) != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
			var e *fault.Error
			if errors.As(err, &e) && !strings.HasPrefix(e.Message, "The disk of the server is full (storing the package)") {
				t.Errorf("message %q", e.Message)
			}
			if _, err := s.AddResources(t.Context(), "me",
				fstest.MapFS{"f": {Data: make([]byte, 600_000)}}); test.disk.sync == nil && err == nil {
				t.Error("a resource was added")
			}
			intact(t, s)
		})
	}
}

// TestFullDevice has the kernel's own error.
func TestFullDevice(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), Packages, "a", strings.NewReader("old"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s.create = func() (tempFile, error) {
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		return device{f, filepath.Join(s.dir, tempDir, "none")}, err
	}
	if _, err := s.Put(t.Context(), Packages, "a", strings.NewReader("new"),
		PutOptions{}); !fault.Is(err, fault.InsufficientStorage) {
		t.Errorf("got %v", err)
	}
	intact(t, s)
}

// device is not removed when it is done with.
type device struct {
	*os.File
	name string
}

func (d device) Name() string { return d.name }

// intact sees that the old blob is there, and nothing else.
func intact(t *testing.T, s *Files) {
	t.Helper()
	b, err := s.Open(t.Context(), Packages, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if content, err := io.ReadAll(b); string(content) != "old" || err != nil {
		t.Errorf("the old blob is %q, %v", content, err)
	}
	left, err := os.ReadDir(filepath.Join(s.dir, tempDir))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNoTemporaryFile(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.create = func() (tempFile, error) { return nil, &os.PathError{Op: "open", Err: syscall.ENOSPC} }
	if _, err := s.Put(t.Context(), Packages, "a", strings.NewReader("x"),
		PutOptions{}); !fault.Is(err, fault.InsufficientStorage) {
		t.Errorf("got %v", err)
	}
}

// TestRenameFails: without its folder a blob cannot get its name.
func TestRenameFails(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.folder(Packages), "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), Packages, "a", strings.NewReader("x"), PutOptions{}); err == nil {
		t.Error("put in the place of a folder")
	}
	if left, err := os.ReadDir(filepath.Join(s.dir, tempDir)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestCacheOnAFullDisk: a cache makes room for what is wanted now.
func TestCacheOnAFullDisk(t *testing.T) {
	t.Parallel()
	s, err := OpenCache(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		key := string(rune('a' + i))
		if _, err := s.Put(t.Context(), Packages, key, strings.NewReader(strings.Repeat(key, 100_000)),
			PutOptions{}); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(s.path(Packages, key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	well := s.create
	s.create = func() (tempFile, error) {
		f, err := well()
		if err != nil {
			return nil, err
		}
		return &crowded{f.(*os.File), s}, nil //nolint:errorlint,forcetypeassert // it is
	}
	// There is room for 4 of 100,000 bytes.
	if _, err := s.Put(t.Context(), Droplets, "new", strings.NewReader(strings.Repeat("n", 200_000)),
		PutOptions{}); err != nil {
		t.Fatal(err)
	}
	var left []string
	for item, err := range s.List(t.Context(), Packages) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, item.Key)
	}
	slices.Sort(left)
	if want := []string{"d", "e"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
	// What does not fit even alone does not fit.
	if _, err := s.Put(t.Context(), Droplets, "huge", strings.NewReader(strings.Repeat("n", 500_000)),
		PutOptions{}); !fault.Is(err, fault.InsufficientStorage) {
		t.Errorf("got %v, want %s", err, fault.InsufficientStorage)
	}
	if names, err := os.ReadDir(filepath.Join(s.dir, tempDir)); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// crowded is a temporary file on a disk that has room for 400,072 bytes of blobs.
type crowded struct {
	*os.File
	store *Files
}

func (c *crowded) Write(p []byte) (int, error) {
	used := int64(len(p))
	for _, kind := range c.store.cache.kinds {
		for item, err := range c.store.List(context.Background(), kind) {
			if err != nil {
				return 0, err
			}
			used += item.Size
		}
	}
	if info, err := c.Stat(); err != nil || used+info.Size() > 400_000+trailerSize {
		return 0, errors.Join(err, syscall.ENOSPC)
	}
	return c.File.Write(p)
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(s *Files, i int) {
		t.Helper()
		if _, err := s.Put(t.Context(), []Kind{Packages, Droplets}[i%2], "key-"+strconv.Itoa(i),
			strings.NewReader(strings.Repeat("x", 10_000)), PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	all := func(s *Files) (keys []string) {
		for _, kind := range s.cache.kinds {
			for item, err := range s.List(t.Context(), kind) {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, item.Key)
			}
		}
		slices.Sort(keys)
		return keys
	}
	s, err := OpenCache(dir, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		put(s, i)
		old := time.Now().Add(time.Duration(i-20) * time.Minute)
		if err := os.Chtimes(s.path([]Kind{Packages, Droplets}[i%2], "key-"+strconv.Itoa(i)), old, old); err != nil {
			t.Fatal(err)
		}
	}
	// It survives a restart, and what was opened last stays.
	if s, err = OpenCache(dir, 100_000); err != nil {
		t.Fatal(err)
	}
	b, err := s.Open(t.Context(), Packages, "key-0")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	put(s, 10)
	if got, want := all(s), []string{"key-0", "key-10", "key-3", "key-4", "key-5", "key-6", "key-7", "key-8",
		"key-9"}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	// A smaller bound takes effect after a restart.
	if s, err = OpenCache(dir, 30_000); err != nil {
		t.Fatal(err)
	}
	put(s, 11)
	if got := all(s); len(got) != 2 || !slices.Contains(got, "key-11") {
		t.Errorf("kept %v, want 2 with key-11", got)
	}
}
