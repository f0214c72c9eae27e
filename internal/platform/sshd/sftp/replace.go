package sftp

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxReplaced limits the size of a file for Replace.
const maxReplaced = 1 << 20

// Replace reads a tar stream and replaces the files of a directory that it has, each
// atomically: a program sees the old content or the new. If it fails while reading,
// nothing has changed.
func Replace(dir string, from io.Reader) (err error) {
	var staged [][2]string // temporary and final name
	defer func() {
		for _, s := range staged {
			os.Remove(s[0])
		}
	}()
	stream := &watched{Reader: from}
	files := tar.NewReader(stream)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) && stream.ended {
			return io.ErrUnexpectedEOF // a tar stream has an end of its own
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) || h.Name == "." || h.Name != filepath.Base(h.Name) || h.Size > maxReplaced {
			return fmt.Errorf("%q is not a small file of the directory", h.Name)
		}
		temporary, err := stage(dir, h, files)
		if temporary != "" {
			staged = append(staged, [2]string{temporary, filepath.Join(dir, h.Name)}) //nolint:gosec // a name without directories
		}
		if err != nil {
			return err
		}
	}
	for _, s := range staged {
		if err := os.Rename(s[0], s[1]); err != nil {
			return err
		}
	}
	staged = nil
	return nil
}

// watched knows whether its reader has ended.
type watched struct {
	io.Reader
	ended bool
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.ended = w.ended || errors.Is(err, io.EOF)
	return n, err
}

// stage writes a file of the stream beside the one that it replaces.
func stage(dir string, h *tar.Header, content io.Reader) (name string, err error) {
	f, err := os.CreateTemp(dir, "."+h.Name+".*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, content)
	return f.Name(), errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close())
}
