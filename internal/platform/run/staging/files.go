package staging

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/staging/lifecycle"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
)

// zipFile is a zip that can be opened several times.
type zipFile func() (io.ReaderAt, int64, io.Closer, error)

// converter converts zips to the tars that engines expect, while they are read. An
// engine reports only that reading failed; the converter keeps the reason.
type converter struct {
	mu  sync.Mutex
	err error
}

func (c *converter) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// cause returns the first error of the converter, or err.
func (c *converter) cause(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return errors.Join(c.err, err)
	}
	return err
}

// rename maps the path of an entry; "" omits it.
func (c *converter) open(ctx context.Context, zip zipFile, limits archive.Limits,
	rename func(string) string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		r, size, closer, err := zip()
		if err != nil {
			c.failed(err)
			return nil, err
		}
		pr, pw := io.Pipe()
		background.Feed("staging files", pw, func() error {
			defer closer.Close()
			err := background.Do("staging files", func() error {
				return buffered(pw, func(w io.Writer) error { return toTar(ctx, w, r, size, limits, rename) })
			})
			if err != nil && !errors.Is(err, io.ErrClosedPipe) {
				c.failed(err)
			}
			return err
		})
		return pr, nil
	}
}

// buffered calls f with a buffer before w: a pipe passes on every header and every small file
// by itself.
func buffered(w io.Writer, f func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, 64<<10)
	if err := f(b); err != nil {
		return err
	}
	return b.Flush()
}

func toTar(ctx context.Context, w io.Writer, r io.ReaderAt, size int64, limits archive.Limits,
	rename func(string) string) error {
	out := tar.NewWriter(w)
	if err := addZip(ctx, out, r, size, limits, rename); err != nil {
		return err
	}
	return out.Close()
}

// addZip adds the entries of a zip to a tar.
func addZip(ctx context.Context, out *tar.Writer, r io.ReaderAt, size int64, limits archive.Limits,
	rename func(string) string) error {
	_, err := archive.WalkZip(r, size, limits, func(e archive.Entry, body io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := e.Path
		if rename != nil {
			name = rename(name)
		}
		if name == "" || name == "." {
			return nil
		}
		h := &tar.Header{Name: name, Mode: int64(e.Mode), ModTime: e.Modified, Format: tar.FormatPAX}
		switch e.Kind {
		case archive.Dir:
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
		case archive.Symlink:
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
		default:
			h.Typeflag, h.Size = tar.TypeReg, e.Size
			if rename != nil && strings.HasPrefix(name, "bin/") {
				h.Mode |= 0o555 // for buildpacks that were zipped on a system without modes
			}
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		_, err := io.Copy(out, body)
		return err
	})
	return err
}

// buildpackRename finds the buildpack in a zip: at its root, or in the only top-level
// directory, as in archives of code hosts.
func buildpackRename(r io.ReaderAt, size int64, limits archive.Limits) (func(string) string, error) {
	atRoot, prefix, one := false, "", true
	_, err := archive.WalkZip(r, size, limits, func(e archive.Entry, _ io.Reader) error {
		first, _, _ := strings.Cut(e.Path, "/")
		switch {
		case e.Path == ".":
		case first == "bin":
			atRoot = true
		case prefix == "":
			prefix = first
		case prefix != first:
			one = false
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if atRoot || !one || prefix == "" {
		return func(name string) string { return name }, nil
	}
	return func(name string) string {
		rest, _ := strings.CutPrefix(name, prefix+"/")
		if rest == name {
			return ""
		}
		return rest
	}, nil
}

func blobZip(ctx context.Context, blobs Blobs, kind blob.Kind, key string) zipFile {
	return func() (io.ReaderAt, int64, io.Closer, error) {
		b, err := blobs.Open(ctx, kind, key)
		if err != nil {
			return nil, 0, nil, err
		}
		size := b.Size()
		return b, size, b, nil
	}
}

func diskZip(name string) zipFile {
	return func() (io.ReaderAt, int64, io.Closer, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, 0, nil, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, nil, errors.Join(err, f.Close())
		}
		return f, info.Size(), f, nil
	}
}

// planArchive returns the plan as files of the instance.
func planArchive(p lifecycle.Plan) (engine.Archive, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return engine.Archive{}, err
	}
	var b bytes.Buffer
	if err := writeTar(&b, file{lifecycle.PlanFile, 0o600, int64(len(text)), bytes.NewReader(text)}); err != nil {
		return engine.Archive{}, err
	}
	return engine.Archive{Target: lifecycle.StageDir, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}}, nil
}

type file struct {
	name string
	mode int64
	size int64
	body io.Reader
}

func writeTar(w io.Writer, files ...file) error {
	out := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: f.size}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, f.body); err != nil {
			return err
		}
	}
	return out.Close()
}

// The programs that run in a staging instance.
var programNames = []string{"ingot-builder", "ingot-static"}

// programs finds the programs in dir or, if it is empty, beside the running program
// or in PATH. The returned function has them as files of an instance.
func programs(dir string) (func() (engine.Archive, error), error) {
	paths := make([]string, len(programNames))
	for i, name := range programNames {
		found, err := findProgram(dir, name)
		if err != nil {
			return nil, err
		}
		f, err := os.Open(found)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		paths[i] = found
	}
	return func() (engine.Archive, error) { return programFiles(paths) }, nil
}

// programFiles reads the programs, because their content identifies them.
func programFiles(paths []string) (engine.Archive, error) {
	sum := sha256.New()
	for _, name := range paths {
		f, err := os.Open(name)
		if err != nil {
			return engine.Archive{}, err
		}
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return engine.Archive{}, err
		}
	}
	return engine.Archive{
		Key: "builder-" + hex.EncodeToString(sum.Sum(nil)), Target: lifecycle.BuilderDir, ReadOnly: true,
		Open: func() (io.ReadCloser, error) {
			pr, pw := io.Pipe()
			background.Feed("staging files", pw, func() error { return programsTar(pw, paths) })
			return pr, nil
		},
	}, nil
}

func findProgram(dir, name string) (string, error) {
	look := dir
	if look == "" {
		if self, err := os.Executable(); err == nil {
			look = filepath.Dir(self)
		}
	}
	path := filepath.Join(look, name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return filepath.Abs(path)
	}
	if dir == "" {
		if found, err := exec.LookPath(name); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", fmt.Errorf("the program %s is neither in %s nor in PATH; build it: CGO_ENABLED=0 go build -o %s ./cmd/%s",
		name, look, path, name)
}

func programsTar(w io.Writer, paths []string) error {
	out := tar.NewWriter(w)
	for _, p := range paths {
		if err := addProgram(out, p); err != nil {
			return err
		}
	}
	return out.Close()
}

func addProgram(out *tar.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(filepath.ToSlash(name)), Mode: 0o755,
		Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}
