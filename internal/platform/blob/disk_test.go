package blob

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

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
			if _, err := s.AddResources(t.Context(), "me", fstest.MapFS{"f": {Data: make([]byte, 600_000)}}); test.disk.sync == nil && err == nil {
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
	if _, err := s.Put(t.Context(), Packages, "a", strings.NewReader("new"), PutOptions{}); !fault.Is(err, fault.InsufficientStorage) {
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
func intact(t *testing.T, s *Store) {
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
	if _, err := s.Put(t.Context(), Packages, "a", strings.NewReader("x"), PutOptions{}); !fault.Is(err, fault.InsufficientStorage) {
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
