package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// Owner is the user and group of everything that Tar writes: vcap, which every
// application runs as.
const Owner = 2000

// TarOptions change what Tar writes.
type TarOptions struct {
	// Skip leaves out an entry, and all below it if it is a directory. The name is
	// relative to the root, without "./".
	Skip func(name string) bool
	// Modified, if set, is the time of all entries; otherwise each has its own, in
	// seconds.
	Modified time.Time
}

// Tar writes a directory as tar. The same directory gives the same bytes: entries
// are sorted, all belong to Owner, and names begin with "./".
//
// Symbolic links are written as links, whatever they point to; hard links as
// files; setuid, setgid and sticky bits are dropped. Sockets, pipes and devices
// are left out: a build may leave some behind, and they would be useless. What is
// read is never outside root, even if its directories are replaced by links at
// the same time; a file that changes its size meanwhile is an error.
func Tar(w io.Writer, root string, o TarOptions) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	p := &packer{root: r, tar: tar.NewWriter(w), options: o, buf: make([]byte, 128<<10)}
	if err := p.add("."); err != nil {
		return fmt.Errorf("pack %s: %w", root, err)
	}
	return p.tar.Close()
}

type packer struct {
	root    *os.Root
	tar     *tar.Writer
	options TarOptions
	buf     []byte
}

func (p *packer) add(name string) error {
	if name != "." && p.options.Skip != nil && p.options.Skip(name) {
		return nil
	}
	info, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	h := &tar.Header{
		Name: "./" + name, Uid: Owner, Gid: Owner,
		Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second),
	}
	if !p.options.Modified.IsZero() {
		h.ModTime = p.options.Modified.Truncate(time.Second)
	}
	switch info.Mode().Type() {
	case 0:
		return p.file(name, h)
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		h.Mode = 0o777
		if h.Linkname, err = p.root.Readlink(name); err != nil {
			return err
		}
		return p.tar.WriteHeader(h)
	case fs.ModeDir:
		return p.dir(name, h)
	}
	return nil
}

func (p *packer) dir(name string, h *tar.Header) error {
	h.Typeflag = tar.TypeDir
	h.Name += "/"
	if name == "." {
		h.Name = "./"
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, base := range names {
		if err := p.add(path.Join(name, base)); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) file(name string, h *tar.Header) error {
	// Without NONBLOCK, opening a pipe that took the file's place would wait.
	f, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s changed while it was packed", name)
	}
	h.Typeflag = tar.TypeReg
	h.Size = info.Size()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, io.LimitReader(f, h.Size), p.buf)
	if err == nil && n < h.Size {
		err = fmt.Errorf("%s became shorter while it was packed", name)
	}
	return err
}
