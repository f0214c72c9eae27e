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
	"sync"
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

// WithDefaults returns the limits with their defaults.
func (l PoolLimits) WithDefaults() PoolLimits {
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

// Key is the key of a file in a scope, empty if there cannot be one. The scope is
// hashed, so that it can be any text.
func (l PoolLimits) Key(scope string, r Resource) string {
	sum := strings.ToLower(r.SHA1)
	if len(sum) != 2*sha1.Size || strings.Trim(sum, "0123456789abcdef") != "" ||
		scope == "" || r.Size < l.MinFile || r.Size > l.MaxFile {
		return ""
	}
	in := sha256.Sum256([]byte(scope))
	return fmt.Sprintf("%s-%s-%d", hexText(in[:16]), sum, r.Size)
}

// FilesOf returns the names of the regular files of fsys that a pool can keep.
func (l PoolLimits) FilesOf(ctx context.Context, scope string, fsys fs.FS) ([]string, error) {
	if scope == "" {
		return nil, errors.New("blob: resources need a scope")
	}
	var names []string
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() >= l.MinFile && info.Size() <= min(l.MaxFile, l.Size) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// Add adds one of the files that FilesOf returned to a pool, which implements has
// and put, and reports whether it was new. Put gets the key that the content had a
// moment ago, and has to refuse other content.
func (l PoolLimits) Add(ctx context.Context, scope string, fsys fs.FS, name string,
	has func(key string, size int64) (bool, error), put func(key string, r io.Reader) (bool, error),
) (bool, error) {
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
	key := l.Key(scope, Resource{sum, size.n})
	if key == "" {
		return false, nil // it changed meanwhile
	}
	if there, err := has(key, size.n); err != nil || there {
		return false, err
	}
	if f, err = fsys.Open(name); err != nil {
		return false, err
	}
	defer f.Close()
	return put(key, f)
}

func sumOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha1.New() //nolint:gosec // as above
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, &source{ctx: ctx, r: r}, make([]byte, 128<<10)); err != nil {
		return "", err
	}
	return hexText(h.Sum(nil)), nil
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

// Match implements Pool.
func (s *Files) Match(ctx context.Context, scope string, files []Resource) ([]Resource, error) {
	now := time.Now()
	var matched []Resource
	for _, r := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key := s.limits.Key(scope, r)
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
func (s *Files) touch(key string, size int64, now time.Time) (bool, error) {
	name := s.path(Resources, key)
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

// OpenResource implements Pool. It compares the content with its checksum.
func (s *Files) OpenResource(ctx context.Context, scope string, r Resource) (*Blob, error) {
	key := s.limits.Key(scope, r)
	if key == "" {
		return nil, NotFound(Resources)
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
	damaged := NotFound(Resources)
	if err := s.Delete(ctx, Resources, key); err != nil {
		return nil, errors.Join(damaged, err)
	}
	return nil, damaged
}

// AddResources implements Pool.
func (s *Files) AddResources(ctx context.Context, scope string, fsys fs.FS) (int, error) {
	names, err := s.limits.FilesOf(ctx, scope, fsys)
	if err != nil {
		return 0, err
	}
	added := 0
	for _, name := range names {
		isNew, err := s.limits.Add(ctx, scope, fsys, name,
			func(key string, size int64) (bool, error) { return s.touch(key, size, time.Now()) },
			func(key string, r io.Reader) (bool, error) { return s.putResource(ctx, scope, key, r) })
		if err != nil {
			return added, err
		}
		if isNew {
			added++
		}
	}
	return added, nil
}

func (s *Files) putResource(ctx context.Context, scope, key string, r io.Reader) (bool, error) {
	temp, info, err := s.write(ctx, Resources, r, s.limits.MaxFile, false)
	if err != nil {
		return false, err
	}
	// What was copied gives the key, not what was hashed before.
	if s.limits.Key(scope, Resource{info.SHA1, info.Size}) != key {
		os.Remove(temp)
		return false, nil
	}
	if err := s.pool.makeRoom(ctx, info.Size); err != nil {
		os.Remove(temp)
		return false, err
	}
	if err := s.commit(temp, s.path(Resources, key), false); err != nil {
		return false, storage(err, Resources)
	}
	return true, nil
}

// remeasure is how long a bound's size is believed, in case another server adds to
// it.
const remeasure = 5 * time.Minute

// bound limits the size of the blobs of some kinds, by removing those that were not
// used for longest.
type bound struct {
	files *Files
	kinds []Kind
	limit int64

	mu   sync.Mutex // held while blobs are measured or removed
	size int64      // as far as this process knows
	seen time.Time  // when it was measured
}

// makeRoom books size bytes and, if they are too many, drops files until a tenth
// of the limit is free.
func (b *bound) makeRoom(ctx context.Context, size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.seen) < remeasure && b.size+size <= b.limit {
		b.size += size
		return nil
	}
	_, err := b.shrink(ctx, size, func(sum int64) int64 {
		if sum+size > b.limit {
			return b.limit / 10 * 9
		}
		return sum + size
	})
	return err
}

// free removes a tenth of the blobs, because the disk is full, and reports whether
// there were any.
func (b *bound) free(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	removed, err := b.shrink(ctx, 0, func(sum int64) int64 { return min(sum-1, sum/10*9) })
	return err == nil && removed
}

// shrink removes blobs until they, and the booked bytes, are not more than target
// says, and reports whether there were any to remove.
func (b *bound) shrink(ctx context.Context, booked int64, target func(sum int64) int64) (bool, error) {
	type entry struct {
		kind Kind
		Item
	}
	var all []entry
	var sum int64
	for _, kind := range b.kinds {
		for item, err := range b.files.List(ctx, kind) {
			if err := errors.Join(err, ctx.Err()); err != nil {
				return false, err
			}
			all = append(all, entry{kind, item})
			sum += item.Size
		}
	}
	removed, limit := false, target(sum)
	slices.SortFunc(all, func(a, b entry) int { return a.Modified.Compare(b.Modified) })
	for _, e := range all {
		if sum+booked <= limit {
			break
		}
		if err := b.files.Delete(ctx, e.kind, e.Key); err != nil {
			return removed, err
		}
		sum -= e.Size
		removed = true
	}
	b.size, b.seen = sum+booked, time.Now()
	return removed, nil
}
