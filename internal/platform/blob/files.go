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
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/fault"
)

// Kind is what sort of thing a blob is. Keys are unique within a kind.
type Kind int

// The kinds of blobs. Those of Resources are written through AddResources only.
const (
	Packages Kind = iota + 1
	Droplets
	Buildpacks
	BuildCache
	Resources
)

// kinds gives each its folder, and its name in messages.
var kinds = map[Kind]struct{ dir, noun string }{
	Packages:   {"packages", "package"},
	Droplets:   {"droplets", "droplet"},
	Buildpacks: {"buildpacks", "buildpack"},
	BuildCache: {"buildcache", "build cache"},
	Resources:  {"resources", "file"},
}

func (k Kind) String() string {
	if known, ok := kinds[k]; ok {
		return known.noun
	}
	return fmt.Sprintf("blob of kind %d", int(k))
}

const (
	tempDir   = "tmp"
	tempStale = time.Hour
)

// Store keeps blobs in a directory. All its methods can be called at the same time.
type Store struct {
	dir string
	// create makes a temporary file. Tests replace it to see disks fail.
	create func() (tempFile, error)

	pool     PoolLimits
	poolMu   sync.Mutex // held while the pool is measured or made smaller
	poolSize int64      // as far as this process knows
	poolSeen time.Time  // when it was measured
}

type tempFile interface {
	io.Writer
	Name() string
	Sync() error
	Close() error
}

// Option changes what Open does.
type Option func(*Store)

// Open returns the store in dir, which is made if it is not there, and removes
// what was left behind by a crash.
func Open(dir string, options ...Option) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir}
	s.create = func() (tempFile, error) { return os.CreateTemp(filepath.Join(dir, tempDir), "put-") }
	for _, option := range options {
		option(s)
	}
	s.pool = s.pool.withDefaults()
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

// PutOptions are the terms of one Put.
type PutOptions struct {
	// MaxSize is the largest content accepted, in bytes; 0 is any.
	MaxSize int64
}

// Info is about the content of a blob. Checksums are in lower-case hex.
type Info struct {
	Size   int64
	SHA256 string
	SHA1   string
	// Modified is when it was put.
	Modified time.Time
}

// Put stores all of r under key, in place of what was there. When it returns
// without an error the blob is safe on disk; after an error nothing has changed.
//
// It returns fault.Unprocessable for a key that is not made of a-z, 0-9, - and _,
// fault.TooLarge for more than MaxSize, fault.InsufficientStorage if the disk is
// full, the error of ctx, or that of r as it is.
func (s *Store) Put(ctx context.Context, kind Kind, key string, r io.Reader, o PutOptions) (Info, error) {
	if kind == Resources {
		return Info{}, errors.New("blob: resources are put by AddResources")
	}
	to, err := s.path(kind, key)
	if err != nil {
		return Info{}, err
	}
	temp, info, err := s.write(ctx, kind, r, o.MaxSize, true)
	if err != nil {
		return Info{}, err
	}
	if err := s.commit(temp, to, true); err != nil {
		return Info{}, storage(err, kind)
	}
	return info, nil
}

// write makes a temporary file with the content of r and its trailer. There is
// none after an error.
func (s *Store) write(ctx context.Context, kind Kind, r io.Reader, limit int64, sync bool) (name string, info Info, err error) {
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
	size, err := io.CopyBuffer(io.MultiWriter(f, long, short), in, make([]byte, 256<<10))
	switch {
	case in.over:
		return "", Info{}, fault.New(fault.TooLarge, "The %s is larger than the limit of %s", kind, bytesText(limit))
	case in.err != nil:
		return "", Info{}, in.err
	case err != nil:
		return "", Info{}, storage(err, kind)
	}

	end := trailer{size: size, sha256: [32]byte(long.Sum(nil)), sha1: [20]byte(short.Sum(nil))}
	if _, err := f.Write(end.encode()); err != nil {
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
	info = end.info()
	info.Modified = time.Now()
	return f.Name(), info, nil
}

// commit gives a temporary file its name, or removes it.
func (s *Store) commit(temp, to string, sync bool) error {
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
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.Wrap(err, fault.InsufficientStorage,
			"The disk of the server is full (storing the %s): nothing was kept, try again when there is room", kind)
	}
	return fmt.Errorf("store the %s: %w", kind, err)
}

