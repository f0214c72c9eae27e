package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"path"
)

// maxListed is the number of entries of a Listing, and maxListedName the length of their names
// and targets: those of directories, and of what differs, are kept.
const (
	maxListed     = 20_000
	maxListedName = 512
)

// sum identifies an entry by its kind and name, or what it is: 16 bytes of a SHA-256.
type sum [16]byte

// Listing is what a tar consists of, in sums: enough to tell in what another one differs.
type Listing struct {
	entries map[sum]sum
}

// Len returns the number of its entries.
func (l *Listing) Len() int { return len(l.entries) }

// Comparison finds out, while a tar is written, in what it differs from another one. It
// holds the content of what differs, no more than an Overlay may have.
type Comparison struct {
	base    *Listing // nil: nothing to compare with
	entries map[sum]sum
	found   int // entries of base that are here too
	dirs    map[string]tar.Header
	layer   *Overlay // nil: it is not just the base with other files over it
	listed  bool

	// The entry that is being written.
	open    bool
	header  tar.Header
	name    sum
	hash    hash.Hash
	content bytes.Buffer
	keeps   bool // its content
}

// NewComparison compares with a base, or, if that is nil, only makes a Listing.
func NewComparison(base *Listing) *Comparison {
	c := &Comparison{base: base, entries: map[sum]sum{}, dirs: map[string]tar.Header{}, listed: true, hash: sha256.New()}
	if base != nil {
		c.layer = &Overlay{entries: map[string]layerEntry{}}
	}
	return c
}

// Next begins an entry of the tar; its content is then written to the Comparison.
func (c *Comparison) Next(h *tar.Header) {
	c.end()
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
	default:
		c.listed = false // a hard link, of which the other name may be in the base
	}
	if len(c.entries) == maxListed || len(h.Name)+len(h.Linkname) > maxListedName {
		c.listed = false
	}
	if !c.listed {
		c.layer = nil
		return
	}
	name := path.Clean(h.Name)
	if h.Typeflag == tar.TypeDir {
		c.dirs[name] = *h
	}
	c.open, c.header, c.name = true, *h, sumOf([]byte{h.Typeflag}, []byte(name))
	c.hash.Reset()
	_, _ = fmt.Fprintf(c.hash, "%o %d %q\n", h.Mode, h.ModTime.UnixNano(), h.Linkname) // never fails
	c.content.Reset()
	c.keeps = c.layer != nil && c.layer.size+h.Size <= maxLayer
}

// Write implements io.Writer; it never fails.
func (c *Comparison) Write(p []byte) (int, error) {
	if c.open {
		_, _ = c.hash.Write(p) // never fails
		if c.keeps {
			_, _ = c.content.Write(p) // never fails
		}
	}
	return len(p), nil
}

// end notes the entry that was written.
func (c *Comparison) end() {
	if !c.open {
		return
	}
	c.open = false
	is := sum(c.hash.Sum(nil)[:len(sum{})])
	c.entries[c.name] = is
	if c.layer == nil {
		return
	}
	was, known := c.base.entries[c.name]
	if known {
		c.found++
	}
	switch {
	case known && was == is:
	case !c.keeps:
		c.layer = nil
	default:
		for at := path.Dir(path.Clean(c.header.Name)); at != "."; at = path.Dir(at) {
			if h, ok := c.dirs[at]; ok {
				c.layer.add(h, nil) // so that it keeps its mode
			}
		}
		c.layer.add(c.header, bytes.Clone(c.content.Bytes()))
	}
}

// Finish returns what the tar consists of, and the files in which it differs from the base.
// Either is nil if it cannot be told: an Overlay cannot hide what is only in the base, and
// must not be too large.
func (c *Comparison) Finish() (*Listing, *Overlay) {
	c.end()
	if !c.listed {
		return nil, nil
	}
	if c.layer != nil && (c.found < len(c.base.entries) || c.layer.size > maxLayer) {
		c.layer = nil
	}
	return &Listing{c.entries}, c.layer
}

func sumOf(parts ...[]byte) sum {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(p) // never fails
	}
	return sum(h.Sum(nil)[:len(sum{})])
}
