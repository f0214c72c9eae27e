package sftp

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxReplaced limits the size of a file for Replace.
const maxReplaced = 1 << 20

// Replace reads a tar stream and replaces the files of a directory that it has, and of its
// subdirectories, each atomically: a program sees the old content or the new. If it fails while
// reading, nothing has changed. Directories may be read-only.
func Replace(dir string, from io.Reader) (err error) {
	var staged [][2]string // temporary and final name
	open := map[string]fs.FileMode{}
	defer func() {
		for _, s := range staged {
			os.Remove(s[0])
		}
		for name, mode := range open {
			err = errors.Join(err, os.Chmod(name, mode)) //nolint:gosec // what it was before
		}
	}()
	stream := &watched{Reader: from}
	files := tar.NewReader(stream)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) && stream.ended {
			return io.ErrUnexpectedEOF // an end mark is missing
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir && filepath.IsLocal(h.Name) {
			continue // only existing directories have files to replace
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) || h.Name == "." || h.Name != filepath.Clean(h.Name) ||
			h.Size > maxReplaced {
			return fmt.Errorf("%q is not a small file of the directory", h.Name)
		}
		in := filepath.Join(dir, filepath.Dir(h.Name)) //nolint:gosec // a local name
		if err := writable(in, open); err != nil {
			return err
		}
		temporary, err := stage(in, filepath.Base(h.Name), h, files)
		if temporary != "" {
			staged = append(staged, [2]string{temporary, filepath.Join(in, filepath.Base(h.Name))})
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

// writable makes a directory writable for its owner, and remembers what it was.
func writable(dir string, was map[string]fs.FileMode) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	const ownWrite = 0o200
	if info.Mode()&ownWrite != 0 {
		return nil
	}
	was[dir] = info.Mode().Perm()
	return os.Chmod(dir, info.Mode().Perm()|ownWrite) //nolint:gosec // it is reset at the end
}

// stage writes a file of the stream beside the one that it replaces.
func stage(dir, base string, h *tar.Header, content io.Reader) (name string, err error) {
	f, err := os.CreateTemp(dir, "."+base+".*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, content)
	return f.Name(), errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close())
}
