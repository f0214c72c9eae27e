package acme

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"ingot/internal/base/background"
)

// Store keeps files for all servers. Names are paths such as certificates/x/y.key.
type Store interface {
	// File returns a file; the error is fs.ErrNotExist if there is none.
	File(ctx context.Context, name string) (value []byte, modified time.Time, err error)
	// WriteFile creates or replaces a file.
	WriteFile(ctx context.Context, name string, value []byte) error
	// DeleteFiles deletes a file, or all below a directory. A missing file is not an error.
	DeleteFiles(ctx context.Context, name string) error
	// FileNames returns the names of all files below a directory, in order.
	FileNames(ctx context.Context, dir string) ([]string, error)
	// TryLock locks a name for a while, unless another holder has locked it. The holder
	// itself extends the time.
	TryLock(ctx context.Context, name, holder string, until time.Time) (bool, error)
	// Unlock removes the lock of a holder.
	Unlock(ctx context.Context, name, holder string) error
}

const (
	// lockedFor is how long a lock outlives its server; it is extended in time.
	lockedFor   = 2 * time.Minute
	lockExtends = lockedFor / 4
	lockAgain   = 500 * time.Millisecond
	// unlockTime is for a lock of an order that was canceled.
	unlockTime = 10 * time.Second
)

// storage adapts a Store for certmagic.
type storage struct {
	files Store
	log   *slog.Logger

	mu   sync.Mutex
	held map[string]heldLock
}

type heldLock struct {
	holder string
	stop   func() // ends its extension
}

var _ certmagic.Storage = (*storage)(nil)

// String is in log lines of certmagic.
func (s *storage) String() string { return "database" }

// Lock waits for a lock and extends it until Unlock.
func (s *storage) Lock(ctx context.Context, name string) error {
	holder := rand.Text()
	for {
		ok, err := s.files.TryLock(ctx, name, holder, time.Now().Add(lockedFor))
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if !background.Sleep(ctx, lockAgain) {
			return ctx.Err()
		}
	}
	extending, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.held[name] = heldLock{holder, stop}
	s.mu.Unlock()
	background.GoLoop(extending, "certificate lock", func() { s.extend(extending, name, holder) })
	return nil
}

func (s *storage) extend(ctx context.Context, name, holder string) {
	for range background.Ticks(ctx, lockExtends, nil) {
		if ok, err := s.files.TryLock(ctx, name, holder, time.Now().Add(lockedFor)); ctx.Err() == nil && (err != nil || !ok) {
			s.log.Warn("the lock of a certificate could not be extended; another server may order the same", "lock", name,
				"error", err)
		}
	}
}

// Unlock removes a lock, even if its work was canceled.
func (s *storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	lock, ok := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	lock.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTime)
	defer cancel()
	return s.files.Unlock(ctx, name, lock.holder)
}

// Store implements certmagic.Storage.
func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	return s.files.WriteFile(ctx, key, value)
}

// Load implements certmagic.Storage.
func (s *storage) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.files.File(ctx, key)
	return value, err
}

// Delete implements certmagic.Storage.
func (s *storage) Delete(ctx context.Context, key string) error { return s.files.DeleteFiles(ctx, key) }

// Exists implements certmagic.Storage.
func (s *storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// List implements certmagic.Storage.
func (s *storage) List(ctx context.Context, dir string, recursive bool) ([]string, error) {
	names, err := s.files.FileNames(ctx, dir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	if recursive {
		return names, nil
	}
	var children []string
	for _, name := range names {
		child, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), "/")
		children = append(children, path.Join(dir, child))
	}
	return slices.Compact(children), nil // the names are in order
}

// Stat implements certmagic.Storage.
func (s *storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	value, modified, err := s.files.File(ctx, key)
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: modified, Size: int64(len(value)), IsTerminal: true}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return certmagic.KeyInfo{}, err
	}
	if names, failed := s.files.FileNames(ctx, key); failed != nil || len(names) == 0 {
		return certmagic.KeyInfo{}, errors.Join(failed, err)
	}
	return certmagic.KeyInfo{Key: key}, nil
}
