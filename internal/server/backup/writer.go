package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"filippo.io/age"
)

const (
	headerName   = "header.json"
	manifestName = "manifest.json"
	// signatureName has the signatures of the manifest's bytes.
	signatureName = "manifest.sig"
	// partSize is the size of the parts of a stream.
	partSize = 4 << 20
	partForm = "%s.gz.%06d"
)

// Writer writes an archive.
type Writer struct {
	header Header
	tar    *tar.Writer
	sealed io.WriteCloser
	by     SigningKeys
	all    entries
	files  map[string]File
	blobs  map[string]Blob
}

// NewWriter begins an archive. Without signing keys it is not signed.
func NewWriter(w io.Writer, to Recipients, by SigningKeys, h Header) (*Writer, error) {
	sealed, err := age.Encrypt(w, to.list...)
	if err != nil {
		return nil, err
	}
	h.Format = Format
	out := &Writer{header: h, tar: tar.NewWriter(sealed), sealed: sealed, by: by, all: newEntries(),
		files: map[string]File{}, blobs: map[string]Blob{}}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if err := out.entry(headerName, 0o600, int64(len(text)), bytes.NewReader(text)); err != nil {
		return nil, err
	}
	return out, nil
}

func (w *Writer) entry(name string, mode fs.FileMode, size int64, r io.Reader) error {
	err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode.Perm()), Size: size,
		ModTime: w.header.Created, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	content := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(w.tar, content), r, make([]byte, 128<<10))
	if err == nil && n != size {
		err = fmt.Errorf("%s has %d bytes and had %d before", name, n, size)
	}
	w.all.add(name, mode, size, content)
	return err
}

// entries is the checksum of the entries of an archive.
type entries struct{ hash.Hash }

func newEntries() entries { return entries{sha256.New()} }

// add adds an entry with its content.
func (e entries) add(name string, mode fs.FileMode, size int64, content hash.Hash) {
	_, _ = fmt.Fprintf(e, "%q %04o %d %x\n", name, mode.Perm(), size, content.Sum(nil)) // a hash does not fail
}

func (e entries) String() string { return hex.EncodeToString(e.Sum(nil)) }

// File adds a file whose size is known.
func (w *Writer) File(name string, mode fs.FileMode, size int64, r io.Reader) (File, error) {
	if !fs.ValidPath(name) || name == headerName || name == manifestName || name == signatureName {
		return File{}, fmt.Errorf("%q cannot be the name of a file in a backup", name)
	}
	sum := sha256.New()
	if err := w.entry(name, mode, size, io.TeeReader(r, sum)); err != nil {
		return File{}, err
	}
	f := File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)), Mode: mode.Perm()}
	if _, _, isBlob := ParseBlobName(name); !isBlob {
		w.files[name] = f
	}
	return f, nil
}

// Blob adds a blob, which content has if b.Object is empty.
func (w *Writer) Blob(b Blob, content io.Reader) error {
	if b.Object == "" {
		f, err := w.File(b.Name(), 0o600, b.Size, content)
		if err != nil {
			return err
		}
		if f.SHA256 != b.SHA256 {
			return &BlobError{b, f.SHA256}
		}
	}
	w.blobs[b.Name()] = b
	return nil
}

// BlobError means that a blob of the server has other content than its checksum says.
type BlobError struct {
	Blob
	Found string
}

func (e *BlobError) Error() string {
	return fmt.Sprintf("%s %s is damaged on the server: its SHA-256 is %s and should be %s", e.Kind, e.Key,
		e.Found, e.SHA256)
}

// Stream adds a file whose size is not known, which write writes.
func (w *Writer) Stream(name string, mode fs.FileMode, write func(io.Writer) error) (File, error) {
	if !fs.ValidPath(name) {
		return File{}, fmt.Errorf("%q cannot be the name of a file in a backup", name)
	}
	out := &parts{w: w, name: name, mode: mode}
	packed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return File{}, err
	}
	count := &counter{sum: sha256.New()}
	if err := write(io.MultiWriter(packed, count)); err != nil {
		return File{}, err
	}
	if err := errors.Join(packed.Close(), out.flush()); err != nil {
		return File{}, err
	}
	f := File{Name: name, Size: count.size, SHA256: hex.EncodeToString(count.sum.Sum(nil)), Mode: mode.Perm()}
	w.files[name] = f
	return f, nil
}

type counter struct {
	sum  hash.Hash
	size int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	return c.sum.Write(p)
}

// parts splits a stream into entries.
type parts struct {
	w    *Writer
	name string
	mode fs.FileMode
	n    int
	buf  []byte
}

func (p *parts) Write(b []byte) (int, error) {
	written := len(b)
	for len(b) > 0 {
		n := min(len(b), partSize-len(p.buf))
		p.buf, b = append(p.buf, b[:n]...), b[n:]
		if len(p.buf) == partSize {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return written, nil
}

func (p *parts) flush() error {
	if len(p.buf) == 0 && p.n > 0 {
		return nil
	}
	p.n++
	err := p.w.entry(fmt.Sprintf(partForm, p.name, p.n), p.mode, int64(len(p.buf)), bytes.NewReader(p.buf))
	p.buf = p.buf[:0]
	return err
}

// Forget takes a blob out of the backup, because nothing refers to it any more.
func (w *Writer) Forget(b Blob) { delete(w.blobs, b.Name()) }

// Close writes the manifest and ends the archive. Without it the archive cannot be read.
func (w *Writer) Close(position string, missing []string) (*Manifest, error) {
	m := &Manifest{Header: w.header, Finished: time.Now().UTC(), Position: position, Missing: missing,
		Entries: w.all.String()}
	m.Files = slices.SortedFunc(maps.Values(w.files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	m.Blobs = slices.SortedFunc(maps.Values(w.blobs), func(a, b Blob) int { return cmp.Compare(a.Name(), b.Name()) })
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	signatures, err := w.by.sign(text)
	if err != nil {
		return nil, err
	}
	if err := w.entry(manifestName, 0o600, int64(len(text)), bytes.NewReader(text)); err != nil {
		return nil, err
	}
	if err := w.entry(signatureName, 0o600, int64(len(signatures)), bytes.NewReader(signatures)); err != nil {
		return nil, err
	}
	return m, errors.Join(w.tar.Close(), w.sealed.Close())
}
