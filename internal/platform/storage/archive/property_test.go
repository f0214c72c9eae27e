package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/archive"
)

func tarList(t testing.TB, data []byte) []string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeXHeader {
			all = append(all, fmt.Sprintf("%s %o %d:%d", h.Name, h.Mode, h.Uid, h.Gid))
		}
	}
}

// TestPackedAndExtracted: any tree comes out of tar, tar.gz and zip as it went in.
func TestPackedAndExtracted(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		root := filepath.Join(base, fmt.Sprint(n), "in")
		if err := os.MkdirAll(root, 0o755); err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(filepath.Dir(root))
		growTree(rt, root, ".", 0)
		want := tree(t, root)

		var plain, packed bytes.Buffer
		if err := archive.Tar(&plain, root, archive.TarOptions{}); err != nil {
			rt.Fatal(err)
		}
		if err := archive.TarGz(&packed, root, archive.TarOptions{}); err != nil {
			rt.Fatal(err)
		}
		zipped := zipTree(rt, root)
		for name, extract := range map[string]func(dir string) (archive.Summary, error){
			"tar": func(dir string) (archive.Summary, error) { return archive.ExtractTar(&plain, dir, archive.Limits{}) },
			"tgz": func(dir string) (archive.Summary, error) { return archive.ExtractTar(&packed, dir, archive.Limits{}) },
			"zip": func(dir string) (archive.Summary, error) { return extractZip(zipped, dir, archive.Limits{}) },
		} {
			dir := filepath.Join(base, fmt.Sprint(n), name)
			sum, err := extract(dir)
			if err != nil {
				rt.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				rt.Fatalf("files of the %s (-want +got):\n%s", name, diff)
			}
			if got := sum.Files + sum.Dirs + sum.Links; got != len(want) {
				rt.Fatalf("%s: %d entries of %d", name, got, len(want))
			}
		}
	})
}

