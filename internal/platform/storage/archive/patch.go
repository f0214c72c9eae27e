package archive

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Patch is a change to the files of an application: a zip with those that are new or
// different, and the names of those that are gone. Both come from a client.
type Patch struct {
	// Bits may be nil if files were only deleted.
	Bits io.ReaderAt
	Size int64
	// Deleted names files, links and directories; a directory goes with its content.
	Deleted []string
	Limits  Limits
}

// Changes are the effects of a Patch on a package.
type Changes struct {
	// Added, Changed and Deleted are paths of files and links.
	Added, Changed, Deleted []string
}

// ErrNotPatchable means that the files of a droplet do not have the shape of those of its
// package, so that only a build can tell what the change does to them.
var ErrNotPatchable = errors.New("the change does not fit the files of the droplet")

// CheckedPatch is a patch whose zip and names were checked.
type CheckedPatch struct {
	limits  Limits
	order   []string
	files   map[string]zipFile
	deleted map[string]bool
}

// Check checks the zip and the names of a patch.
func (p Patch) Check() (*CheckedPatch, error) {
	c := &CheckedPatch{limits: p.Limits.withDefaults(), files: map[string]zipFile{}, deleted: map[string]bool{}}
	var source *zip.File
	limits := c.limits
	limits.OutsideLinks = true // where a link leads is known with the other files only
	g := newEntryCheck(limits, func(e Entry, _ io.Reader) error {
		if e.Path == "." {
			return nil
		}
		if _, again := c.files[e.Path]; !again {
			c.order = append(c.order, e.Path)
		}
		c.files[e.Path] = zipFile{e, source}
		return nil
	})
	if p.Bits != nil {
		if err := g.zip(p.Bits, p.Size, func(f *zip.File) { source = f }); err != nil {
			return nil, err
		}
	}
	if len(p.Deleted) > c.limits.Files {
		return nil, tooMany(c.limits)
	}
	for _, name := range p.Deleted {
		parts, err := g.tree.parts(name)
		if err == nil && len(parts) == 0 {
			err = refuse(name, "is the root directory")
		}
		if err != nil {
			err.Message = strings.Replace(err.Message, "The archive is", "The list of deleted files is", 1)
			return nil, err
		}
		c.deleted[strings.Join(parts, "/")] = true
	}
	return c, nil
}

// drops reports whether an entry of the old files is replaced or deleted.
func (c *CheckedPatch) drops(name string) bool {
	if _, changed := c.files[name]; changed || c.deleted[name] {
		return true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if c.deleted[dir] {
			return true
		}
		if f, changed := c.files[dir]; changed && f.entry.Kind != Dir {
			return true // a file or a link instead of the directory
		}
	}
	return false
}

// Zip writes the package of the changed application: that of the old one, with the
// change. The result passes the same checks as an upload.
func (c *CheckedPatch) Zip(w io.Writer, base io.ReaderAt, size int64) (Changes, error) {
	old, err := zip.NewReader(base, size)
	if err != nil {
		return Changes{}, fmt.Errorf("the package before the change: %w", err)
	}
	var changes Changes
	out := &zipWriter{Writer: zip.NewWriter(w), files: c.files, order: c.order}
	t := newTree(c.limits)
	before := map[string]bool{}
	for _, f := range old.File {
		name := strings.TrimSuffix(f.Name, "/")
		dir := f.Mode().IsDir()
		before[name] = !dir
		if c.drops(name) {
			if _, changed := c.files[name]; !changed && !dir {
				changes.Deleted = append(changes.Deleted, name)
			}
			continue
		}
		if err := placeOld(t, name, f); err != nil {
			return Changes{}, err
		}
		if err := out.Copy(f); err != nil {
			return Changes{}, fmt.Errorf("copy %s: %w", quote(name), err)
		}
	}
	for _, name := range c.order {
		e := c.files[name].entry
		if err := placeNew(t, e); err != nil {
			return Changes{}, err
		}
		switch file, known := before[name]; {
		case known && file && e.Kind == Dir:
			changes.Deleted = append(changes.Deleted, name)
		case e.Kind == Dir:
		case known && file:
			changes.Changed = append(changes.Changed, name)
		default:
			changes.Added = append(changes.Added, name)
		}
	}
	if err := t.checkLinks(); err != nil {
		return Changes{}, err
	}
	if t.sum.Size > c.limits.Size {
		return Changes{}, newEntryCheck(c.limits, nil).sumTooLarge()
	}
	return changes, out.finish()
}

// placeOld adds an entry of the old package to the names of the new one.
func placeOld(t *tree, name string, f *zip.File) error {
	t.sum.Size += int64(min(f.UncompressedSize64, 1<<62)) //nolint:gosec // checked when it was uploaded
	switch {
	case f.Mode().IsDir():
		_, _, err := t.place(name, Dir)
		return err
	case f.Mode()&fs.ModeSymlink != 0:
		target, err := linkTarget(f)
		if err == nil {
			_, err = t.placeLink(name, target)
		}
		return err
	}
	_, _, err := t.place(name, File)
	return err
}

