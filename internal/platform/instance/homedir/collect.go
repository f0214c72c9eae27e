//go:build linux

package homedir

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// word is the placeholder of the home directory in paths.
const word = "{{home}}"

// ErrOutside means that a path is not below the home directory.
var ErrOutside = errors.New("not below the home directory")

// Below returns a path relative to the home directory. The path may be relative already,
// start with {{home}}, or be absolute as the instance sees it; inside is the home directory
// there.
func Below(name, inside string) (string, error) {
	rest := name
	switch {
	case strings.HasPrefix(name, word):
		rest = strings.TrimPrefix(name, word)
		if rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("%s: %w", name, ErrOutside)
		}
	case path.IsAbs(name):
		var ok bool
		rest, ok = strings.CutPrefix(path.Clean(name), path.Clean(inside))
		if !ok || rest != "" && rest[0] != '/' {
			return "", fmt.Errorf("%s: %w", name, ErrOutside)
		}
	}
	// Cleaning a relative path keeps a leading "..", which the check looks for.
	rest = path.Clean(strings.TrimLeft(rest, "/"))
	if rest == ".." || strings.HasPrefix(rest, "../") {
		return "", fmt.Errorf("%s: %w", name, ErrOutside)
	}
	return rest, nil
}

// Collect writes a path of a home directory to w as a tar stream: the content of a
// directory, or a single file. Names are relative to the path. Links are written as links
// and never followed, even if the instance replaces a directory by one meanwhile; sockets,
// pipes and devices are left out. inside is the home directory as the instance sees it.
func Collect(ctx context.Context, home, inside, name string, w io.Writer) error {
	rel, err := Below(name, inside)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(rel)
	if err != nil {
		return err
	}
	c := collector{ctx: ctx, tar: tar.NewWriter(w)}
	if info.IsDir() {
		err = c.directory(root, rel, info, "")
	} else {
		err = c.entry(root, rel, path.Base(rel))
	}
	return errors.Join(err, c.tar.Close())
}

type collector struct {
	ctx   context.Context //nolint:containedctx // lives for one call of Collect
	tar   *tar.Writer
	depth int
}

// maxDepth is how deep directories may be nested: each is open while those in it are read. Twice
// what archives may have.
const maxDepth = 256

// within calls f with a directory as root: the names of its entries have one part then, and
// each part of a name has to be opened. One that is not the directory of info any more is left
// out: it may be a link now.
func (c *collector) within(root *os.Root, name string, info fs.FileInfo, f func(in *os.Root) error) error {
	if c.depth++; c.depth > maxDepth {
		return fmt.Errorf("directories are nested deeper than %d", maxDepth)
	}
	defer func() { c.depth-- }()
	in, err := root.OpenRoot(name)
	if err != nil {
		if now, gone := root.Lstat(name); gone != nil || !os.SameFile(info, now) {
			return nil
		}
		return err
	}
	defer in.Close()
	is, err := in.Stat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(info, is) {
		return nil
	}
	return f(in)
}

// directory writes the content of a directory, sorted by name.
func (c *collector) directory(root *os.Root, name string, info fs.FileInfo, as string) error {
	return c.within(root, name, info, func(in *os.Root) error {
		dir, err := in.Open(".")
		if err != nil {
			return err
		}
		names, err := dir.Readdirnames(-1)
		if err := errors.Join(err, dir.Close()); err != nil {
			return err
		}
		slices.Sort(names)
		for _, n := range names {
			if err := c.entry(in, n, path.Join(as, n)); err != nil {
				return err
			}
		}
		return nil
	})
}

// entry writes one file, link or directory. Files that the instance has deleted meanwhile
// are left out.
func (c *collector) entry(in *os.Root, name, as string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	info, err := in.Lstat(name)
	if err != nil {
		return vanished(err)
	}
	header := &tar.Header{Name: as, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch mode := info.Mode(); {
	case mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, as+"/"
		if err := c.tar.WriteHeader(header); err != nil {
			return err
		}
		return c.directory(in, name, info, as)
	case mode&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = in.Readlink(name); err != nil {
			return vanished(err)
		}
		return c.tar.WriteHeader(header)
	case mode.IsRegular():
		return c.file(in, name, header)
	default:
		return nil
	}
}

func (c *collector) file(in *os.Root, name string, header *tar.Header) error {
	// Non-blocking, in case it has become a pipe.
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return vanished(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	header.Typeflag, header.Size, header.Mode = tar.TypeReg, info.Size(), int64(info.Mode().Perm())
	if err := c.tar.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(c.tar, io.LimitReader(f, header.Size)) // of a file that grows, the part that there was
	if err != nil {
		return err
	}
	// The size is already written: pad a file that the running instance truncated meanwhile
	// with zeros.
	_, err = io.CopyN(c.tar, zeroes{}, header.Size-n)
	return err
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// vanished ignores errors caused by a running instance that changes its files: a deleted
// file, or a link instead of a directory or file.
func vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}
