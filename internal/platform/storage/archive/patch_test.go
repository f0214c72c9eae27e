package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/archive"
)

// files are those of an app, by path.
type files map[string]item

// items returns the files with the directories above them, which a client sends too.
func (f files) items() []item {
	all := maps.Clone(f)
	for name := range f {
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			all[at] = dir(at + "/")
		}
	}
	var out []item
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out
}

// droplet is what a build makes of an app: its files, some of its own, and a folder beside.
func droplet(t testing.TB, f files) []byte {
	t.Helper()
	all := []item{dir("./app/")}
	for _, i := range f.items() {
		i.name = "./app/" + i.name
		all = append(all, i)
	}
	all = append(all, dir("./app/made/"), file("./app/made/x", "by the buildpack"), symlink("./app/made/up", "/outside"),
		dir("./deps/"), file("./deps/y", "y"))
	return gzipped(t, buildTar(t, all...))
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// listTar adds the entries of a tar to a list, as what they are.
func listTar(t testing.TB, r io.Reader, into map[string]string) map[string]string {
	t.Helper()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return into
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		into[path.Clean(h.Name)] = fmt.Sprintf("%c %o %q %q", h.Typeflag, h.Mode, h.Linkname, body)
	}
}

func listGzip(t testing.TB, data []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return listTar(t, z, map[string]string{})
}

