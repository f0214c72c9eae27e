package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"

	"ingot/internal/base/version"
)

// docsPath is where the documentation is served.
const docsPath = "/docs/"

// chapter returns the address of the documentation about the pages of a template.
func (c *Console) chapter(template string) string {
	return docsPath + cmp.Or(c.Chapters[template], "console")
}

// Fixed is a page that is the same for everyone. It is rendered once and kept compressed, so that a request
// costs no more than a file.
type Fixed struct {
	zip []byte
	tag string
}

// Fix renders a page without a session.
func (c *Console) Fix(name string, p Page) (*Fixed, error) {
	p.Version = version.Version
	b, err := c.Render(name, p)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return &Fixed{zip: zipped(b), tag: `"` + hex.EncodeToString(sum[:8]) + `"`}, nil
}

// ShowFixed writes a page, or that the client has it. Clients ask each time, because the page may change
// with the version of the server.
func (c *Console) ShowFixed(w http.ResponseWriter, r *http.Request, f *Fixed) error {
	h := w.Header()
	c.setHeaders(h)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		h.Add("Vary", "Accept-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	var plain []byte
	if !takesZip(r) {
		z, err := gzip.NewReader(bytes.NewReader(f.zip))
		if err != nil {
			return err
		}
		if plain, err = io.ReadAll(z); err != nil { // what Fix compressed
			return err
		}
	}
	WriteZipped(w, r, http.StatusOK, plain, f.zip)
	return nil
}
