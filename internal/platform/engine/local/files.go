//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/homedir"
	"ingot/internal/platform/storage/archive"
)

// Unpack writes archives to the home directory, in order: files of later ones replace those
// of earlier ones. A read-only archive with its own target loses its write permissions; one
// for the home itself does not, because its files cannot be distinguished from others.
// limit is the largest size of each; 0 means the default of package archive.
func (d *Dir) Unpack(ctx context.Context, files []engine.Archive, limit int64) error {
	for i, a := range files {
		if err := d.unpack(ctx, a, limit); err != nil {
			return fmt.Errorf("files %d, into %q: %w", i+1, a.Target, err)
		}
	}
	return nil
}

func (d *Dir) unpack(ctx context.Context, a engine.Archive, limit int64) error {
	target, err := d.target(a.Target)
	if err != nil {
		return err
	}
	there, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		err = extract(ctx, a, target, limit)
	} else {
		err = d.addTo(ctx, a, limit)
	}
	if err == nil && a.ReadOnly && a.Target != "" {
		err = protect(target)
	}
	return err
}

const (
	extraDir = ".extra"
	ownWrite = 0o200
)

// addTo unpacks an archive next to the home directory, because extraction needs an empty
// directory, and merges the result into existing files.
func (d *Dir) addTo(ctx context.Context, a engine.Archive, limit int64) (err error) {
	extra := filepath.Join(d.path, extraDir)
	defer func() { err = errors.Join(err, removeProtected(extra)) }()
	if err := extract(ctx, a, extra, limit); err != nil {
		return err
	}
	// Links of earlier archives that lead outside are refused.
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return err
	}
	defer root.Close()
	return merge(root, extraDir, filepath.Join(homeDir, filepath.Clean(a.Target)))
}

// merge moves the content of one directory into another. Directories in both are merged;
// anything else replaces an existing file.
func merge(root *os.Root, from, to string) error {
	f, err := root.Open(from)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if info, err := root.Lstat(to); err == nil && info.IsDir() && info.Mode()&ownWrite == 0 {
		if err := root.Chmod(to, info.Mode().Perm()|ownWrite); err != nil {
			return err
		}
	}
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		info, err := root.Lstat(dst)
		if err == nil && info.IsDir() && e.IsDir() {
			if err := merge(root, src, dst); err != nil {
				return err
			}
			continue
		}
		if err := root.RemoveAll(dst); err != nil {
			return err
		}
		if err := root.Rename(src, dst); err != nil {
			return err
		}
	}
	return nil
}

// Link creates a link to a directory, usually of the cache, where an archive would be
// unpacked. Nothing may exist there.
func (d *Dir) Link(target, to string) error {
	if _, err := d.target(filepath.Dir(target)); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.Home())
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Symlink(to, filepath.Clean(target))
}

// target creates a directory below the home and returns its path. Links of earlier archives
// that lead outside are refused.
func (d *Dir) target(name string) (string, error) {
	if name == "" || name == "." {
		return d.Home(), nil
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s: %w", name, homedir.ErrOutside)
	}
	root, err := os.OpenRoot(d.Home())
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Clean(name), 0o755); err != nil {
		return "", err
	}
	return filepath.Join(d.Home(), name), nil
}

// Own changes the owner of the home directory and its content, except for the given
// directories below it. Links are changed, not followed. It needs root.
func (d *Dir) Own(user, group int, except ...string) error {
	skip := make([]string, 0, len(except))
	for _, name := range except {
		skip = append(skip, filepath.Join(d.Home(), name))
	}
	return filepath.WalkDir(d.Home(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != d.Home() && e.IsDir() && slices.Contains(skip, path) {
			return filepath.SkipDir
		}
		return os.Lchown(path, user, group) //nolint:gosec // nothing of the instance runs yet
	})
}

func extract(ctx context.Context, a engine.Archive, dir string, limit int64) error {
	r, err := a.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	// The links of a droplet are valid where it runs.
	_, err = archive.ExtractTar(&contextReader{ctx, r}, dir, archive.Limits{Size: limit, OutsideLinks: true})
	if errors.Is(err, archive.ErrTooLarge) {
		return fault.Wrap(err, fault.Unprocessable,
			"the files of the app need more than its disk limit: raise it with 'cf scale APP -k' or 'cf push -k'")
	}
	return err
}

// contextReader ends a copy when its context does.
type contextReader struct {
	ctx context.Context //nolint:containedctx // lives for one extraction
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// protect removes write permission from everything at and below a directory.
func protect(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o222 == 0 {
			return nil
		}
		return os.Chmod(path, info.Mode().Perm()&^0o222) //nolint:gosec // nothing of the instance runs yet
	})
}
