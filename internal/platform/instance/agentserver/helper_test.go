//go:build linux

package agentserver

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"
)

// entry is an entry of an archive.
type entry struct {
	name, body, link, hard string
	dir, device            bool
}

func tarOf(t *testing.T, entries ...entry) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.body)), Typeflag: tar.TypeReg}
		switch {
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		case e.hard != "":
			h.Typeflag, h.Linkname = tar.TypeLink, e.hard
		case e.dir:
			h.Typeflag = tar.TypeDir
		case e.device:
			h.Typeflag = tar.TypeChar
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(w, e.body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}
