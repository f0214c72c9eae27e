//go:build linux

package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"ingot/internal/platform/engine"
)

// Cache keeps archives unpacked that many instances use: a read-only directory for each
// key. It must be used by one server at a time.
type Cache struct {
	dir string

	mu   sync.Mutex
	busy map[string]chan struct{} // closed when that entry is complete
}

const unpackedPrefix = ".new-"

// OpenCache opens the cache in a directory, and removes incomplete entries of a server that
// died.
func OpenCache(dir string) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unpackedPrefix) {
			if err := removeProtected(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return &Cache{dir: dir, busy: map[string]chan struct{}{}}, nil
}

// Path returns the directory of the archive with that key, if it exists.
func (c *Cache) Path(key string) string {
	name := key
	if CheckID(key) != nil {
		sum := sha256.Sum256([]byte(key))
		name = hex.EncodeToString(sum[:])
	}
	return filepath.Join(c.dir, name)
}

// Get returns the directory with an unpacked archive, and unpacks it if needed. Concurrent
// calls for one key wait for one unpacking. limit is as in Dir.Unpack.
func (c *Cache) Get(ctx context.Context, a engine.Archive, limit int64) (string, error) {
	if a.Key == "" {
		return "", errors.New("an archive without a key cannot be cached")
	}
	path := c.Path(a.Key)
	for {
		c.mu.Lock()
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			c.mu.Unlock()
			now := time.Now()
			_ = os.Chtimes(path, now, now) // time of the last use, for Prune
			return path, nil
		}
		done, making := c.busy[path]
		if !making {
			done = make(chan struct{})
			c.busy[path] = done
		}
		c.mu.Unlock()
		if making {
			select {
			case <-done:
				continue // complete, or failed: then try again
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		err := c.make(ctx, a, path, limit)
		c.mu.Lock()
		delete(c.busy, path)
		close(done)
		c.mu.Unlock()
		return path, err
	}
}

func (c *Cache) make(ctx context.Context, a engine.Archive, path string, limit int64) error {
	tmp, err := os.MkdirTemp(c.dir, unpackedPrefix)
	if err != nil {
		return err
	}
	err = os.Chmod(tmp, 0o755)
	if err == nil {
		err = extract(ctx, a, tmp, limit)
	}
	if err == nil {
		err = protect(tmp)
	}
	if err == nil {
		if err = os.Rename(tmp, path); err == nil {
			return nil
		}
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			err = nil // another process was faster
		}
	}
	return errors.Join(err, removeProtected(tmp))
}

// Prune removes the entries that no instance below root uses and that were not used within
// the given time.
func (c *Cache) Prune(root string, unused time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	dirs, err := List(root)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, d := range dirs {
		for _, key := range d.Meta().Keys {
			used[c.Path(key)] = true
		}
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(c.dir, e.Name())
		info, err := e.Info()
		if err != nil || used[path] || strings.HasPrefix(e.Name(), ".") || time.Since(info.ModTime()) < unused {
			continue
		}
		if err := removeProtected(path); err != nil {
			errs = append(errs, fmt.Errorf("unused archive: %w", err))
		}
	}
	return errors.Join(errs...)
}

func removeProtected(path string) error {
	err := os.RemoveAll(path)
	if errors.Is(err, fs.ErrPermission) {
		makeWritable(path)
		err = os.RemoveAll(path)
	}
	return err
}
