package archive_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/archive"
)

func TestExtract(t *testing.T) {
	t.Parallel()
	items := []item{
		dir("./"),
		{name: "empty/", mode: 0o755}, // as the cf client writes directories
		{name: "bin/run", body: "#!/bin/sh\n", mode: 0o755},
		{name: "read-only", body: "r", mode: 0o444},
		{name: "no mode", body: "n"},
		{name: "setuid", body: "s", mode: fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | 0o4755&0o777},
		{name: "shut/", mode: fs.ModeDir | 0o500},
		file("shut/in", "x"),
		file("twice", "first"),
		symlink("link", "bin/../bin/run"),
		symlink("bin/up", "../read-only"),
		symlink("dangling", "nowhere/at/all"),
		symlink("link", "bin/../bin/run"),
		file("twice", "second"),
		file("äöü €", "names"),
		file("a//./b", "clean"),
	}
	want := map[string]string{
		"empty": "drwxr-xr-x", "bin": "drwxr-xr-x", "shut": "drwx------", "a": "drwxr-xr-x",
		"bin/run": "-rwxr-xr-x #!/bin/sh\n", "read-only": "-rw-r--r-- r", "no mode": "-rw-r--r-- n",
		"setuid": "-rwxr-xr-x s", "shut/in": "-rw-r--r-- x", "twice": "-rw-r--r-- second",
		"link": "Lrwxrwxrwx -> bin/../bin/run", "bin/up": "Lrwxrwxrwx -> ../read-only",
		"dangling": "Lrwxrwxrwx -> nowhere/at/all", "äöü €": "-rw-r--r-- names", "a/b": "-rw-r--r-- clean",
	}
	sum := archive.Summary{Files: 8, Dirs: 4, Links: 3, Size: 35}
	check := func(t *testing.T, p pen, got archive.Summary, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		p.check(t, false)
		inside := tree(t, p.out)
		if diff := cmp.Diff(want, inside); diff != "" {
			t.Errorf("extracted files (-want +got):\n%s", diff)
		}
		if got != sum {
			t.Errorf("summary %+v, want %+v", got, sum)
		}
		for _, name := range []string{"bin/run", "shut", "twice"} {
			info, err := os.Stat(filepath.Join(p.out, name))
			if err != nil || !info.ModTime().Equal(then) {
				t.Errorf("%s is %+v, %v, want it of %v", name, info, err, then)
			}
		}
	}
	t.Run("zip", func(t *testing.T) {
		t.Parallel()
		p := newPen(t)
		got, err := extractZip(buildZip(t, items...), p.out, archive.Limits{})
		check(t, p, got, err)
	})
	t.Run("tar", func(t *testing.T) {
		t.Parallel()
		p := newPen(t)
		items[1].mode |= fs.ModeDir
		got, err := extractTar(buildTar(t, items...), p.out, archive.Limits{})
		check(t, p, got, err)
	})
}

func TestExtractTarOfAllSorts(t *testing.T) {
	t.Parallel()
	plain := buildTar(t, file("a", "one"), hardlink("d/b", "./a"), symlink("l", "a"), hardlink("m", "l"),
		file("a", "two"), file("back\\slash", ""), file("x", "xx"), hardlink("x", "a"))
	for name, data := range map[string][]byte{"plain": plain, "gzip": zipped(t, plain)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPen(t)
			if _, err := extractTar(data, p.out, archive.Limits{}); err != nil {
				t.Fatal(err)
			}
			p.check(t, false)
			want := map[string]string{
				"a": "-rw-r--r-- two", "d": "drwxr-xr-x", "d/b": "-rw-r--r-- one", "x": "-rw-r--r-- two",
				"l": "Lrwxrwxrwx -> a", "m": "Lrwxrwxrwx -> a", "back\\slash": "-rw-r--r-- ",
			}
			if diff := cmp.Diff(want, tree(t, p.out)); diff != "" {
				t.Errorf("extracted files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	p := newPen(t)
	if sum, err := extractZip(buildZip(t), p.out, archive.Limits{}); err != nil || sum != (archive.Summary{}) {
		t.Errorf("zip: %v, %v", sum, err)
	}
	if sum, err := extractTar(buildTar(t), p.out, archive.Limits{}); err != nil || sum != (archive.Summary{}) {
		t.Errorf("tar: %v, %v", sum, err)
	}
	p.check(t, true)
}

func TestExtractNeedsAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := extractZip(buildZip(t, file("a", "")), dir, archive.Limits{}); err == nil ||
		fault.Is(err, fault.Unprocessable) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "-rw------- "}, tree(t, dir)); diff != "" {
		t.Errorf("files in the directory (-want +got):\n%s", diff)
	}
}

