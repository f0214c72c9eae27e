package bits

import (
	"archive/zip"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/flate"
)

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// Length returns the length of the zip that Store writes.
func Length(files []File) (int64, error) {
	var n counter
	if err := store(&n, files, false); err != nil {
		return 0, err
	}
	var content int64
	for _, f := range files {
		if f.Regular() {
			content += f.Size
		}
	}
	return int64(n) + content, nil
}

// Store writes the files as an uncompressed zip; their checksums must be set. On
// the same machine, compressing takes longer than sending.
func Store(w io.Writer, files []File) error { return store(w, files, true) }

func store(w io.Writer, files []File, content bool) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := header(f)
		h.CompressedSize64, h.UncompressedSize64, h.CRC32 = uint64(f.Size), uint64(f.Size), f.CRC
		if f.Link != "" {
			h.CRC32 = crc([]byte(f.Link))
		}
		entry, err := z.CreateRaw(h)
		if err != nil {
			return err
		}
		switch {
		case f.Link != "":
			_, err = io.WriteString(entry, f.Link)
		case f.Regular() && content:
			err = f.copyTo(entry)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

func header(f File) *zip.FileHeader {
	h := &zip.FileHeader{Name: f.Path, Method: zip.Store}
	h.SetMode(f.Mode)
	if f.Mode.IsDir() {
		h.Name += "/"
	}
	return h
}

// copyTo writes the file's content, and fails if it changed since Sum.
func (f File) copyTo(w io.Writer) error {
	in, err := os.Open(f.full)
	if err != nil {
		return readError(f.Path, err)
	}
	defer in.Close()
	cyclic := crc32.NewIEEE()
	err = copyExactly(io.MultiWriter(w, cyclic), in, f.Path, f.Size)
	if err == nil && cyclic.Sum32() != f.CRC {
		return &ReadError{f.Path, ErrChanged}
	}
	return err
}

// Compress writes the files as a compressed zip, for a remote server.
func Compress(w io.Writer, files []File) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, 3) })
	for _, f := range files {
		h := header(f)
		if f.Regular() {
			h.Method = zip.Deflate
		}
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		switch {
		case f.Link != "":
			_, err = io.WriteString(entry, f.Link)
		case f.Regular():
			err = f.copyTo(entry)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

// IsArchive reports whether a file is a zip, as jars and wars are.
func IsArchive(path string) (bool, error) {
	r, err := zip.OpenReader(path)
	if err != nil {
		if _, statErr := os.Stat(path); statErr != nil {
			return false, statErr
		}
		return false, nil
	}
	return true, r.Close()
}
