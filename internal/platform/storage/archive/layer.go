package archive

import (
	"archive/tar"
	"cmp"
	"io"
	"os"
	"path"
	"strings"
)

// Layer is what a layer of a container image does to the layers below it.
type Layer struct {
	Summary
	// Removed are paths that it removes. Opaque are directories of which only what
	// the layer itself has is left.
	Removed, Opaque []string
}

// Names of a layer that are no files: they remove files of the layers below.
const (
	whiteout       = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
	whiteoutMeta   = ".wh..wh." // for the file system that had the layer
)

const (
	// overflowID owns the files of users that a container does not have, as in the
	// kernel.
	overflowID = 65534
	maxOwner   = 65535
	// zstdWindow is how far a compressed layer may refer back, which is memory.
	zstdWindow = 64 << 20
)

// ExtractLayer is like ExtractTar for a layer of a container image, which may also
// be compressed with zstd. Files keep their owners if the process is root. Devices
// and pipes are left out, and names may begin with a slash. Removed files leave
// nothing in dir but the directory that they were in.
func ExtractLayer(r io.Reader, dir string, l Limits) (Layer, error) {
	d := &disk{owned: os.Geteuid() == 0}
	var out Layer
	sum, err := d.extract(dir, func(visit Visit) (_ Summary, err error) {
		if out, err = WalkLayer(r, l, visit); err != nil {
			return out.Summary, err
		}
		for _, name := range out.Removed {
			if err := d.mkdir(path.Dir(name), nil); err != nil {
				return out.Summary, onDisk(err, name)
			}
		}
		for _, name := range out.Opaque {
			if err := d.mkdir(name, nil); err != nil {
				return out.Summary, onDisk(err, name)
			}
		}
		return out.Summary, nil
	})
	if err != nil {
		return Layer{}, err
	}
	out.Summary = sum
	return out, nil
}

// WalkLayer is like WalkTar for a layer of a container image, with the entries that
// ExtractLayer writes.
func WalkLayer(r io.Reader, l Limits, visit Visit) (Layer, error) {
	l.OutsideLinks = true // right inside the container
	g := newEntryCheck(l.withDefaults(), visit)
	g.layer = &layerNames{}
	sum, err := g.tar(r)
	if err != nil {
		return Layer{Summary: sum}, err
	}
	out := g.removals()
	out.Summary = sum
	return out, nil
}

// layerNames are what a layer removes, as they come.
type layerNames struct {
	removed, opaque []string
}

// layerEntry prepares an entry of a layer. It reports whether the entry is none of
// a file, directory or link.
func (g *entryCheck) layerEntry(h *tar.Header) (skip bool, err error) {
	h.Name = strings.TrimLeft(h.Name, "/")
	h.Name = cmp.Or(h.Name, ".")
	for _, id := range []*int{&h.Uid, &h.Gid} {
		if *id < 0 || *id > maxOwner {
			*id = overflowID
		}
	}
	switch h.Typeflag {
	case tar.TypeLink:
		h.Linkname = strings.TrimLeft(h.Linkname, "/")
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return true, nil
	}
	dir, base := path.Split(strings.TrimSuffix(h.Name, "/"))
	if !strings.HasPrefix(base, whiteout) {
		return false, nil
	}
	// The directory must not be a link, so it is placed like one that is implied.
	_, in, err := g.tree.place(path.Clean("./"+dir), Dir)
	if err != nil {
		return true, err
	}
	name := strings.TrimPrefix(base, whiteout)
	switch {
	case base == whiteoutOpaque:
		g.layer.opaque = append(g.layer.opaque, in)
	case strings.HasPrefix(base, whiteoutMeta):
	case name == "" || name == "." || name == "..":
		return true, refuse(h.Name, "removes no valid name")
	default:
		g.layer.removed = append(g.layer.removed, path.Join(in, name))
	}
	return true, nil
}

// removals returns what a layer removes, once all of its entries are known: what it
// removes and has itself is replaced.
func (g *entryCheck) removals() Layer {
	var out Layer
	seen := map[string]bool{}
	add := func(list *[]string, name string) {
		if !seen[name] {
			seen[name] = true
			*list = append(*list, name)
		}
	}
	for _, name := range g.layer.opaque {
		add(&out.Opaque, name)
	}
	for _, name := range g.layer.removed {
		n := g.tree.root
		for part := range strings.SplitSeq(name, "/") {
			if n = n.children[part]; n == nil {
				break
			}
		}
		switch {
		case n == nil:
			add(&out.Removed, name)
		case n.kind == Dir:
			add(&out.Opaque, name)
		}
	}
	return out
}
