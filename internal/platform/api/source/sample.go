package source

import (
	"archive/zip"
	"bytes"
	"embed"
	"io/fs"
)

//go:embed sample
var sample embed.FS

// sampleZip returns the sample: a page that any engine can serve, without the network.
func sampleZip() ([]byte, error) {
	files, err := fs.Sub(sample, "sample")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := w.AddFS(files); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