func linkTarget(f *zip.File) (string, error) {
	body, err := f.Open()
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxName+1))
	return string(text), err
}

func placeNew(t *tree, e Entry) error {
	t.sum.Size += e.Size
	if e.Kind == Symlink {
		_, err := t.placeLink(e.Path, e.Target)
		return err
	}
	_, _, err := t.place(e.Path, e.Kind)
	return err
}

// Tar writes the droplet of the changed application, compressed: that of the old one,
// with the change below the directory dir. It returns ErrNotPatchable if the change
// would need more than to replace, add and remove files there. The layer is nil if the
// droplet is not just the old one with other files over it.
func (c *CheckedPatch) Tar(w io.Writer, base io.Reader, dir string) (*Overlay, error) {
	in, err := gzip.NewReader(base)
	if err != nil {
		return nil, fmt.Errorf("the droplet before the change: %w", err)
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	p := &tarPatch{CheckedPatch: c, out: tar.NewWriter(z), dir: dir, parents: map[string]*tar.Header{}, layered: true}
	for _, name := range c.order {
		for at := path.Dir(path.Join(dir, name)); at != "."; at = path.Dir(at) {
			p.parents[at] = nil
		}
	}
	if err := p.copy(tar.NewReader(in)); err != nil {
		return nil, err
	}
	layer := &Overlay{entries: map[string]layerEntry{}}
	for _, name := range c.order {
		if err := p.keepParents(name, layer); err != nil {
			return nil, err
		}
		if err := c.files[name].writeTar(p.out, "./"+dir+"/"+name, layer); err != nil {
			return nil, err
		}
	}
	if err := p.out.Close(); err != nil {
		return nil, err
	}
	if !p.layered || layer.size > maxLayer {
		layer = nil
	}
	return layer, z.Close()
}

// tarPatch is the work of Tar.
type tarPatch struct {
	*CheckedPatch
	out *tar.Writer
	dir string
	// parents are the directories of changed files, by their path from the root, with their
	// entries in the droplet. Others are not kept: a droplet may have millions.
	parents map[string]*tar.Header
	layered bool
}

// below returns the path of an entry relative to dir.
func (p *tarPatch) below(name string) (string, bool) {
	return strings.CutPrefix(path.Clean(name), p.dir+"/")
}

// copy copies what stays of a droplet.
func (p *tarPatch) copy(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // links of a droplet may lead outside
			return fmt.Errorf("the droplet before the change: %w", err)
		}
		if name, ok := p.below(h.Name); ok && p.drops(name) {
			f, again := p.files[name]
			if !again || (f.entry.Kind == Dir) != (h.Typeflag == tar.TypeDir) {
				p.layered = false // a layer cannot hide what is below it
			}
			continue
		}
		if at := path.Clean(h.Name); p.isParent(at) {
			p.parents[at] = h
		}
		if h.Typeflag == tar.TypeLink {
			if target, ok := p.below(h.Linkname); ok && p.drops(target) {
				return fmt.Errorf("%w: %s is another name of a changed file", ErrNotPatchable, quote(h.Name))
			}
		}
		if err := p.out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(p.out, in); err != nil { //nolint:gosec // was limited when it was built or uploaded
			return err
		}
	}
}

func (p *tarPatch) isParent(name string) bool {
	_, ok := p.parents[name]
	return ok
}

// keepParents checks the directories of a changed file, and adds them to the layer, so that
// they keep their modes.
func (p *tarPatch) keepParents(name string, layer *Overlay) error {
	for at := path.Dir(path.Join(p.dir, name)); at != "."; at = path.Dir(at) {
		h := p.parents[at]
		switch {
		case h == nil: // changed too, or implied
		case h.Typeflag != tar.TypeDir:
			return fmt.Errorf("%w: %s is no directory", ErrNotPatchable, quote(at))
		default:
			layer.add(*h, nil)
		}
	}
	return nil
}

// writeTar writes a file of the patch to a droplet, with the header that a build would
// have given it.
func (f zipFile) writeTar(out *tar.Writer, name string, layer *Overlay) error {
	h := &tar.Header{Name: name, Mode: int64(f.entry.Mode), ModTime: f.entry.Modified, Format: tar.FormatPAX}
	switch f.entry.Kind {
	case Dir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		layer.add(*h, nil)
		return out.WriteHeader(h)
	case Symlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.entry.Target
		layer.add(*h, nil)
		return out.WriteHeader(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, f.entry.Size
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	body, err := f.source.Open()
	if err != nil {
		return err
	}
	defer body.Close()
	if layer.size+h.Size > maxLayer {
		layer.size = maxLayer + 1   // it is not used
		_, err = io.Copy(out, body) //nolint:gosec // checked, and the header has its size
		return err
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	layer.add(*h, content)
	_, err = out.Write(content)
	return err
}
