package blob

import (
	"context"
	"crypto/sha1" //nolint:gosec // the protocol's choice; doc.go says what it is worth
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

// PoolLimits bound the pool of resources. Fields that are not positive have their
// default.
type PoolLimits struct {
	// Size is the sum of all files, in all scopes. When it is exceeded, those that
	// were not used for longest are dropped. 4 GiB. Servers that share a directory
	// measure it every few minutes, and may exceed it in between.
	Size int64
	// MinFile and MaxFile are the sizes of files that are kept. Smaller ones are
	// sent as fast as they are matched. 4 KiB, 512 MiB.
	MinFile, MaxFile int64
}

func (l PoolLimits) withDefaults() PoolLimits {
	if l.Size <= 0 {
		l.Size = 4 << 30
	}
	if l.MinFile <= 0 {
		l.MinFile = 4 << 10
	}
	if l.MaxFile <= 0 {
		l.MaxFile = 512 << 20
	}
	return l
}

// Resource is a file by its content.
type Resource struct {
	SHA1 string
	Size int64
}

// remeasure is how long the pool's size is believed, in case another server adds
// to it.
const remeasure = 5 * time.Minute

// resourceKey is the key of a file in a scope, empty if there cannot be one. The
// scope is hashed, so that it can be any text.
func (s *Store) resourceKey(scope string, r Resource) string {
	sum := strings.ToLower(r.SHA1)
	if len(sum) != 2*sha1.Size || strings.Trim(sum, "0123456789abcdef") != "" ||
		scope == "" || r.Size < s.pool.MinFile || r.Size > s.pool.MaxFile {
		return ""
	}
	in := sha256.Sum256([]byte(scope))
	return fmt.Sprintf("%s-%s-%d", hexText(in[:16]), sum, r.Size)
}

// Match returns those of the files that the scope's pool has, in their order. They
// count as used now, and so stay for as long as an upload takes. See the package
// comment on what to use as scope.
func (s *Store) Match(ctx context.Context, scope string, files []Resource) ([]Resource, error) {
	now := time.Now()
	var matched []Resource
	for _, r := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key := s.resourceKey(scope, r)
		if key == "" {
			continue
		}
		there, err := s.touch(key, r.Size, now)
		if err != nil {
			return nil, err
		}
		if there {
			matched = append(matched, r)
		}
	}
	return matched, nil
}

// touch reports whether a file exists, and marks it as used.
func (s *Store) touch(key string, size int64, now time.Time) (bool, error) {
	name, err := s.path(Resources, key)
	if err != nil {
		return false, err
	}
	info, err := os.Stat(name)
	if err == nil && info.Size() != size+trailerSize {
		return false, nil // cut off by a crash: AddResources writes it again
	}
	if err == nil {
		err = os.Chtimes(name, now, now)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// OpenResource opens a file of the scope's pool, after comparing its content with
// its checksum. It returns fault.NotFound if there is none, or it was damaged.
func (s *Store) OpenResource(ctx context.Context, scope string, r Resource) (*Blob, error) {
	key := s.resourceKey(scope, r)
	if key == "" {
		return nil, notFound(Resources)
	}
	b, err := s.Open(ctx, Resources, key)
	if fault.Is(err, fault.NotFound) || ctx.Err() != nil {
		return nil, err
	}
	if err == nil {
		var sum string
		if sum, err = sumOf(ctx, b); err == nil && sum != strings.ToLower(r.SHA1) {
			err = errors.New("its content is not that of its checksum")
		}
		if err == nil {
			_, err = b.Seek(0, io.SeekStart)
		}
		if err == nil {
			return b, nil
		}
		_ = b.Close() // only read from
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	damaged := notFound(Resources)
	if err := s.Delete(ctx, Resources, key); err != nil {
		return nil, errors.Join(damaged, err)
	}
	return nil, damaged
}

func sumOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha1.New() //nolint:gosec // as above
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, &source{ctx: ctx, r: r}, make([]byte, 128<<10)); err != nil {
		return "", err
	}
	return hexText(h.Sum(nil)), nil
}

// AddResources adds the regular files of fsys to the scope's pool and returns how
// many of them were new. Fsys must not lead outside what the scope has uploaded:
// use a zip.Reader of a package, or the FS of an os.Root.
//
// The pool is a cache. A caller may well go on after an error.
func (s *Store) AddResources(ctx context.Context, scope string, fsys fs.FS) (int, error) {
	if scope == "" {
		return 0, errors.New("blob: resources need a scope")
	}
	added := 0
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() < s.pool.MinFile || info.Size() > min(s.pool.MaxFile, s.pool.Size) {
			return err
		}
		isNew, err := s.addResource(ctx, scope, fsys, name)
		if isNew {
			added++
		}
		return err
	})
	return added, err
}

func (s *Store) addResource(ctx context.Context, scope string, fsys fs.FS, name string) (bool, error) {
	// Most files of a push are there already: hash first, and copy if need be.
	f, err := fsys.Open(name)
	if err != nil {
		return false, err
	}
	size := &counter{r: f}
	sum, err := sumOf(ctx, size)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	known := s.resourceKey(scope, Resource{sum, size.n})
	if known == "" {
		return false, nil // it changed meanwhile
	}
	if there, err := s.touch(known, size.n, time.Now()); err != nil || there {
		return false, err
	}

	if f, err = fsys.Open(name); err != nil {
		return false, err
	}
	defer f.Close()
	temp, info, err := s.write(ctx, Resources, f, s.pool.MaxFile, false)
	if err != nil {
		return false, err
	}
	// What was copied gives the key, not what was hashed before.
	key := s.resourceKey(scope, Resource{info.SHA1, info.Size})
	if key != known {
		os.Remove(temp)
		return false, nil
	}
	if err := s.makeRoom(ctx, info.Size); err != nil {
		os.Remove(temp)
		return false, err
	}
	to, err := s.path(Resources, key)
	if err != nil {
		os.Remove(temp)
		return false, err
	}
	if err := s.commit(temp, to, false); err != nil {
		return false, storage(err, Resources)
	}
	return true, nil
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// makeRoom books size bytes and, if they are too many, drops files until a tenth
// of the pool is free.
func (s *Store) makeRoom(ctx context.Context, size int64) error {
	s.poolMu.Lock()
	defer s.poolMu.Unlock()
	if time.Since(s.poolSeen) < remeasure && s.poolSize+size <= s.pool.Size {
		s.poolSize += size
		return nil
	}

	var all []Item
	var sum int64
	for item, err := range s.List(Resources) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		all = append(all, item)
		sum += item.Size
	}
	if sum+size > s.pool.Size {
		slices.SortFunc(all, func(a, b Item) int { return a.Modified.Compare(b.Modified) })
		for _, item := range all {
			if sum+size <= s.pool.Size/10*9 {
				break
			}
			if err := s.Delete(ctx, Resources, item.Key); err != nil {
				return err
			}
			sum -= item.Size
		}
	}
	s.poolSize, s.poolSeen = sum+size, time.Now()
	return nil
}