// growTree makes random things in a directory; links lead to what is there.
func growTree(rt *rapid.T, root, dir string, depth int) {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Z0-9 ._ü€-]{1,12}|[a-z]{100,120}`), 0, 4,
		rapid.ID[string]).Draw(rt, "names")
	var made []string
	for _, name := range names {
		if strings.Trim(name, ".") == "" {
			continue
		}
		at := path.Join(dir, name)
		full := filepath.Join(root, at)
		var err error
		switch kind := rapid.IntRange(0, 3).Draw(rt, "kind"); {
		case kind == 0 && depth < 4:
			if err = os.Mkdir(full, 0o700); err == nil {
				growTree(rt, root, at, depth+1)
				err = os.Chmod(full, fs.FileMode(0o700|rapid.IntRange(0, 0o77).Draw(rt, "mode")))
			}
		case kind == 1 && len(made) > 0:
			target := rapid.SampledFrom(made).Draw(rt, "target")
			if dir != "." {
				target = strings.Repeat("../", strings.Count(dir, "/")+1) + path.Join(dir, target)
			}
			err = os.Symlink(target, full)
		default:
			content := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(rt, "content")
			if err = os.WriteFile(full, content, 0o600); err == nil {
				err = os.Chmod(full, fs.FileMode(0o600|rapid.IntRange(0, 0o177).Draw(rt, "mode")))
			}
		}
		if err != nil {
			rt.Fatal(err)
		}
		made = append(made, name)
	}
}

// zipTree packs in the way of the cf client.
func zipTree(rt *rapid.T, root string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil || full == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		h.Name, _ = filepath.Rel(root, full)
		h.Method = zip.Deflate
		body, err := []byte(nil), error(nil)
		switch {
		case d.IsDir():
			h.Name += "/"
			h.SetMode(info.Mode().Perm()) // as a regular file
		case info.Mode()&fs.ModeSymlink != 0:
			var to string
			to, err = os.Readlink(full)
			body = []byte(to)
		default:
			body, err = os.ReadFile(full)
		}
		if err != nil {
			return err
		}
		f, err := w.CreateHeader(h)
		if err == nil && len(body) > 0 {
			_, err = f.Write(body)
		}
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		rt.Fatal(err)
	}
	return b.Bytes()
}

var fuzzLimits = archive.Limits{Files: 200, Size: 1 << 20, Depth: 20}

// The fuzz tests do not begin with bytes of archives: almost all changes to those
// only break them, and they are long. They begin with a script that says which
// entries to write, out of a few names that meet often, and with changes to make
// to single bytes of the result.

// script makes entries of bytes: kind and mode, parts of the name, parts of the
// target, and how long the content is.
func script(code []byte) []item {
	next := func() (b byte) {
		if len(code) > 0 {
			b, code = code[0], code[1:]
		}
		return b
	}
	parts := []string{"a", "b", "c", "..", ".", "", "d", `\`, "\x00", "a", "b", "é", "..", "c", "x y",
		strings.Repeat("n", 254)}
	name := func() string {
		var all []string
		for range next() % 6 {
			all = append(all, parts[next()%byte(len(parts))])
		}
		return strings.Join(all, "/")
	}
	var items []item
	for len(code) > 0 && len(items) < 30 {
		kind := next()
		i := item{name: name(), mode: fs.FileMode(next())}
		switch kind % 12 {
		case 0, 1, 2:
			i.mode |= fs.ModeSymlink
			i.link = name()
		case 3, 4:
			i.link = name()
		case 5, 6:
			i.mode |= fs.ModeDir
			i.name += "/"
		case 7:
			i.mode |= fs.ModeNamedPipe
		default:
			i.mode |= fs.ModeSetuid
			i.body = strings.Repeat("x", int(next()))
		}
		items = append(items, i)
	}
	return items
}

// change sets single bytes: two of where, one of what, again and again.
func change(data, changes []byte) []byte {
	for len(changes) >= 3 && len(data) > 0 {
		data[(int(changes[0])<<8|int(changes[1]))%len(data)] = changes[2]
		changes = changes[3:]
	}
	return data
}

// scripts are where the fuzzing begins.
var scripts = []string{
	"\x08\x01\x00\x44\x05\x08\x02\x00\x01\x44\x05",                     // two files
	"\x00\x01\x00\xff\x01\x03\x08\x02\x00\x01\x44\x05",                 // a -> .., a/b
	"\x05\x01\x00\xff\x00\x02\x00\x01\xff\x02\x03\x02",                 // a/, a/b -> ../c
	"\x08\x01\x00\x44\x05\x03\x01\x01\x44\x01\x00",                     // a, b = a
	"\x00\x03\x00\x01\x02\xff\x02\x03\x03\x00\x01\x02\xff\x02\x00\x01", // links through links
}

func FuzzExtractZip(f *testing.F) {
	for _, s := range scripts {
		f.Add([]byte(s), []byte{})
	}
	f.Add([]byte(scripts[0]), []byte("\x00\x29\x02"))
	f.Fuzz(func(t *testing.T, code, changes []byte) {
		data := change(buildZip(t, script(code)...), changes)
		p := newPen(t)
		sum, err := extractZip(data, p.out, fuzzLimits)
		fuzzed(t, p, sum, err)
		checked, checkErr := archive.CheckZip(bytes.NewReader(data), int64(len(data)), fuzzLimits)
		if checked != sum || fmt.Sprint(checkErr) != fmt.Sprint(err) {
			t.Errorf("checked: %+v, %v; extracted: %+v, %v", checked, checkErr, sum, err)
		}
		if err != nil {
			return
		}
		// Written anew, it is the same.
		var b bytes.Buffer
		if _, err := archive.MergeZip(&b, archive.Merge{Bits: bytes.NewReader(data), Size: int64(len(data)),
			Limits: fuzzLimits}); err != nil {
			t.Fatal(err)
		}
		again := newPen(t)
		if _, err := extractZip(b.Bytes(), again.out, fuzzLimits); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tree(t, p.out), tree(t, again.out)); diff != "" {
			t.Errorf("files after packing again (-want +got):\n%s", diff)
		}
	})
}

func FuzzExtractTar(f *testing.F) {
	for _, s := range scripts {
		f.Add([]byte(s), []byte{}, false)
	}
	f.Add([]byte(scripts[0]), []byte("\x00\x29\x02"), true)
	f.Fuzz(func(t *testing.T, code, changes []byte, gzip bool) {
		data := change(buildTar(t, script(code)...), changes)
		if gzip {
			data = zipped(t, data)
		}
		p := newPen(t)
		sum, err := extractTar(data, p.out, fuzzLimits)
		fuzzed(t, p, sum, err)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := archive.TarGz(&b, p.out, archive.TarOptions{}); err != nil {
			t.Fatal(err)
		}
		again := newPen(t)
		if _, err := extractTar(b.Bytes(), again.out, fuzzLimits); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tree(t, p.out), tree(t, again.out)); diff != "" {
			t.Errorf("files after packing again (-want +got):\n%s", diff)
		}
	})
}

// fuzzed is what holds for any input at all.
func fuzzed(t *testing.T, p pen, sum archive.Summary, err error) {
	t.Helper()
	if err != nil && !fault.Is(err, fault.Unprocessable) {
		t.Fatalf("not a refusal: %v", err)
	}
	p.check(t, err != nil)
	inside := tree(t, p.out)
	if got := sum.Files + sum.Dirs + sum.Links; got != len(inside) {
		t.Errorf("%+v, but there are %d", sum, len(inside))
	}
	for name := range inside {
		if slices.Contains(strings.Split(name, "/"), "..") {
			t.Errorf("extracted %q, want no name with ..", name)
		}
	}
}
