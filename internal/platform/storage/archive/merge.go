package archive

import (
	"archive/zip"
	"crypto/sha1" //nolint:gosec // Cloud Foundry's clients name files by it; see package blob on what that is worth
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"

	"ingot/internal/base/fault"
)

// Resource is a file that the client did not upload, because the server said that
// it has it.
type Resource struct {
	Path string
	SHA1 string
	Size int64
	Mode fs.FileMode
}

// Merge is what a client sent: a zip with some files, and a list of the others.
// The list is a stranger's too, so its paths pass the same checks as those of the
// zip, and one tree holds both. Where both have a file, the zip's is taken.
type Merge struct {
	// Bits may be nil if all files were matched.
	Bits io.ReaderAt
	Size int64
	// Matched files are opened with Open, which returns a fault.NotFound for one
	// that is gone, and compared with their size and checksum while they are copied.
	Matched []Resource
	Open    func(Resource) (io.ReadCloser, error)
	Limits  Limits
}

// MergeZip writes the whole application to w as one zip: each name once, none that
// would be refused. What is already compressed is copied as it is, after it was
// checked. What was written before an error is of no use.
func MergeZip(w io.Writer, m Merge) (Summary, error) {
	out := &zipWriter{Writer: zip.NewWriter(w), files: map[string]zipFile{}}
	out.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	sum, err := m.walk(out.visit, func(f *zip.File) { out.source = f })
	if err != nil {
		return Summary{}, err
	}
	if err := out.finish(); err != nil {
		return Summary{}, err
	}
	return sum, nil
}

// walk visits the zip, then the matched files. Note is called with each entry of
// the zip before it is visited, and with nil before the others.
func (m Merge) walk(visit Visit, note func(*zip.File)) (Summary, error) {
	g := newEntryCheck(m.Limits.withDefaults(), visit)
	if m.Bits != nil {
		if err := g.zip(m.Bits, m.Size, note); err != nil {
			return Summary{}, err
		}
	}
	if note != nil {
		note(nil)
	}
	for _, r := range m.Matched {
		if err := m.matched(g, r); err != nil {
			return Summary{}, err
		}
	}
	return g.finish()
}

func (m Merge) matched(g *entryCheck, r Resource) error {
	if err := g.next(); err != nil {
		return err
	}
	files := g.tree.sum.Files
	if _, _, err := g.tree.place(r.Path, File); err != nil {
		return listed(err)
	}
	if g.tree.sum.Files == files {
		return nil // the zip has it, or it is listed twice
	}
	sum, err := hex.DecodeString(r.SHA1)
	if err != nil || len(sum) != sha1.Size || r.Size < 0 {
		return listed(refuse(r.Path, "has no valid checksum and size"))
	}
	f, err := m.Open(r)
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.Wrap(err, fault.Unprocessable,
			"The file %s was not uploaded because the server had it, and now it is gone: push again", quote(r.Path))
	case err != nil:
		return fmt.Errorf("open the matched file %s: %w", quote(r.Path), err)
	}
	defer f.Close()
	g.failed = func() error { return nil }
	body := &verified{r: f, left: r.Size, want: sum, hash: sha1.New()} //nolint:gosec // as above
	if err := g.file(r.Path, Entry{Size: r.Size, Mode: r.Mode}, body, false); err != nil {
		if body.err != nil { // not what the client did
			return fmt.Errorf("read the matched file %s: %w", quote(r.Path), body.err)
		}
		return listed(err)
	}
	return nil
}

// listed makes an error about an entry one about the list.
func listed(err error) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Code == fault.Unprocessable {
		e.Message = strings.Replace(e.Message, "The archive is", "The list of matched files is", 1)
	}
	return err
}

// verified is a file of which size and checksum are known. It ends with an error
// if they are not what was read.
type verified struct {
	r    io.Reader
	left int64
	want []byte
	hash hash.Hash
	err  error
}

func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.r.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	switch {
	case v.left < 0:
		v.err = errors.New("it is longer than it should be")
	case errors.Is(err, io.EOF) && v.left > 0:
		v.err = errors.New("it is shorter than it should be")
	case errors.Is(err, io.EOF) && string(v.hash.Sum(nil)) != string(v.want):
		v.err = errors.New("its content is not that of its checksum")
	case err != nil && !errors.Is(err, io.EOF):
		v.err = err
	default:
		return n, err
	}
	return 0, v.err
}

// zipWriter writes matched files as they come. Files from another zip are noted
// and copied at the end, when it is known which of the same name is the last.
type zipWriter struct {
	*zip.Writer
	source *zip.File
	files  map[string]zipFile
	order  []string
}

type zipFile struct {
	entry  Entry
	source *zip.File
}

func (w *zipWriter) visit(e Entry, body io.Reader) error {
	if w.source != nil {
		if _, again := w.files[e.Path]; !again {
			w.order = append(w.order, e.Path)
		}
		w.files[e.Path] = zipFile{e, w.source}
		return nil
	}
	h := &zip.FileHeader{Name: e.Path, Method: zip.Deflate}
	h.SetMode(e.Mode)
	out, err := w.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, body)
	return err
}

func (w *zipWriter) finish() error {
	for _, name := range w.order {
		f := w.files[name]
		if err := w.copy(f.entry, f.source); err != nil {
			return fmt.Errorf("copy %s: %w", quote(name), err)
		}
	}
	return w.Close()
}

func (w *zipWriter) copy(e Entry, f *zip.File) error {
	switch e.Kind {
	case Dir:
		if e.Path == "." {
			return nil
		}
		h := &zip.FileHeader{Name: e.Path + "/", Modified: e.Modified}
		h.SetMode(fs.ModeDir | e.Mode)
		_, err := w.CreateHeader(h)
		return err
	case Symlink:
		h := &zip.FileHeader{Name: e.Path, Modified: e.Modified}
		h.SetMode(fs.ModeSymlink | e.Mode)
		out, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(out, e.Target)
		}
		return err
	}
	h := &zip.FileHeader{
		Name: e.Path, Method: f.Method, CRC32: f.CRC32, Extra: zipTime(e.Modified),
		CompressedSize64: f.CompressedSize64, UncompressedSize64: f.UncompressedSize64,
	}
	h.SetMode(e.Mode)
	if !f.NonUTF8 && utf8.ValidString(e.Path) {
		h.Flags |= 1 << 11
	}
	raw, err := f.OpenRaw()
	if err != nil {
		return err
	}
	out, err := w.CreateRaw(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, raw)
	return err
}

// zipTime is the extra field for a time in seconds since 1970 (Info-ZIP's "UT").
func zipTime(t time.Time) []byte {
	if t.Unix() <= 0 || t.Unix() > 1<<31-1 {
		return nil
	}
	b := []byte{'U', 'T', 5, 0, 1}
	return binary.LittleEndian.AppendUint32(b, uint32(t.Unix()))
}
