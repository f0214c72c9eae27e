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
	"hash"
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

// Read reads an archive to its end, compares everything with the manifest, and checks that
// a trusted key has signed it.
func Read(r io.Reader, trust Trust, v Visitor) (*Manifest, error) {
	plain, err := decrypt(bufio.NewReaderSize(r, 128<<10), trust.Keys)
	if err != nil {
		return nil, err
	}
	in := &reader{trust: trust, plain: plain, tar: tar.NewReader(plain), all: newEntries(), sums: map[string]File{}}
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
	trust   Trust
	plain   io.Reader
	tar     *tar.Reader
	pending *tar.Header // read, but not used yet
	header  Header
	sums    map[string]File
	// all are the entries so far; entry is the one that is being read, with its content.
	all     entries
	entry   *tar.Header
	content hash.Hash
}

// Read reads the content of the entry.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.tar.Read(p)
	_, _ = r.content.Write(p[:n]) // a hash does not fail
	return n, err
}

// end reads the rest of the entry.
func (r *reader) end() error {
	if r.entry == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{r}); err != nil {
		return err
	}
	r.all.add(r.entry.Name, r.entry.FileInfo().Mode(), r.entry.Size, r.content)
	r.entry = nil
	return nil
}

// visitError is an error of the visitor, not of the archive.
type visitError struct{ error }

func (r *reader) next() (*tar.Header, error) {
	if h := r.pending; h != nil {
		r.pending = nil
		return h, nil
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	h, err := r.tar.Next()
	r.entry, r.content = h, sha256.New()
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
	if first.Name != headerName {
		return nil, fmt.Errorf("its first entry is %q, not %s", first.Name, headerName)
	}
	h := &r.header
	if err := json.NewDecoder(io.LimitReader(r, maxText)).Decode(h); err != nil {
		return nil, err
	}
	if h.Format > Format {
		return nil, &NewerError{h.Ingot, fmt.Sprintf("format %d of backups, known up to %d", h.Format, Format)}
	}
	if err := v.Header(*h); err != nil {
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
	name, content := h.Name, io.Reader(struct{ io.Reader }{r})
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
		n, err := j.r.Read(p)
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

// manifest reads the manifest, its signatures and the rest, and compares.
func (r *reader) manifest() (*Manifest, error) {
	found := r.all.String() // of the entries before it
	text, err := readText(r, maxText)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	signatures, err := r.signatures()
	if err != nil {
		return nil, err
	}
	// The last block of age says that nothing was cut off.
	if _, err := io.Copy(io.Discard, r.plain); err != nil {
		return nil, err
	}
	if m.Signer, err = r.trust.verify(text, signatures); err != nil {
		return nil, err
	}
	if h := r.header; m.ID != h.ID || m.Format != h.Format || !m.Created.Equal(h.Created) || m.Database != h.Database ||
		m.DataFormat != h.DataFormat {
		return nil, fmt.Errorf("%s is of another backup than %s", manifestName, headerName)
	}
	// Archives of format 1 have no sum.
	if (m.Format > 1 || m.Signer != "") && m.Entries != found {
		return nil, errors.New("an entry was added, removed, renamed or exchanged")
	}
	return m, r.compare(m)
}

// readText reads a text that may have at most limit bytes.
func readText(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, fmt.Errorf("it is longer than %d bytes", limit)
	}
	return text, err
}

// signatures reads what follows the manifest.
func (r *reader) signatures() (text []byte, err error) {
	h, err := r.next()
	if err == nil && h.Name == signatureName {
		if text, err = readText(r, maxSignatures); err == nil {
			h, err = r.next()
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return text, nil
	case err == nil:
		err = fmt.Errorf("%q follows the manifest", h.Name)
	}
	return nil, err
}

// maxSignatures limits the signatures of a manifest.
const maxSignatures = 1 << 20

// compare compares the files with the manifest. One that it does not name is refused; blobs that
// nothing needs any more are not in it, and are not restored.
func (r *reader) compare(m *Manifest) error {
	want := map[string]bool{}
	check := func(f File) error {
		want[f.Name] = true
		if got, ok := r.sums[f.Name]; !ok || got.SHA256 != f.SHA256 || got.Size != f.Size {
			return fmt.Errorf("%s has %d bytes with SHA-256 %q and should have %d with %s", f.Name, got.Size, got.SHA256,
				f.Size, f.SHA256)
		}
		return nil
	}
	for _, f := range m.Files {
		if err := check(f); err != nil {
			return err
		}
	}
	for _, b := range m.Blobs {
		if b.Object != "" {
			continue
		}
		if err := check(File{Name: b.Name(), Size: b.Size, SHA256: b.SHA256}); err != nil {
			return err
		}
	}
	for name := range r.sums {
		if _, _, isBlob := ParseBlobName(name); !isBlob && !want[name] {
			return fmt.Errorf("it has the file %q, which is not in its manifest", name)
		}
	}
	return nil
}

// ReadBlob returns the content of a blob's object. Reading it to the end fails if it is
// not what the manifest says.
func ReadBlob(object io.Reader, keys Identities, b Blob) (io.Reader, error) {
	plain, err := decrypt(bufio.NewReaderSize(object, 128<<10), keys)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", b.Kind, b.Key, err)
	}
	return &checked{plain: plain, blob: b, counter: counter{sum: sha256.New()}, differs: func(found string) error {
		return &DamagedError{fmt.Errorf("the object of %s %s is another one: its SHA-256 is %s and should be %s", b.Kind,
			b.Key, found, b.SHA256)}
	}}, nil
}

// NewChecked returns the content of a blob of the server. Reading it to the end fails
// with a BlobError if it is not what the checksum says.
func NewChecked(content io.Reader, b Blob) io.Reader {
	return &checked{plain: content, blob: b, counter: counter{sum: sha256.New()},
		differs: func(found string) error { return &BlobError{b, found} }}
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
