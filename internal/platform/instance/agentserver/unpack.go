//go:build linux

package agentserver

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ingot/internal/platform/instance/agentproto"
)

// unpack writes an archive, a tar that may be compressed with gzip, to a directory below
// root. Files of earlier archives are replaced. limit is the largest size; 0 means none.
// Names and hard links cannot lead outside of root; symbolic links can, because they are
// valid where the app runs, but nothing is written through such a link.
func unpack(root *os.Root, target string, r io.Reader, limit int64) error {
	target = cmp.Or(target, ".")
	if !filepath.IsLocal(target) {
		return agentproto.Errorf(agentproto.Malformed, "%s: not below the home directory", target)
	}
	if err := root.MkdirAll(target, 0o755); err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(r, agentproto.Chunk)
	var in io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return notAnArchive(err)
		}
		in = z
	}
	u := unpacker{root: root, limit: limit, buf: make([]byte, agentproto.Chunk)}
	for archive := tar.NewReader(in); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return notAnArchive(err)
		}
		if !filepath.IsLocal(h.Name) || strings.ContainsRune(h.Name, 0) {
			return agentproto.Errorf(agentproto.Malformed, "%q: not below the home directory", h.Name)
		}
		name := filepath.Join(target, h.Name) //nolint:gosec // it is local, and os.Root checks it
		if err := u.entry(name, target, h, archive); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	// Directories last: creating files in them changes their times, and may need a mode
	// that they do not have.
	for _, d := range u.dirs {
		if err := errors.Join(root.Chmod(d.name, d.mode), setTime(root, d.name, d.header)); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, in) // the rest, up to the checksum
	return err
}

func notAnArchive(err error) error {
	var refused *agentproto.Error
	if errors.As(err, &refused) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return agentproto.Errorf(agentproto.Malformed, "not an archive: %s", err)
}

type unpacker struct {
	root  *os.Root
	limit int64
	used  int64
	names int
	dirs  []directory
	buf   []byte
}

type directory struct {
	name   string
	mode   fs.FileMode
	header *tar.Header
}

// maxNames limits the entries of an archive.
const maxNames = 1 << 20

func (u *unpacker) entry(name, target string, h *tar.Header, body io.Reader) error {
	if u.names++; u.names > maxNames {
		return agentproto.Errorf(agentproto.TooLarge, "more than %d files", maxNames)
	}
	if err := u.parent(filepath.Dir(name)); err != nil {
		return err
	}
	mode := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if filepath.Clean(name) == filepath.Clean(target) {
			return nil // the mode of the target is its own
		}
		return u.directory(name, mode|0o700, h)
	case tar.TypeReg:
		return u.file(name, mode|0o600, h, body)
	case tar.TypeSymlink:
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		if !filepath.IsLocal(h.Linkname) {
			return agentproto.Errorf(agentproto.Malformed, "a link to %q", h.Linkname)
		}
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Link(filepath.Join(target, h.Linkname), name) //nolint:gosec // the same
	case tar.TypeXGlobalHeader:
		return nil
	}
	return agentproto.Errorf(agentproto.Malformed, "an entry of type %q", h.Typeflag)
}

// parent makes a directory and those above it. A file of an earlier archive is replaced.
func (u *unpacker) parent(dir string) error {
	if dir == "." {
		return nil
	}
	err := u.root.MkdirAll(dir, 0o755)
	if err == nil {
		return nil
	}
	for above := dir; above != "."; above = filepath.Dir(above) {
		if info, missing := u.root.Lstat(above); missing == nil && info.Mode().IsRegular() {
			return errors.Join(u.root.Remove(above), u.root.MkdirAll(dir, 0o755))
		}
	}
	return err
}

// clear removes what is in the way.
func (u *unpacker) clear(name string) error {
	if _, err := u.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return u.root.RemoveAll(name)
}

func (u *unpacker) directory(name string, mode fs.FileMode, h *tar.Header) error {
	if info, err := u.root.Lstat(name); err != nil || !info.IsDir() {
		if err := u.clear(name); err != nil {
			return err
		}
		if err := u.root.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	u.dirs = append(u.dirs, directory{name, mode, h})
	return nil
}

func (u *unpacker) file(name string, mode fs.FileMode, h *tar.Header, body io.Reader) error {
	// Not written over: it may have other names, and be running.
	if err := u.clear(name); err != nil {
		return err
	}
	if u.limit > 0 && h.Size > u.limit-u.used {
		return agentproto.Errorf(agentproto.TooLarge, "the files need more than the disk limit of %d bytes", u.limit)
	}
	u.used += h.Size
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{body}, u.buf)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return setTime(u.root, name, h)
}

// setTime leaves out times that no file system can keep.
func setTime(root *os.Root, name string, h *tar.Header) error {
	if t := h.ModTime; t.Unix() > 0 && t.Year() < 2200 {
		return root.Chtimes(name, t, t)
	}
	return nil
}

// protect removes write permission from everything at and below a directory.
func protect(root *os.Root, dir string) error {
	info, err := root.Lstat(dir)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	if info.IsDir() {
		f, err := root.Open(dir)
		if err != nil {
			return err
		}
		names, err := f.Readdirnames(-1)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		for _, name := range names {
			if err := protect(root, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	if info.Mode().Perm()&0o222 == 0 {
		return nil
	}
	return root.Chmod(dir, info.Mode().Perm()&^0o222)
}

// removeAll removes everything in a directory.
func removeAll(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	err = errors.Join(err, f.Close())
	for _, name := range names {
		path := filepath.Join(dir, name)
		removed := root.RemoveAll(path)
		if errors.Is(removed, fs.ErrPermission) { // a read-only archive
			makeWritable(root, path)
			removed = root.RemoveAll(path)
		}
		err = errors.Join(err, removed)
	}
	return err
}

// makeWritable makes every directory at and below a path writable. It ignores errors:
// RemoveAll reports what matters.
func makeWritable(root *os.Root, path string) {
	info, err := root.Lstat(path)
	if err != nil || !info.IsDir() {
		return
	}
	_ = root.Chmod(path, 0o700)
	f, err := root.Open(path)
	if err != nil {
		return
	}
	names, _ := f.Readdirnames(-1)
	_ = f.Close()
	for _, name := range names {
		makeWritable(root, filepath.Join(path, name))
	}
}
