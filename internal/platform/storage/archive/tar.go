package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// CheckTar reads a tar to its end and returns what ExtractTar would make of it, or
// the reason to refuse it, without writing anything.
func CheckTar(r io.Reader, l Limits) (Summary, error) {
	return WalkTar(r, l, nil)
}

// WalkTar visits the entries of a tar, which may be compressed with gzip: that is
// seen from its first bytes.
func WalkTar(r io.Reader, l Limits, visit Visit) (Summary, error) {
	return newEntryCheck(l.withDefaults(), visit).tar(r)
}

func (g *entryCheck) tar(r io.Reader) (Summary, error) {
	src := &stream{r: r}
	g.failed = func() error { return src.err }
	g.input = func() int64 { return src.n }

	buffered := bufio.NewReaderSize(src, 64<<10)
	magic, _ := buffered.Peek(4)
	switch {
	case src.err != nil:
		return Summary{}, src.err
	case len(magic) == 0:
		return Summary{}, invalid("it is empty")
	}
	plain := &inflated{g: g, r: buffered}
	switch {
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return Summary{}, g.damaged("", err)
		}
		plain.r = z
	case g.layer != nil && string(magic) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return Summary{}, g.damaged("", err)
		}
		defer z.Close()
		plain.r = z
	}

	tr := tar.NewReader(plain)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // our own check of names says more
			if g.entries == 0 && errors.Is(err, tar.ErrHeader) && src.err == nil {
				err = wrapped(err, invalid("it is no tar file"))
			}
			return Summary{}, g.damaged("", err)
		}
		if err := g.next(); err != nil {
			return Summary{}, err
		}
		if err := g.tarEntry(h, tr); err != nil {
			return Summary{}, err
		}
	}
	// What follows the end must be read for the checksum of gzip, and to leave
	// nothing in a pipe.
	if _, err := io.Copy(io.Discard, plain); err != nil {
		return Summary{}, g.damaged("", err)
	}
	return g.finish()
}

func (g *entryCheck) tarEntry(h *tar.Header, body io.Reader) error {
	if g.layer != nil {
		if skip, err := g.layerEntry(h); skip || err != nil {
			return err
		}
	}
	e := Entry{Mode: fs.FileMode(h.Mode) & fs.ModePerm, Modified: h.ModTime, Size: h.Size, User: h.Uid, Group: h.Gid}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return g.file(h.Name, e, body, true)
	case tar.TypeDir:
		return g.dir(h.Name, e)
	case tar.TypeSymlink:
		return g.symlink(h.Name, h.Linkname, e)
	case tar.TypeLink:
		return g.hardlink(h.Name, h.Linkname, e)
	case tar.TypeXGlobalHeader:
		return nil // a comment: git writes the commit there
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return refuse(h.Name, "is a device or a pipe")
	}
	return refuse(h.Name, "is of a type that is not supported (%q)", h.Typeflag)
}

// stream is the source of a tar. It counts, and remembers its first error.
type stream struct {
	r   io.Reader
	n   int64
	err error
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}

// inflated is what comes out of gzip: contents, headers and padding. Headers and
// padding make no files, so they are limited here.
type inflated struct {
	g *entryCheck
	r io.Reader
	n int64
}

// headerRoom is what one entry may need beside its content: its header, a longer
// name in its own header, padding.
const headerRoom = 4 * 1024

func (i *inflated) Read(p []byte) (int, error) {
	n, err := i.r.Read(p)
	i.n += int64(n)
	if i.n > i.g.limits.Size+headerRoom*int64(i.g.limits.Files)+16<<20 {
		return 0, i.g.sumTooLarge()
	}
	if over := i.g.bomb(i.n); over != nil {
		return 0, over
	}
	return n, err
}
