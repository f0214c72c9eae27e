package deltas

import (
	"slices"
	"sync"

	"ingot/internal/platform/storage/archive"
)

// kept is the number of droplets that are remembered, keptBytes the size of their layers
// together, and keptEntries the number of entries of those that new ones are compared with.
// An app that is being developed uses the last one or two; one that is forgotten is unpacked
// as a whole.
const (
	kept        = 64
	keptBytes   = 32 << 20
	keptEntries = 100_000
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

	bases map[string]listed // the last droplet of an app that was built and has no layer
	built []string          // the apps of bases, the one that was built longest ago first
}

// listed is a droplet of which is known what it consists of.
type listed struct {
	Base
	content *archive.Listing
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

// Comparison compares a droplet that is being stored with one before it.
type Comparison struct {
	*archive.Comparison
	app  string
	base Base
}

// Compare returns what compares a new droplet of an app with the one before it that was
// built and stored as a whole, if that is known and exists. Droplets are compared with that
// one as long as they differ little, not with one another.
func (d *Droplets) Compare(app string, exists func(dropletGUID string) bool) *Comparison {
	d.mu.Lock()
	base, ok := d.bases[app]
	d.mu.Unlock()
	if !ok || !exists(base.GUID) {
		base = listed{}
	}
	return &Comparison{archive.NewComparison(base.content), app, base.Base}
}

// Built remembers a droplet that was stored, of which all entries were compared.
func (d *Droplets) Built(droplet Base, c *Comparison) {
	content, layer := c.Finish()
	if layer != nil {
		d.Add(droplet.GUID, c.base, layer)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(c.app)
	if content == nil {
		return
	}
	if d.bases == nil {
		d.bases = map[string]listed{}
	}
	d.bases[c.app] = listed{droplet, content}
	d.built = append(d.built, c.app)
	for len(d.built) > kept || d.entries() > keptEntries && len(d.built) > 1 {
		d.forget(d.built[0])
	}
}

func (d *Droplets) forget(app string) {
	delete(d.bases, app)
	d.built = slices.DeleteFunc(d.built, func(other string) bool { return other == app })
}

func (d *Droplets) entries() (sum int) {
	for _, b := range d.bases {
		sum += b.content.Len()
	}
	return sum
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
