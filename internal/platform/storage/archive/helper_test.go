package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/archive"
)

var then = time.Date(2024, 3, 5, 12, 30, 20, 0, time.UTC)

// item is an entry to build an archive of. The name and the rest are written as
// they are.
type item struct {
	name string
	body string
	mode fs.FileMode // with its type
	link string      // the target, of a symbolic link if the mode says so, else a hard one
}

func file(name, body string) item { return item{name: name, body: body, mode: 0o644} }
func dir(name string) item        { return item{name: name, mode: fs.ModeDir | 0o755} }
func symlink(name, to string) item {
	return item{name: name, link: to, mode: fs.ModeSymlink | 0o777}
}
func hardlink(name, to string) item { return item{name: name, link: to, mode: 0o644} }

// buildZip leaves out the content of what ends in a slash.
func buildZip(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, i := range items {
		h := &zip.FileHeader{Name: i.name, Method: zip.Deflate, Modified: then}
		h.SetMode(i.mode)
		body := i.body
		if i.mode&fs.ModeSymlink != 0 {
			body = i.link
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if body != "" && !strings.HasSuffix(i.name, "/") {
			if _, err := f.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// buildTar leaves out what cannot be written in a tar at all.
func buildTar(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		if strings.ContainsRune(i.name+i.link, 0) || (!i.mode.IsDir() && strings.HasSuffix(i.name, "/")) {
			continue
		}
		h := &tar.Header{Name: i.name, Mode: int64(i.mode.Perm()), ModTime: then, Linkname: i.link}
		if i.mode&fs.ModeSetuid != 0 {
			h.Mode |= 0o6000
		}
		switch {
		case i.mode.IsDir():
			h.Typeflag = tar.TypeDir
		case i.mode&fs.ModeSymlink != 0:
			h.Typeflag = tar.TypeSymlink
		case i.mode&fs.ModeCharDevice != 0:
			h.Typeflag = tar.TypeChar
		case i.mode&fs.ModeDevice != 0:
			h.Typeflag = tar.TypeBlock
		case i.mode&fs.ModeNamedPipe != 0:
			h.Typeflag = tar.TypeFifo
		case i.link != "":
			h.Typeflag = tar.TypeLink
		default:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(i.body))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(i.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pen is a directory to extract into, beside one that must stay as it is.
type pen struct {
	base, out string
}

func newPen(t testing.TB) pen {
	t.Helper()
	base := t.TempDir()
	p := pen{base, filepath.Join(base, "out")}
	if err := os.Mkdir(filepath.Join(base, "canary"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "canary", "file"), []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// check sees that nothing happened outside, that an error left nothing behind,
// and that nothing inside leads out.
func (p pen) check(t testing.TB, failed bool) {
	t.Helper()
	var names []string
	for path := range tree(t, p.base) {
		if path != "out" && !strings.HasPrefix(path, "out/") {
			names = append(names, path)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"canary", "canary/file"}) {
		t.Errorf("outside there is %q", names)
	}
	if content, err := os.ReadFile(filepath.Join(p.base, "canary", "file")); string(content) != "alive" {
		t.Errorf("the canary is dead: %q, %v", content, err)
	}
	inside := tree(t, p.out)
	if failed && len(inside) > 0 {
		t.Errorf("left behind: %v", inside)
	}
	real, err := filepath.EvalSymlinks(p.out)
	if err != nil {
		t.Fatal(err)
	}
	for name, what := range inside {
		if mode, _, _ := strings.Cut(what, " "); strings.ContainsAny(mode[:len(mode)-9], "ugt") {
			t.Errorf("%s has special bits: %s", name, what)
		}
		to, err := filepath.EvalSymlinks(filepath.Join(p.out, name))
		if err == nil && to != real && !strings.HasPrefix(to, real+"/") {
			t.Errorf("%s leads to %s", name, to)
		}
	}
}

// tree describes all below a directory: by path, the mode and what is in it.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if name == "." {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += " " + string(content)
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " -> " + to
		}
		all[name] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func message(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return fmt.Sprint(err)
}

func extractZip(data []byte, dir string, l archive.Limits) (archive.Summary, error) {
	return archive.ExtractZip(bytes.NewReader(data), int64(len(data)), dir, l)
}

func extractTar(data []byte, dir string, l archive.Limits) (archive.Summary, error) {
	return archive.ExtractTar(bytes.NewReader(data), dir, l)
}
