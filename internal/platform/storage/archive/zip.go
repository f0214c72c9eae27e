package archive

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
)

// CheckZip reads a zip file to its end and returns what would be extracted of
// it, or the reason to refuse it, without writing anything.
func CheckZip(r io.ReaderAt, size int64, l Limits) (Summary, error) {
	return WalkZip(r, size, l, nil)
}

// WalkZip visits the entries of a zip file. A zip without entries is valid.
func WalkZip(r io.ReaderAt, size int64, l Limits, visit Visit) (Summary, error) {
	l = l.withDefaults()
	g := newEntryCheck(l, visit)
	if err := g.zip(r, size, nil); err != nil {
		return Summary{}, err
	}
	return g.finish()
}

// zip visits all entries. Before each one, note is told which it is.
func (g *entryCheck) zip(r io.ReaderAt, size int64, note func(*zip.File)) error {
	src := &zipSource{r: r, size: size, limits: g.limits, indexing: true}
	g.failed = func() error { return src.err }
	g.input = func() int64 { return size }

	zr, err := zip.NewReader(src, size)
	src.indexing = false
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // our own check of names says more
		if src.err != nil {
			return src.err
		}
		return wrapped(err, invalid("it is no zip file, or the list of its entries is broken"))
	}
	for _, f := range zr.File {
		if err := g.next(); err != nil {
			return err
		}
		if note != nil {
			note(f)
		}
		if err := g.zipEntry(f); err != nil {
			return err
		}
	}
	return nil
}

// Bits of the flags that say that an entry, or the list of entries, is encrypted.
const zipEncrypted = 1<<0 | 1<<6 | 1<<13

func (g *entryCheck) zipEntry(f *zip.File) error {
	e := Entry{Mode: zipMode(f), Modified: f.Modified, Size: int64(min(f.UncompressedSize64, 1<<62))}
	switch {
	case f.Flags&zipEncrypted != 0:
		return refuse(f.Name, "is encrypted")
	case strings.ContainsRune(f.Name, '\\'):
		return refuse(f.Name, "has a backslash in its name")
	}

	// Mode takes a trailing slash for a directory and adds that to whatever else
	// the entry says it is. That a directory says it is a file is usual.
	mode := f.Mode()
	if mode.IsDir() {
		if mode.Type() != fs.ModeDir {
			return refuse(f.Name, "is a directory by its name, but not by its mode")
		}
		if f.UncompressedSize64 > 0 {
			return refuse(f.Name, "is a directory with content")
		}
		return g.dir(f.Name, e)
	}
	if mode.Type() != 0 && mode.Type() != fs.ModeSymlink {
		return refuse(f.Name, "is neither a file, a directory nor a symbolic link")
	}

	body, err := f.Open()
	switch {
	case errors.Is(err, zip.ErrAlgorithm):
		return refuse(f.Name, "is compressed in a way that is not supported (method %d)", f.Method)
	case err != nil:
		return g.damaged(f.Name, err)
	}
	defer body.Close()
	if mode.Type() == 0 {
		return g.file(f.Name, e, body, true)
	}
	target, err := io.ReadAll(io.LimitReader(body, maxName+1))
	if err != nil {
		return g.damaged(f.Name, err)
	}
	return g.symlink(f.Name, string(target), e)
}

// zipMode returns permission bits, none if the entry was made where there are none.
func zipMode(f *zip.File) fs.FileMode {
	switch f.CreatorVersion >> 8 {
	case 3, 19: // Unix, macOS
		return f.Mode().Perm()
	}
	return 0
}

// zipSource is the file below a zip. It remembers its first error, and limits how
// much is read for the list of entries, which is all kept in memory.
type zipSource struct {
	r        io.ReaderAt
	size     int64
	limits   Limits
	err      error
	indexing bool
	read     int64
	headers  int
}

// A zip's reader looks for the end of the list before it reads the list, and so
// sees the last entries twice: at most this many, in 65 KiB.
const zipSeenTwice = 2000

var zipHeader = []byte("PK\x01\x02")

func (s *zipSource) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > s.size { // an offset outside the archive
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	if s.indexing {
		s.read += int64(n)
		s.headers += bytes.Count(p[:n], zipHeader)
		if s.headers > s.limits.Files+zipSeenTwice {
			s.err = tooMany(s.limits)
		} else if s.read > 1<<20+1024*int64(s.limits.Files) {
			s.err = invalid("the list of its entries is too long")
		}
		if s.err != nil {
			return 0, s.err
		}
	}
	return n, err
}
