package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// tarGz returns a compressed tar archive. The names of the files are put behind prefix,
// which ends with a slash; each directory comes before its files.
func tarGz(prefix string, all []file, when time.Time) ([]byte, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	// The best compression takes three times as long and saves one percent.
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	seen := map[string]bool{}
	var mkdir func(dir string) error
	mkdir = func(dir string) error {
		if seen[dir] {
			return nil
		}
		seen[dir] = true
		if dir != "." {
			if err := mkdir(path.Dir(dir)); err != nil {
				return err
			}
		}
		name := prefix
		if dir != "." {
			name += dir + "/"
		}
		return w.WriteHeader(header(tar.TypeDir, name, 0o755, 0, when))
	}
	for _, f := range all {
		if err := mkdir(path.Dir(f.name)); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(header(tar.TypeReg, prefix+f.name, f.mode, int64(len(f.data)), when)); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// zipped returns a zip archive, for systems whose users have no tar.
func zipped(prefix string, all []file, when time.Time) ([]byte, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range all {
		h := &zip.FileHeader{Name: prefix + f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

// header returns a header that does not depend on the machine.
func header(kind byte, name string, mode fs.FileMode, size int64, when time.Time) *tar.Header {
	return &tar.Header{
		Typeflag: kind, Name: name, Mode: int64(mode.Perm()), Size: size, ModTime: when,
		Uname: "root", Gname: "root", Format: tar.FormatGNU,
	}
}

// gzipped returns data compressed as `gzip -9n` does.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
