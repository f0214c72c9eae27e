package archive

import (
	"io"

	"github.com/klauspost/compress/gzip"
)

// ExtractZip writes the entries of a zip file into dir, as ExtractTar does.
func ExtractZip(r io.ReaderAt, size int64, dir string, l Limits) (Summary, error) {
	return extract(dir, func(visit Visit) (Summary, error) { return WalkZip(r, size, l, visit) })
}

// ExtractMerged writes the whole application into dir, in the way of ExtractZip.
func ExtractMerged(dir string, m Merge) (Summary, error) {
	return extract(dir, func(visit Visit) (Summary, error) { return m.walk(visit, nil) })
}

// TarGz writes a directory as tar compressed with gzip, quickly rather than well.
func TarGz(w io.Writer, root string, o TarOptions) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := Tar(z, root, o); err != nil {
		return err
	}
	return z.Close()
}
