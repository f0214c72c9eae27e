package blob

import (
	"context"
	"crypto/sha1" //nolint:gosec // Cloud Foundry's API shows it, and clients name files by it; doc.go says what that is worth
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"ingot/internal/base/fault"
)

const (
	tempDir   = "tmp"
	tempStale = 2 * time.Hour // more than a jump of the clock by an hour
)

// Files keeps blobs in a directory.
type Files struct {
	dir string
	// create makes a temporary file. Tests replace it to see disks fail.
	create func() (tempFile, error)

	limits PoolLimits
	pool   bound // of Resources
	cache  bound // of all kinds, if this is a cache
}

var _ Store = (*Files)(nil)

type tempFile interface {
	io.Writer
	Name() string
	Sync() error
	Close() error
}

// Open returns the store in dir, which is created if missing, and removes
// what was left behind by a crash.
func Open(dir string) (*Files, error) { return open(dir, PoolLimits{}) }

// OpenCache returns a store in dir that is bounded: when its blobs together are
// larger than size, or the disk is full, those that were not used for longest are
// removed.
func OpenCache(dir string, size int64) (*Files, error) {
	s, err := open(dir, PoolLimits{})
	if err != nil {
		return nil, err
	}
	s.cache.limit = size
	return s, nil
}

func open(dir string, limits PoolLimits) (*Files, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Files{dir: dir, limits: limits.WithDefaults()}
	s.create = func() (tempFile, error) { return os.CreateTemp(filepath.Join(dir, tempDir), "put-") }
	s.pool = bound{files: s, limit: s.limits.Size, kinds: []Kind{Resources}}
	s.cache = bound{files: s, kinds: []Kind{Packages, Droplets, Buildpacks, BuildCache, Resources, Repositories}}
	for _, kind := range kinds {
		if err := os.MkdirAll(filepath.Join(dir, kind.dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, tempDir), 0o700); err != nil {
		return nil, err
	}
	if err := syncDir(dir); err != nil {
		return nil, err
	}
	if err := s.sweepTemp(); err != nil {
		return nil, err
	}
	return s, nil
}

// Put implements Store. When it returns without an error the blob is safe on disk.
func (s *Files) Put(ctx context.Context, kind Kind, key string, r io.Reader, o PutOptions) (Info, error) {
	if kind == Resources {
		return Info{}, errors.New("blob: resources are put by AddResources")
	}
	if err := CheckKey(kind, key); err != nil {
		return Info{}, err
	}
	spooled, err := s.Spool(ctx, kind, r, o.MaxSize)
	if err != nil {
		return Info{}, err
	}
	defer spooled.Discard()
	if o.Once {
		// The servers of a directory never put one key at the same time.
		old, err := s.Stat(ctx, kind, key)
		if err == nil && !old.Same(spooled.Info) {
			return Info{}, Exists(kind)
		}
	}
	return spooled.Info, spooled.Keep(ctx, key)
}

// Spooled is content in a temporary file, with its checksums.
type Spooled struct {
	Info

	files *Files
	kind  Kind
	name  string // empty after Keep and Discard
}

// Spool writes the content of r to a temporary file, which the caller has to Keep
// or Discard. The errors are those of Put.
func (s *Files) Spool(ctx context.Context, kind Kind, r io.Reader, limit int64) (*Spooled, error) {
	name, info, err := s.write(ctx, kind, r, limit, true)
	if err != nil {
		return nil, err
	}
	return &Spooled{Info: info, files: s, kind: kind, name: name}, nil
}

// Open opens the content for reading.
func (s *Spooled) Open() (*Blob, error) { return openFile(s.name) }

// Keep makes the content a blob, in place of what was there.
func (s *Spooled) Keep(ctx context.Context, key string) error {
	if s.files.cache.limit > 0 {
		if err := s.files.cache.makeRoom(ctx, s.Size); err != nil {
			return err
		}
	}
	name := s.name
	s.name = ""
	if err := s.files.commit(name, s.files.path(s.kind, key), true); err != nil {
		return storage(err, s.kind)
	}
	return nil
}

// Discard removes the content, unless it was kept.
func (s *Spooled) Discard() {
	if s.name != "" {
		os.Remove(s.name)
		s.name = ""
	}
}

// write makes a temporary file with the content of r and its trailer. There is
// none after an error.
func (s *Files) write(ctx context.Context, kind Kind, r io.Reader, limit int64, sync bool) (name string, info Info,
	err error) {
	f, err := s.create()
	if err != nil {
		return "", Info{}, storage(err, kind)
	}
	open := true
	defer func() {
		if err != nil {
			if open {
				_ = f.Close() // the first error is the one that matters
			}
			os.Remove(f.Name())
		}
	}()

	in := &source{ctx: ctx, r: r, left: limit, limited: limit > 0}
	long, short := sha256.New(), sha1.New() //nolint:gosec // see the import
	out := &roomy{ctx, f, s}
	size, err := io.CopyBuffer(io.MultiWriter(out, long, short), in, make([]byte, 256<<10))
	switch {
	case in.over:
		return "", Info{}, fault.New(fault.TooLarge, "The %s is larger than the limit of %s", kind, bytesText(limit))
	case in.err != nil:
		return "", Info{}, in.err
	case err != nil:
		return "", Info{}, storage(err, kind)
	}

	end := trailer{size: size, sha256: [32]byte(long.Sum(nil)), sha1: [20]byte(short.Sum(nil))}
	if _, err := out.Write(end.encode()); err != nil {
		return "", Info{}, storage(err, kind)
	}
	if sync {
		if err := f.Sync(); err != nil {
			return "", Info{}, storage(err, kind)
		}
	}
	open = false
	if err := f.Close(); err != nil {
		return "", Info{}, storage(err, kind)
	}
	return f.Name(), end.info(), nil
}

// roomy writes to a file. If the disk is full, it removes what a cache can do
// without and tries again.
type roomy struct {
	ctx   context.Context
	f     tempFile
	files *Files
}

func (r *roomy) Write(p []byte) (int, error) {
	n, err := r.f.Write(p)
	for fault.IsDiskFull(err) && r.files.cache.limit > 0 && r.files.cache.free(r.ctx) {
		var more int
		more, err = r.f.Write(p[n:])
		n += more
	}
	return n, err
}

// commit gives a temporary file its name, or removes it.
func (s *Files) commit(temp, to string, sync bool) error {
	if err := os.Rename(temp, to); err != nil {
		os.Remove(temp)
		return err
	}
	if sync {
		return syncDir(filepath.Dir(to))
	}
	return nil
}

// source is what is put. It remembers its own errors, to tell them from those of
// the disk.
type source struct {
	ctx     context.Context
	r       io.Reader
	left    int64
	limited bool
	over    bool
	err     error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err = s.ctx.Err(); s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if s.left -= int64(n); s.limited && s.left < 0 {
		s.over = true
		return 0, errors.New("too large")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// storage gives a failure of the disk its meaning.
func storage(err error, kind Kind) error {
	if fault.IsDiskFull(err) {
		return fault.Wrap(err, fault.InsufficientStorage,
			"The disk of the server is full (storing the %s): nothing was kept, try again when there is room", kind)
	}
	return fmt.Errorf("store the %s: %w", kind, err)
}

// Open implements Store.
func (s *Files) Open(ctx context.Context, kind Kind, key string) (*Blob, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if CheckKey(kind, key) != nil {
		return nil, NotFound(kind)
	}
	name := s.path(kind, key)
	b, err := openFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, NotFound(kind)
	case err != nil:
		return nil, fmt.Errorf("open the %s %s: %w", kind, key, err)
	case s.cache.limit > 0:
		now := time.Now()
		_ = os.Chtimes(name, now, now) // it may have been removed meanwhile
	}
	return b, nil
}

func openFile(name string) (*Blob, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := readTrailer(f)
	if err != nil {
		_ = f.Close() // only read from
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	return &Blob{SectionReader: io.NewSectionReader(f, 0, info.Size), Info: info, file: f}, nil
}

// Stat implements Store.
func (s *Files) Stat(ctx context.Context, kind Kind, key string) (Info, error) {
	b, err := s.Open(ctx, kind, key)
	if err != nil {
		return Info{}, err
	}
	return b.Info, b.Close()
}

// Delete implements Store.
func (s *Files) Delete(ctx context.Context, kind Kind, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if CheckKey(kind, key) != nil {
		return nil //nolint:nilerr // nothing can have such a key
	}
	if err := os.Remove(s.path(kind, key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List implements Store.
func (s *Files) List(_ context.Context, kind Kind) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		f, err := os.Open(s.folder(kind))
		if err != nil {
			yield(Item{}, err)
			return
		}
		defer f.Close()
		for {
			entries, err := f.ReadDir(256)
			for _, entry := range entries {
				info, err := entry.Info()
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					yield(Item{}, err)
					return
				}
				if !info.Mode().IsRegular() || !validKey(entry.Name()) {
					continue // not ours
				}
				if !yield(Item{entry.Name(), max(0, info.Size()-trailerSize), info.ModTime()}, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Item{}, err)
				return
			}
		}
	}
}

// Sweep implements Store.
func (s *Files) Sweep(ctx context.Context, kind Kind, unused func([]string) ([]string, error),
	olderThan time.Duration) (Swept, error) {
	return SweepBefore(ctx, s, kind, unused, time.Now().Add(-olderThan))
}

// Tidy implements Store.
func (s *Files) Tidy(context.Context) error { return s.sweepTemp() }

// sweepTemp removes temporary files that are no longer written to. Another server
// may be using the directory, so that only age decides. An upload that paused for
// that long fails, and nothing worse.
func (s *Files) sweepTemp() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, tempDir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < tempStale {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, tempDir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Dir is the directory.
func (s *Files) Dir() string { return s.dir }

func (s *Files) folder(kind Kind) string { return filepath.Join(s.dir, kind.Dir()) }

func (s *Files) path(kind Kind, key string) string { return filepath.Join(s.folder(kind), key) }

// syncDir makes the names in a directory safe.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func hexText(b []byte) string { return hex.EncodeToString(b) }