func listZip(t testing.TB, data []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	_, err := archive.WalkZip(bytes.NewReader(data), int64(len(data)), archive.Limits{},
		func(e archive.Entry, body io.Reader) error {
			var text []byte
			if body != nil {
				text, _ = io.ReadAll(body)
			}
			out[e.Path] = fmt.Sprintf("%s %o %q %q", e.Kind, e.Mode, e.Target, text)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// drawFiles draws an app of few names, so that two of them have many in common.
func drawFiles(rt *rapid.T, label string) files {
	f := files{}
	for _, name := range []string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f/g"} {
		inside := slices.ContainsFunc(slices.Collect(maps.Keys(f)),
			func(other string) bool { return strings.HasPrefix(name, other+"/") })
		switch kind := rapid.SampledFrom([]string{"", "one", "two", "program", "link"}).Draw(rt, label+" "+name); {
		case kind == "" || inside:
		case kind == "link":
			f[name] = symlink(name, "somewhere")
		case kind == "program":
			f[name] = item{name: name, body: "one", mode: 0o755}
		default:
			f[name] = file(name, kind)
		}
	}
	return f
}

// diff is what a client sends.
func diff(t testing.TB, before, after files) archive.Patch {
	t.Helper()
	old := map[string]item{}
	for _, i := range before.items() {
		old[strings.TrimSuffix(i.name, "/")] = i
	}
	var news []item
	var p archive.Patch
	for _, i := range after.items() {
		if was, ok := old[strings.TrimSuffix(i.name, "/")]; !ok || was != i {
			news = append(news, i)
		}
		delete(old, strings.TrimSuffix(i.name, "/"))
	}
	p.Deleted = slices.Sorted(maps.Keys(old))
	if len(news) > 0 {
		bits := buildZip(t, news...)
		p.Bits, p.Size = bytes.NewReader(bits), int64(len(bits))
	}
	return p
}

// TestPatchIsAPush: a changed package and droplet are those of a push of all files, and so
// is the overlay over the files before.
func TestPatchIsAPush(t *testing.T) {
	t.Parallel()
	overlays := 0
	rapid.Check(t, func(rt *rapid.T) {
		before, after := drawFiles(rt, "before"), drawFiles(rt, "after")
		c, err := diff(t, before, after).Check()
		if err != nil {
			rt.Fatal(err)
		}
		var pkg, drop bytes.Buffer
		old := buildZip(t, before.items()...)
		if _, err := c.Zip(&pkg, bytes.NewReader(old), int64(len(old))); err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(listZip(t, buildZip(t, after.items()...)), listZip(t, pkg.Bytes())); d != "" {
			rt.Fatalf("package (-want +got):\n%s", d)
		}
		oldDroplet := droplet(t, before)
		overlay, err := c.Tar(&drop, bytes.NewReader(oldDroplet), "app")
		if err != nil {
			rt.Fatal(err)
		}
		want := listGzip(t, droplet(t, after))
		if d := cmp.Diff(want, listGzip(t, drop.Bytes())); d != "" {
			rt.Fatalf("droplet (-want +got):\n%s", d)
		}
		if overlay == nil {
			return
		}
		overlays++
		files, err := overlay.Tar()
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(want, listTar(t, bytes.NewReader(files), listGzip(t, oldDroplet))); d != "" {
			rt.Fatalf("overlay (-want +got):\n%s", d)
		}
	})
	if overlays == 0 {
		t.Error("no change was an overlay")
	}
}

// TestOverlays: an overlay over another one is what both change.
func TestOverlays(t *testing.T) {
	t.Parallel()
	states := []files{{"a": file("a", "0"), "d/b": file("d/b", "0")}, {"a": file("a", "1"), "d/b": file("d/b", "0"),
		"c": file("c", "1")}, {"a": file("a", "2"), "d/b": file("d/b", "2"), "c": file("c", "1")}}
	var all *archive.Overlay
	for i := 1; i < len(states); i++ {
		c, err := diff(t, states[i-1], states[i]).Check()
		if err != nil {
			t.Fatal(err)
		}
		one, err := c.Tar(io.Discard, bytes.NewReader(droplet(t, states[i-1])), "app")
		if err != nil || one == nil {
			t.Fatalf("overlay %v, %v", one, err)
		}
		if all != nil {
			one = one.Over(all)
		}
		all = one
	}
	text, err := all.Tar()
	if err != nil {
		t.Fatal(err)
	}
	want, got := listGzip(t, droplet(t, states[2])), listTar(t, bytes.NewReader(text), listGzip(t, droplet(t, states[0])))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestPatchChanges(t *testing.T) {
	t.Parallel()
	before := files{"same": file("same", "x"), "edited": file("edited", "x"), "gone": file("gone", "x"),
		"d/gone": file("d/gone", "x")}
	after := files{"same": file("same", "x"), "edited": file("edited", "y"), "new": file("new", "x")}
	c, err := diff(t, before, after).Check()
	if err != nil {
		t.Fatal(err)
	}
	old := buildZip(t, before.items()...)
	got, err := c.Zip(io.Discard, bytes.NewReader(old), int64(len(old)))
	want := archive.Changes{Added: []string{"new"}, Changed: []string{"edited"}, Deleted: []string{"d/gone", "gone"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestPatchRefused(t *testing.T) {
	t.Parallel()
	old := buildZip(t, dir("d/"), file("d/a", "x"), symlink("l", "d"))
	tests := map[string]struct {
		items   []item
		deleted []string
		says    string
	}{
		"outside":         {items: []item{file("../x", "x")}, says: "leaves the directory"},
		"absolute":        {items: []item{file("/x", "x")}, says: "absolute"},
		"deleted outside": {deleted: []string{"../../etc/passwd"}, says: "The list of deleted files is not valid"},
		"the root":        {deleted: []string{"."}, says: "root directory"},
		"link outside":    {items: []item{symlink("x", "../../etc")}, says: "leaves the directory"},
		"through a link":  {items: []item{file("l/x", "x")}, says: "inside the link"},
		"below a file":    {items: []item{file("d/a/x", "x")}, says: "inside the file"},
		"link to the new": {items: []item{symlink("x", "y/../.."), dir("y/")}, says: "leaves the directory"},
		"device":          {items: []item{{name: "x", mode: fs.ModeDevice | 0o644}}, says: "neither a file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := archive.Patch{Deleted: test.deleted}
			if test.items != nil {
				bits := buildZip(t, test.items...)
				p.Bits, p.Size = bytes.NewReader(bits), int64(len(bits))
			}
			c, err := p.Check()
			if err == nil {
				_, err = c.Zip(io.Discard, bytes.NewReader(old), int64(len(old)))
			}
			if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want a refusal that says %q", err, test.says)
			}
		})
	}
	large := buildZip(t, file("x", strings.Repeat("x", 2000)))
	c, err := archive.Patch{Bits: bytes.NewReader(large), Size: int64(len(large)),
		Limits: archive.Limits{Size: 2000}}.Check()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Zip(io.Discard, bytes.NewReader(old), int64(len(old))); !fault.Is(err, fault.Unprocessable) {
		t.Errorf("larger with the files before: %v", err)
	}
}

// TestNotPatchable: a droplet whose files are not those of the package needs a build.
func TestNotPatchable(t *testing.T) {
	t.Parallel()
	bits := buildZip(t, dir("made/"), file("made/x/y", "x"), file("a", "2"))
	c, err := archive.Patch{Bits: bytes.NewReader(bits), Size: int64(len(bits))}.Check()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"a file of the buildpack": droplet(t, files{}),
		"a hard link":             gzipped(t, buildTar(t, dir("app/"), file("app/a", "1"), hardlink("app/b", "app/a"))),
	} {
		if _, err := c.Tar(io.Discard, bytes.NewReader(data), "app"); !errors.Is(err, archive.ErrNotPatchable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
