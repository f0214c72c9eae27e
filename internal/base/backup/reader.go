package backup

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Visitor gets what is in an archive while it is read. What it got counts only when Read
// has returned without an error.
type Visitor struct {
	// Header decides whether this program can use the archive.
	Header func(Header) error
	// File gets a file, which replaces an earlier one of that name.
	File func(name string, mode fs.FileMode, r io.Reader) error
}

// maxText limits the header and the manifest.
const maxText = 1 << 30

// Read reads an archive to its end and compares everything with the manifest.
func Read(r io.Reader, keys Identities, v Visitor) (*Manifest, error) {
	plain, err := decrypt(bufio.NewReaderSize(r, 128<<10), keys)
	if err != nil {
		return nil, err
	}
	in := &reader{plain: plain, tar: tar.NewReader(plain), sums: map[string]File{}}
	m, err := in.read(v)
	if err == nil {
		return m, nil
	}
	var visitor *visitError
	var newer *NewerError
	switch {
	case errors.As(err, &visitor):
		return nil, visitor.error
	case errors.As(err, &newer):
		return nil, newer
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return nil, &DamagedError{err}
}

type reader struct {
	plain   io.Reader
	tar     *tar.Reader
	pending *tar.Header // read, but not used yet
	sums    map[string]File
}

// visitError is an error of the visitor, not of the archive.
type visitError struct{ error }

func (r *reader) next() (*tar.Header, error) {
	if h := r.pending; h != nil {
		r.pending = nil
		return h, nil
	}
	h, err := r.tar.Next()
	if err == nil && (h.Typeflag != tar.TypeReg || !fs.ValidPath(h.Name)) {
		err = fmt.Errorf("it has an entry %q, which no backup has", h.Name)
	}
	return h, err
}

func (r *reader) read(v Visitor) (*Manifest, error) {
	first, err := r.next()
	if err != nil {
		return nil, err
	}
	var h Header
	if first.Name != headerName {
		return nil, fmt.Errorf("its first entry is %q, not %s", first.Name, headerName)
	}
	if err := json.NewDecoder(io.LimitReader(r.tar, maxText)).Decode(&h); err != nil {
		return nil, err
	}
	if h.Format > Format {
		return nil, &NewerError{h.Ingot, fmt.Sprintf("format %d of backups, known up to %d", h.Format, Format)}
	}
	if err := v.Header(h); err != nil {
		return nil, &visitError{err}
	}
	for {
		h, err := r.next()
		if err != nil {
			return nil, err
		}
		if h.Name == manifestName {
			return r.manifest()
		}
		if err := r.file(h, v); err != nil {
			return nil, err
		}
	}
}

// file passes an entry, or the parts of a stream, to the visitor.
func (r *reader) file(h *tar.Header, v Visitor) error {
	name, content := h.Name, io.Reader(r.tar)
	if base, ok := strings.CutSuffix(h.Name, ".gz.000001"); ok {
		packed, err := gzip.NewReader(bufio.NewReaderSize(&joined{r: r, name: base, n: 1}, 64<<10))
		if err != nil {
			return err
		}
		name, content = base, packed
	}
	count := &counter{sum: sha256.New()}
	watched := &source{r: io.TeeReader(content, count)}
	if err := v.File(name, h.FileInfo().Mode().Perm(), watched); err != nil && watched.err == nil {
		return &visitError{err}
	}
	if watched.err != nil {
		return watched.err
	}
	if _, err := io.Copy(io.Discard, watched); err != nil {
		return err
	}
	r.sums[name] = File{Name: name, Size: count.size, SHA256: hex.EncodeToString(count.sum.Sum(nil))}
	return nil
}

// source remembers the error of the archive, which the visitor returns wrapped.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// joined reads the parts of a stream.
type joined struct {
	r    *reader
	name string
	n    int
	done bool
}

func (j *joined) Read(p []byte) (int, error) {
	for !j.done {
		n, err := j.r.tar.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
		if err == nil {
			continue
		}
		h, err := j.r.next()
		if err != nil {
			return 0, unexpected(err)
		}
		j.n++
		if h.Name != fmt.Sprintf(partForm, j.name, j.n) {
			j.r.pending, j.done = h, true
		}
	}
	return 0, io.EOF
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// manifest reads the manifest and the rest, and compares.
func (r *reader) manifest() (*Manifest, error) {
	m := &Manifest{}
	if err := json.NewDecoder(io.LimitReader(r.tar, maxText)).Decode(m); err != nil {
		return nil, err
	}
	if h, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = fmt.Errorf("%q follows the manifest", h.Name)
		}
		return nil, err
	}
	// The last block of age says that nothing was cut off.
	if _, err := io.Copy(io.Discard, r.plain); err != nil {
		return nil, err
	}
	want := m.Files
	for _, b := range m.Blobs {
		if b.Object == "" {
			want = append(want[:len(want):len(want)], File{Name: b.Name(), Size: b.Size, SHA256: b.SHA256})
		}
	}
	for _, f := range want {
		got, ok := r.sums[f.Name]
		if !ok || got.SHA256 != f.SHA256 || got.Size != f.Size {
			return nil, fmt.Errorf("%s has %d bytes with SHA-256 %q and should have %d with %s", f.Name, got.Size, got.SHA256, f.Size, f.SHA256)
		}
	}
	return m, nil
}

// ReadBlob returns the content of a blob's object. Reading it to the end fails if it is
// not what the manifest says.
func ReadBlob(object io.Reader, keys Identities, b Blob) (io.Reader, error) {
	plain, err := decrypt(bufio.NewReaderSize(object, 128<<10), keys)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", b.Kind, b.Key, err)
	}
	return &checked{plain: plain, blob: b, counter: counter{sum: sha256.New()}, differs: func(found string) error {
		return &DamagedError{fmt.Errorf("the object of %s %s is another one: its SHA-256 is %s and should be %s", b.Kind, b.Key, found, b.SHA256)}
	}}, nil
}

// NewChecked returns the content of a blob of the server. Reading it to the end fails
// with a BlobError if it is not what the checksum says.
func NewChecked(content io.Reader, b Blob) io.Reader {
	return &checked{plain: content, blob: b, counter: counter{sum: sha256.New()}, differs: func(found string) error { return &BlobError{b, found} }}
}

type checked struct {
	plain   io.Reader
	blob    Blob
	differs func(found string) error
	counter
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.plain.Read(p)
	_, _ = c.Write(p[:n]) // a hash does not fail
	switch {
	case errors.Is(err, io.EOF):
		if got := hex.EncodeToString(c.sum.Sum(nil)); got != c.blob.SHA256 || c.size != c.blob.Size {
			return n, c.differs(got)
		}
	case err != nil:
		err = &DamagedError{fmt.Errorf("the object of %s %s: %w", c.blob.Kind, c.blob.Key, err)}
	}
	return n, err
}
