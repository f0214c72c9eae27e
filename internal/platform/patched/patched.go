package patched

import (
	"slices"
	"sync"

	"ingot/internal/platform/archive"
)

// kept is the number of droplets that are remembered, and keptBytes the size of their layers
// together. An app that is being developed uses the last one or two; one that is forgotten is
// unpacked as a whole.
const (
	kept      = 64
	keptBytes = 32 << 20
)

// Base is the droplet that another one differs from.
type Base struct {
	GUID     string
	Checksum string // SHA-256
}

// Droplets are the droplets that are remembered. The zero value has none; it is safe for
// concurrent use.
type Droplets struct {
	mu       sync.Mutex
	all      map[string]droplet
	order    []string // the oldest first
	size     int64    // of all layers
	packages []string // the oldest first
}

type droplet struct {
	base  Base
	layer *archive.Overlay
}

// Add remembers that a droplet is another one with a layer over it. A nil layer is not
// remembered.
func (d *Droplets) Add(guid string, base Base, layer *archive.Overlay) {
	if layer == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if below, ok := d.all[base.GUID]; ok {
		base, layer = below.base, layer.Over(below.layer)
		if layer == nil {
			return // this one becomes the base of the next
		}
	}
	if d.all == nil {
		d.all = map[string]droplet{}
	}
	d.all[guid] = droplet{base, layer}
	d.order, d.size = append(d.order, guid), d.size+layer.Size()
	for len(d.order) > kept || d.size > keptBytes && len(d.order) > 1 {
		d.size -= d.all[d.order[0]].layer.Size()
		delete(d.all, d.order[0])
		d.order = slices.Delete(d.order, 0, 1)
	}
}

// Find returns what a droplet is made of, if that is known.
func (d *Droplets) Find(guid string) (Base, *archive.Overlay, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.all[guid]
	return found.base, found.layer, ok
}

// AddPackage remembers that a package was made by changing a few files of another one,
// and none that names dependencies.
func (d *Droplets) AddPackage(guid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.packages = append(d.packages, guid); len(d.packages) > kept {
		d.packages = slices.Clone(d.packages[1:])
	}
}

// Package reports whether a package is one of AddPackage. Its build leaves nothing in
// the build cache that is worth the time to store it: what differs is compiled again.
func (d *Droplets) Package(guid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.packages, guid)
}
