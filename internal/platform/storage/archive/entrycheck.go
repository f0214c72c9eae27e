package archive

import (
	"errors"
	"io"
	"io/fs"

	"ingot/internal/base/fault"
)

// Visit is called for each entry, in the archive's order. The body of a file is
// valid until Visit returns and need not be read to its end; all other kinds have
// none. The targets of symbolic links are judged only after the last entry, so
// what Visit did with them has to be undone, or not yet be done, when the walk
// ends with an error. An error of Visit ends the walk and is returned as it is.
type Visit func(e Entry, body io.Reader) error

// entryCheck checks each entry of an archive before calling Visit.
type entryCheck struct {
	limits  Limits
	tree    *tree
	visit   Visit
	entries int
	// inflated is what came out of the archive, input tells how much went in, and
	// failed is the error of the source itself, if that was what failed.
	inflated int64
	input    func() int64
	failed   func() error
	// layer is set if the archive is a layer of a container image.
	layer *layerNames
}

func newEntryCheck(l Limits, visit Visit) *entryCheck {
	if visit == nil {
		visit = func(Entry, io.Reader) error { return nil }
	}
	return &entryCheck{
		limits: l, tree: newTree(l), visit: visit,
		input:  func() int64 { return 0 },
		failed: func() error { return nil },
	}
}

// next counts an entry.
func (g *entryCheck) next() error {
	if g.entries++; g.entries > g.limits.Files {
		return tooMany(g.limits)
	}
	return nil
}

func (g *entryCheck) finish() (Summary, error) {
	if err := g.tree.checkLinks(); err != nil {
		return Summary{}, err
	}
	return g.tree.sum, nil
}

func (g *entryCheck) dir(name string, e Entry) (err error) {
	e.Kind, e.Size, e.Mode = Dir, 0, dirMode(e.Mode)
	if _, e.Path, err = g.tree.place(name, Dir); err != nil {
		return err
	}
	return g.visit(e, nil)
}

func (g *entryCheck) symlink(name, target string, e Entry) (err error) {
	e.Kind, e.Size, e.Mode, e.Target = Symlink, 0, fs.ModePerm, target
	if e.Path, err = g.tree.placeLink(name, target); err != nil {
		return err
	}
	return g.visit(e, nil)
}

func (g *entryCheck) hardlink(name, target string, e Entry) error {
	old, path, err := g.tree.find(name, target)
	if err != nil {
		return err
	}
	if old.kind == Symlink { // a second name for a link is a link
		return g.symlink(name, old.target, e)
	}
	n, clean, err := g.tree.place(name, File)
	if err != nil {
		return err
	}
	if n == old {
		return refuse(name, "is a hard link to itself")
	}
	if err := g.count(name, old.size, old.size); err != nil {
		return err
	}
	n.size = old.size
	e.Kind, e.Path, e.Target, e.Size, e.Mode = Hardlink, clean, path, old.size, fileMode(e.Mode)
	return g.visit(e, nil)
}

// file visits a file and reads what the visitor left. Packed tells that the body
// is inflated from the archive, so that its ratio matters.
func (g *entryCheck) file(name string, e Entry, body io.Reader, packed bool) error {
	n, clean, err := g.tree.place(name, File)
	if err != nil {
		return err
	}
	if e.Size > g.limits.FileSize {
		return g.tooLarge(name)
	}
	e.Kind, e.Path, e.Mode = File, clean, fileMode(e.Mode)
	c := &counted{g: g, name: name, r: body, packed: packed}
	if err := g.visit(e, c); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	n.size = c.n
	return nil
}

// count adds to the sum of sizes, of which size is one file's.
func (g *entryCheck) count(name string, more, size int64) error {
	g.tree.sum.Size += more
	if size > g.limits.FileSize {
		return g.tooLarge(name)
	}
	if g.tree.sum.Size > g.limits.Size {
		return g.sumTooLarge()
	}
	return nil
}

// ErrTooLarge is in the chain of refusals because of Limits.Size or FileSize.
var ErrTooLarge = errors.New("larger than allowed")

func (g *entryCheck) tooLarge(name string) error {
	return wrapped(ErrTooLarge, refuse(name, "is larger than %s", bytesText(g.limits.FileSize)))
}

func (g *entryCheck) sumTooLarge() error {
	return wrapped(ErrTooLarge, invalid("it is larger than %s when inflated", bytesText(g.limits.Size)))
}

// bomb returns an error if n inflated bytes are too many for the compressed input.
func (g *entryCheck) bomb(n int64) error {
	if n > ratioFree && n/g.limits.Ratio > g.input() {
		return invalid("it inflates to more than %d times its size", g.limits.Ratio)
	}
	return nil
}

// damaged is for an error while reading: that of the source as it is, anything
// else is the archive's fault.
func (g *entryCheck) damaged(name string, err error) error {
	if failed := g.failed(); failed != nil {
		return failed
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	if name == "" {
		return wrapped(err, invalid("it is damaged or cut short"))
	}
	return wrapped(err, refuse(name, "is damaged or cut short"))
}

func wrapped(cause error, e *fault.Error) error {
	e.Err = cause
	return e
}

// counted is a body that is counted while it is read.
type counted struct {
	g      *entryCheck
	name   string
	r      io.Reader
	packed bool
	n      int64
	err    error
}

func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = c.g.damaged(c.name, err)
	} else {
		c.err = err
	}
	if over := c.g.count(c.name, int64(n), c.n); over != nil {
		c.err = over
		return 0, over
	}
	if c.packed {
		c.g.inflated += int64(n)
		if over := c.g.bomb(c.g.inflated); over != nil {
			c.err = over
			return 0, over
		}
	}
	return n, c.err
}

func fileMode(m fs.FileMode) fs.FileMode {
	if m.Perm() == 0 { // made where there are no modes
		return 0o644
	}
	return m.Perm() | 0o600
}

func dirMode(m fs.FileMode) fs.FileMode {
	if m.Perm() == 0 {
		return 0o755
	}
	return m.Perm() | 0o700
}
