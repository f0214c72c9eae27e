package archive

import (
	"archive/tar"
	"bytes"
	"maps"
	"path"
	"slices"
)

// maxLayer is the size of an Overlay that is kept in memory: room for the program of a
// compiled app.
const maxLayer = 16 << 20

// Overlay are the files in which a droplet differs from another one: unpacked over the
// files of that one, they are those of the droplet. It is never changed.
type Overlay struct {
	entries map[string]layerEntry
	size    int64
}

type layerEntry struct {
	header  tar.Header
	content []byte
}

func (l *Overlay) add(h tar.Header, content []byte) {
	h.PAXRecords = nil // attributes, which are not unpacked, and may be large
	name := path.Clean(h.Name)
	if was, again := l.entries[name]; again {
		l.size -= int64(len(was.content)) + headerRoom
	}
	l.entries[name] = layerEntry{h, content}
	l.size += int64(len(content)) + headerRoom
}

// Size returns how much memory it takes, about.
func (l *Overlay) Size() int64 { return l.size }

// Over returns the layer of both, in which l is over another one; nil if it would be too
// large.
func (l *Overlay) Over(below *Overlay) *Overlay {
	both := &Overlay{entries: maps.Clone(below.entries)}
	maps.Copy(both.entries, l.entries)
	for _, e := range both.entries {
		both.size += int64(len(e.content)) + headerRoom
	}
	if both.size > maxLayer {
		return nil
	}
	return both
}

// Tar returns the layer as a tar.
func (l *Overlay) Tar() ([]byte, error) {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(l.entries)) { // a directory is before its content
		e := l.entries[name]
		if err := out.WriteHeader(&e.header); err != nil {
			return nil, err
		}
		if _, err := out.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