// Blob is an open blob: its content can be read from any place, also by several
// goroutines with ReadAt.
type Blob struct {
	*io.SectionReader
	Info

	file *os.File
}

// Size is the size of the content in bytes.
func (b *Blob) Size() int64 { return b.Info.Size }

// Close releases the file.
func (b *Blob) Close() error { return b.file.Close() }

// Open opens a blob for reading. It returns fault.NotFound if there is none, and
// some other error if it is damaged.
func (s *Store) Open(ctx context.Context, kind Kind, key string) (*Blob, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := s.path(kind, key)
	if err != nil {
		return nil, notFound(kind)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(kind)
	}
	if err != nil {
		return nil, err
	}
	info, err := readTrailer(f)
	if err != nil {
		_ = f.Close() // only read from
		return nil, fmt.Errorf("the %s %s is damaged: %w", kind, key, err)
	}
	return &Blob{SectionReader: io.NewSectionReader(f, 0, info.Size), Info: info, file: f}, nil
}

// Stat is Open for those who need the Info only.
func (s *Store) Stat(ctx context.Context, kind Kind, key string) (Info, error) {
	b, err := s.Open(ctx, kind, key)
	if err != nil {
		return Info{}, err
	}
	return b.Info, b.Close()
}

// Delete removes a blob. That there is none is not an error.
func (s *Store) Delete(ctx context.Context, kind Kind, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := s.path(kind, key)
	if err != nil {
		return nil //nolint:nilerr // nothing can have such a key
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Item is a blob in a list.
type Item struct {
	Key  string
	Size int64
	// Modified is when it was put; of a resource, when it was last used.
	Modified time.Time
}

// List yields the blobs of a kind in no order. It ends after an error. Blobs that
// come or go meanwhile may be there or not.
func (s *Store) List(kind Kind) iter.Seq2[Item, error] {
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

// Size is the sum of the sizes of all blobs of a kind.
func (s *Store) Size(ctx context.Context, kind Kind) (int64, error) {
	var sum int64
	for item, err := range s.List(kind) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return 0, err
		}
		sum += item.Size
	}
	return sum, nil
}

// Swept is what a Sweep removed.
type Swept struct {
	Blobs int
	Size  int64
}

// Sweep removes the blobs of a kind that keep does not want, except those put less
// than olderThan ago: a new blob is there before the record that wants it. It also
// removes what crashes left behind.
func (s *Store) Sweep(ctx context.Context, kind Kind, keep func(key string) bool, olderThan time.Duration) (Swept, error) {
	var swept Swept
	before := time.Now().Add(-olderThan)
	for item, err := range s.List(kind) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return swept, err
		}
		if item.Modified.After(before) || keep(item.Key) {
			continue
		}
		if err := s.Delete(ctx, kind, item.Key); err != nil {
			return swept, err
		}
		swept.Blobs++
		swept.Size += item.Size
	}
	return swept, s.sweepTemp()
}

// sweepTemp removes temporary files that are no longer written to. Another server
// may be using the directory, so that only age decides. An upload that paused for
// that long fails, and nothing worse.
func (s *Store) sweepTemp() error {
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

func (s *Store) folder(kind Kind) string { return filepath.Join(s.dir, kinds[kind].dir) }

func (s *Store) path(kind Kind, key string) (string, error) {
	if kinds[kind].dir == "" {
		return "", fmt.Errorf("blob: no such kind: %d", kind)
	}
	if !validKey(key) {
		return "", fault.New(fault.Unprocessable, "%q cannot be the key of a %s: a key is 1 to 128 of a-z, 0-9, - and _", key, kind)
	}
	return filepath.Join(s.folder(kind), key), nil
}

// validKey keeps keys apart from paths, and apart from each other on file systems
// that do not know upper from lower case.
func validKey(key string) bool {
	if key == "" || len(key) > 128 {
		return false
	}
	for _, c := range []byte(key) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func notFound(kind Kind) error { return fault.New(fault.NotFound, "The %s is not stored here", kind) }

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
