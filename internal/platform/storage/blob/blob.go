package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
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
	Repositories
)

// kinds gives each its folder, and its name in messages.
var kinds = map[Kind]struct{ dir, noun string }{
	Packages:     {"packages", "package"},
	Droplets:     {"droplets", "droplet"},
	Buildpacks:   {"buildpacks", "buildpack"},
	BuildCache:   {"buildcache", "build cache"},
	Resources:    {"resources", "file"},
	Repositories: {"repositories", "repository"},
}

func (k Kind) String() string {
	if known, ok := kinds[k]; ok {
		return known.noun
	}
	return fmt.Sprintf("blob of kind %d", int(k))
}

// Dir is the folder of the kind, also as part of the names of objects.
func (k Kind) Dir() string { return kinds[k].dir }

// Store keeps blobs. All its methods can be called at the same time, and return
// the error of ctx when it ends first. Package blobtest is its specification.
type Store interface {
	// Put stores all of r under key, in place of what was there. When it returns
	// without an error the blob is safe; after an error nothing has changed.
	//
	// It returns fault.Unprocessable for a key that is not made of a-z, 0-9, - and _,
	// fault.TooLarge for more than MaxSize, fault.Conflict (see PutOptions),
	// fault.InsufficientStorage if the server's disk is full, fault.Unavailable if
	// the store does not answer, or the error of r as it is.
	Put(ctx context.Context, kind Kind, key string, r io.Reader, o PutOptions) (Info, error)
	// Open opens a blob for reading. It returns fault.NotFound if there is none,
	// fault.Unavailable if the store does not answer, and some other error if the
	// blob is damaged.
	Open(ctx context.Context, kind Kind, key string) (*Blob, error)
	// Stat is Open for callers that need the Info only.
	Stat(ctx context.Context, kind Kind, key string) (Info, error)
	// Delete removes a blob. That there is none is not an error.
	Delete(ctx context.Context, kind Kind, key string) error
	// List yields the blobs of a kind in no order. It ends after an error. Blobs that
	// come or go meanwhile may be there or not.
	List(ctx context.Context, kind Kind) iter.Seq2[Item, error]
	// Sweep removes blobs of a kind that were put more than olderThan ago: a new
	// blob is there before the record that wants it. Unused gets the keys of those
	// and returns which of them to remove. A store may wait longer than asked.
	Sweep(ctx context.Context, kind Kind, unused func(keys []string) ([]string, error),
		olderThan time.Duration) (Swept, error)
	// Tidy removes what crashes left behind on this machine.
	Tidy(ctx context.Context) error
	Pool
}

// Purger is a Store of several servers, of which one has to remove what crashes left behind
// there, and resources that were not used for long.
type Purger interface {
	Purge(ctx context.Context) error
}

// Pool has the files that clients need not upload again. See the package comment
// on what to use as scope.
type Pool interface {
	// Match returns those of the files that the scope's pool has, in their order.
	// They count as used now, and so stay for as long as an upload takes.
	Match(ctx context.Context, scope string, files []Resource) ([]Resource, error)
	// OpenResource opens a file of the scope's pool, which has the checksum of r. It
	// returns fault.NotFound if there is none, or it was damaged.
	OpenResource(ctx context.Context, scope string, r Resource) (*Blob, error)
	// AddResources adds the regular files of fsys to the scope's pool and returns how
	// many of them were new. Fsys must not lead outside what the scope has uploaded:
	// use a zip.Reader of a package, or the FS of an os.Root.
	//
	// The pool is a cache. A caller may well go on after an error.
	AddResources(ctx context.Context, scope string, fsys fs.FS) (int, error)
}

// Signer returns a URL with which anyone can download a blob for some minutes, with
// these headers.
type Signer func(ctx context.Context, kind Kind, key, disposition, contentType string) (string, error)

// PutOptions are the terms of one Put.
type PutOptions struct {
	// MaxSize is the largest content accepted, in bytes; 0 is any.
	MaxSize int64
	// Once refuses to replace a blob that has other content with fault.Conflict.
	Once bool
}

// Info is about the content of a blob. Checksums are in lower-case hex.
type Info struct {
	Size   int64
	SHA256 string
	SHA1   string
}

// Same reports whether two blobs have the same content.
func (i Info) Same(other Info) bool { return i.SHA256 == other.SHA256 && i.Size == other.Size }

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

// Item is a blob in a list.
type Item struct {
	Key  string
	Size int64
	// Modified is when it was put; of a resource, when it was last used.
	Modified time.Time
}

// Swept is what a Sweep removed.
type Swept struct {
	Blobs int
	Size  int64
}

// SweepBefore implements Sweep with List and Delete, for blobs put before a time by
// the store's clock.
func SweepBefore(ctx context.Context, s Store, kind Kind, unused func([]string) ([]string, error),
	before time.Time) (Swept, error) {
	var swept Swept
	var keys []string
	sizes := map[string]int64{}
	for item, err := range s.List(ctx, kind) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return swept, err
		}
		if !item.Modified.After(before) {
			keys, sizes[item.Key] = append(keys, item.Key), item.Size
		}
	}
	if len(keys) == 0 {
		return swept, nil
	}
	gone, err := unused(keys)
	if err != nil {
		return swept, err
	}
	for _, key := range gone {
		if err := s.Delete(ctx, kind, key); err != nil {
			return swept, err
		}
		swept.Blobs++
		swept.Size += sizes[key]
	}
	return swept, nil
}

// CheckKey returns fault.Unprocessable for a key that no blob can have. That keeps
// keys apart from paths, and apart from each other on file systems that do not know
// upper from lower case.
func CheckKey(kind Kind, key string) error {
	if kind.Dir() == "" {
		return fmt.Errorf("blob: no such kind: %d", kind)
	}
	if !validKey(key) {
		return fault.New(fault.Unprocessable, "%q cannot be the key of a %s: a key is 1 to 128 of a-z, 0-9, - and _", key,
			kind)
	}
	return nil
}

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

// NotFound is the error of a blob that does not exist.
func NotFound(kind Kind) error { return fault.New(fault.NotFound, "The %s is not stored here", kind) }

// Exists is the error of a Put with Once where other content is stored.
func Exists(kind Kind) error {
	return fault.New(fault.Conflict, "The %s was already stored with other content", kind)
}