func TestErrorsOfTheSourceArePassedOn(t *testing.T) {
	t.Parallel()
	broken := fault.New(fault.TooLarge, "enough")
	data := zipped(t, buildTar(t, file("a", strings.Repeat("x", 1000))))
	for _, n := range []int{0, 1, 15, len(data) - 1} {
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken))
		if _, err := archive.ExtractTar(r, t.TempDir(), archive.Limits{}); !errors.Is(err, broken) {
			t.Errorf("tar after %d bytes: %v", n, err)
		}
	}
	z := buildZip(t, file("a", strings.Repeat("x", 1000)))
	for fail := range 5 {
		r := &failingAt{r: bytes.NewReader(z), left: fail, err: broken}
		_, err := archive.ExtractZip(r, int64(len(z)), t.TempDir(), archive.Limits{})
		if r.left < 0 && !errors.Is(err, broken) {
			t.Errorf("zip at read %d: %v", fail, err)
		}
	}
}

type failingAt struct {
	r    io.ReaderAt
	left int
	err  error
}

func (f *failingAt) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return f.r.ReadAt(p, off)
}

// TestSomebodyElseInTheDirectory exchanges a directory for a link that leads out,
// between two entries.
func TestSomebodyElseInTheDirectory(t *testing.T) {
	t.Parallel()
	p := newPen(t)
	data := buildTar(t, dir("d"), file("other/y", ""), file("d/file", "dead"), file("d/new", "dead"))
	swap := readerFunc(func([]byte) (int, error) {
		d := filepath.Join(p.out, "d")
		if err := errors.Join(os.Remove(d), os.Symlink("../canary", d)); err != nil {
			return 0, err
		}
		return 0, io.EOF
	})
	const entries = 2 * 512 // two headers without content
	r := io.MultiReader(bytes.NewReader(data[:entries]), swap, bytes.NewReader(data[entries:]))
	if _, err := archive.ExtractTar(r, p.out, archive.Limits{}); err == nil || fault.Is(err, fault.Unprocessable) {
		t.Errorf("got %v, want an error of the disk", err)
	}
	p.check(t, true)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestWalk(t *testing.T) {
	t.Parallel()
	data := buildZip(t, file("a", "hello"), dir("d/"), symlink("l", "a"), file("b", "world"))
	var got []string
	sum, err := archive.WalkZip(bytes.NewReader(data), int64(len(data)), archive.Limits{},
		func(e archive.Entry, body io.Reader) error {
			got = append(got, e.Kind.String()+" "+e.Path)
			if e.Path == "b" { // a is not read, and still counted
				content, err := io.ReadAll(body)
				if string(content) != "world" {
					t.Errorf("content %q", content)
				}
				return err
			}
			return nil
		})
	if err != nil || sum.Size != 10 {
		t.Errorf("sum is %+v, %v, want size 10", sum, err)
	}
	if diff := cmp.Diff([]string{"file a", "directory d", "symbolic link l", "file b"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	stop := errors.New("stop")
	if _, err := archive.WalkZip(bytes.NewReader(data), int64(len(data)), archive.Limits{},
		func(archive.Entry, io.Reader) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func TestKindString(t *testing.T) {
	t.Parallel()
	for k, want := range map[archive.Kind]string{
		archive.Dir: "directory", archive.File: "file", archive.Symlink: "symbolic link", archive.Hardlink: "hard link",
		9: "entry of kind 9",
	} {
		if got := k.String(); got != want {
			t.Errorf("kind %d is %q, want %q", k, got, want)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	store := map[string]string{}
	resource := func(path, content string, mode fs.FileMode) archive.Resource {
		sum := sha1.Sum([]byte(content))
		key := hex.EncodeToString(sum[:])
		store[key] = content
		return archive.Resource{Path: path, SHA1: key, Size: int64(len(content)), Mode: mode}
	}
	matched := []archive.Resource{
		resource("lib/big.jar", strings.Repeat("jar", 1000), 0o644),
		resource("bin/tool", "tool", 0o755),
		resource("both", "old", 0o600),
		resource("bin/tool", "tool", 0o700),
	}
	open := func(r archive.Resource) (io.ReadCloser, error) {
		content, ok := store[strings.ToLower(r.SHA1)]
		if !ok {
			return nil, fault.New(fault.NotFound, "no such file")
		}
		return io.NopCloser(strings.NewReader(content)), nil
	}
	bits := buildZip(t, dir("bin/"), item{name: "bin/run", body: "run run run run run run", mode: 0o755},
		symlink("link", "lib/big.jar"), file("both", "older"), file("both", "new"), file("ünï", "u"))
	want := map[string]string{
		"bin": "drwxr-xr-x", "lib": "drwxr-xr-x", "bin/run": "-rwxr-xr-x run run run run run run", "both": "-rw-r--r-- new",
		"lib/big.jar": "-rw-r--r-- " + strings.Repeat("jar", 1000), "bin/tool": "-rwxr-xr-x tool",
		"link": "Lrwxrwxrwx -> lib/big.jar", "ünï": "-rw-r--r-- u",
	}
	m := archive.Merge{Bits: bytes.NewReader(bits), Size: int64(len(bits)), Matched: matched, Open: open}

	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		p := newPen(t)
		sum, err := archive.ExtractMerged(p.out, m)
		if err != nil {
			t.Fatal(err)
		}
		p.check(t, false)
		if diff := cmp.Diff(want, tree(t, p.out)); diff != "" {
			t.Errorf("merged files (-want +got):\n%s", diff)
		}
		if sum.Files != 5 || sum.Dirs != 2 || sum.Links != 1 {
			t.Errorf("sum is %+v, want 5 files, 2 directories and 1 link", sum)
		}
	})
	t.Run("zip", func(t *testing.T) {
		t.Parallel()
		var b bytes.Buffer
		if _, err := archive.MergeZip(&b, m); err != nil {
			t.Fatal(err)
		}
		p := newPen(t)
		if _, err := extractZip(b.Bytes(), p.out, archive.Limits{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, tree(t, p.out)); diff != "" {
			t.Errorf("extracted files (-want +got):\n%s", diff)
		}
		if info, err := os.Stat(filepath.Join(p.out, "bin", "run")); err != nil || !info.ModTime().Equal(then) {
			t.Errorf("bin/run is %+v, %v, want it of %v", info, err, then)
		}
		seen := map[string]bool{}
		zr, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range zr.File {
			if seen[f.Name] {
				t.Errorf("%s is there twice", f.Name)
			}
			seen[f.Name] = true
		}
	})
	t.Run("nothing uploaded", func(t *testing.T) {
		t.Parallel()
		p := newPen(t)
		if _, err := archive.ExtractMerged(p.out, archive.Merge{Matched: matched, Open: open}); err != nil {
			t.Fatal(err)
		}
		if got := tree(t, p.out)["both"]; got != "-rw------- old" {
			t.Errorf("file is %q, want -rw------- old", got)
		}
	})
	for name, test := range map[string]struct {
		r    archive.Resource
		want string
	}{
		"parent": {archive.Resource{Path: "../canary/file"},
			`The list of matched files is not valid: entry "../canary/file" leaves the directory`},
		"absolute":       {archive.Resource{Path: "/etc/x"}, `is an absolute path`},
		"no path":        {archive.Resource{}, `has no name`},
		"through a link": {archive.Resource{Path: "link/x"}, `is placed inside the link "link"`},
		"over a dir":     {archive.Resource{Path: "bin"}, `in the place of a directory`},
		"checksum":       {archive.Resource{Path: "x", SHA1: "../../etc/passwd"}, `has no valid checksum`},
		"gone":           {archive.Resource{Path: "x", SHA1: strings.Repeat("0", 40)}, `now it is gone: push again`},
	} {
		t.Run("refused "+name, func(t *testing.T) {
			t.Parallel()
			m := m
			m.Matched = []archive.Resource{test.r}
			p := newPen(t)
			_, err := archive.ExtractMerged(p.out, m)
			if !fault.Is(err, fault.Unprocessable) || !strings.Contains(message(err), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			p.check(t, true)
			if _, err := archive.MergeZip(io.Discard, m); !fault.Is(err, fault.Unprocessable) {
				t.Errorf("as zip: %v", err)
			}
		})
	}
	t.Run("other content", func(t *testing.T) {
		t.Parallel()
		for _, content := range []string{"tooL", "too", "tools"} {
			m := archive.Merge{Matched: matched[1:2], Open: func(archive.Resource) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(content)), nil
			}}
			if _, err := archive.ExtractMerged(newPen(t).out, m); err == nil || fault.Is(err, fault.Unprocessable) {
				t.Errorf("content %s: error is %v, want one of the server", content, err)
			}
		}
	})
}

func TestTarIsDeterministic(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"b/c", "a", "ab/x", "b-", "skipped/x"} {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/outside", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "a"), fs.ModeSetuid|0o755); err != nil {
		t.Fatal(err)
	}
	o := archive.TarOptions{Modified: then.Add(time.Millisecond),
		Skip: func(name string) bool { return name == "skipped" }}
	var one, two bytes.Buffer
	if err := archive.TarGz(&one, root, o); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(root, "a"), then, then); err != nil {
		t.Fatal(err)
	}
	if err := archive.TarGz(&two, root, o); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two runs, two archives")
	}
	got := tarList(t, one.Bytes())
	want := []string{
		"./ 755 2000:2000", "./a 755 2000:2000", "./ab/ 755 2000:2000", "./ab/x 644 2000:2000",
		"./b/ 755 2000:2000", "./b/c 644 2000:2000", "./b- 644 2000:2000", "./link 777 2000:2000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tar entries (-want +got):\n%s", diff)
	}
	var out map[string]string
	p := newPen(t)
	if _, err := extractTar(one.Bytes(), p.out, archive.Limits{OutsideLinks: true}); err != nil {
		t.Fatal(err)
	}
	out = tree(t, p.out)
	in := tree(t, root)
	maps.DeleteFunc(in, func(name, _ string) bool { return strings.HasPrefix(name, "skipped") || name == "pipe" })
	in["a"] = "-rwxr-xr-x a"
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("extracted files (-want +got):\n%s", diff)
	}
}
