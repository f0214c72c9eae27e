package gitpack_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/gitpack"
)

// unzipped returns the files of a snapshot, with their modes.
func unzipped(t *testing.T, o *gitpack.Objects, h gitpack.Hash) map[string]string {
	t.Helper()
	s, err := o.Snapshot(h)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := s.Zip(&out, "", func(gitpack.File) bool { return true }); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name] = f.Mode().String() + " " + string(content)
	}
	return got
}

// TestPushes reads what git sends for one commit after another, each on top of what was kept of
// the one before.
func TestPushes(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	text := strings.Repeat("a line of a file that is long enough for a difference\n", 200)
	var kept []byte
	before := ""
	want := map[string]string{}
	for i := range 12 {
		changed := fmt.Sprintf("%s%d\n%s", text, i, text)
		r.write("src/a.txt", changed)
		want["src/a.txt"] = "-rw-r--r-- " + changed
		if i == 3 {
			r.write("run.sh", "#!/bin/sh")
			if err := errors.Join(os.Chmod(filepath.Join(r.dir, "run.sh"), 0o755),
				os.Symlink("src/a.txt", filepath.Join(r.dir, "link"))); err != nil {
				t.Fatal(err)
			}
			want["run.sh"], want["link"] = "-rwxr-xr-x #!/bin/sh", "Lrwxrwxrwx src/a.txt"
		}
		head := r.commit()
		packs := [][]byte{r.pack("HEAD")}
		if kept != nil {
			packs = [][]byte{kept, r.pack("HEAD", "^"+before)}
		}
		o, err := objects(t, gitpack.Limits{}, packs...)
		if err != nil {
			t.Fatalf("push %d: %v", i, err)
		}
		if got := unzipped(t, o, head); !maps.Equal(got, want) {
			t.Fatalf("push %d has %.2000q, want %.2000q", i, got, want)
		}
		all, err := o.Closure(head)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := o.WritePack(&out, all); err != nil {
			t.Fatal(err)
		}
		kept, before = out.Bytes(), head.String()
		o.Close()
	}
	// git itself accepts what was kept, and has the whole history then.
	clone := newRepository(t)
	clone.gitWith(string(kept), "index-pack", "--stdin", "--strict")
	if n := clone.git("rev-list", "--count", before); n != "12" {
		t.Errorf("the kept pack has %s commits, want 12", n)
	}
	clone.git("fsck", "--strict", before)
	if most := 200_000; len(kept) > most {
		t.Errorf("the kept pack has %d bytes, want at most %d: differences are kept as such", len(kept), most)
	}
	// A commit without the history drops the rest.
	alone := r.git("commit-tree", "-m", "alone", "HEAD^{tree}")
	h, _ := gitpack.ParseHash(alone)
	o, err := objects(t, gitpack.Limits{}, kept, r.pack(alone, "^"+before))
	if err != nil {
		t.Fatal(err)
	}
	all, err := o.Closure(h)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := o.WritePack(&out, all); err != nil {
		t.Fatal(err)
	}
	clone = newRepository(t)
	clone.gitWith(out.String(), "index-pack", "--stdin", "--strict")
	if n := clone.git("rev-list", "--count", "--objects", alone); n != "6" {
		t.Errorf("the commit has %s objects, want 6", n)
	}
}

// TestMissing has a pack that needs another one.
func TestMissing(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	text := strings.Repeat("a line of a file that is long enough for a difference\n", 200)
	r.write("a.txt", text)
	r.commit()
	r.write("a.txt", text+"more")
	second := r.commit()
	o, err := objects(t, gitpack.Limits{}, r.pack("HEAD", "^HEAD~1"))
	if err == nil {
		_, err = o.Closure(second)
	}
	var missing *gitpack.MissingError
	if !errors.As(err, &missing) {
		t.Errorf("a pack without its base: %v, want a MissingError", err)
	}
}

// TestRefusedTrees has commits that are not deployed, with the reason.
func TestRefusedTrees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, entry, content, want string }{
		{"submodule", "160000 lib", "", "submodule"},
		{"parent", "100644 ..", "x", "invalid name"},
		{"self", "100644 .", "x", "invalid name"},
		{"empty", "100644 ", "x", "invalid name"},
		{"slash", "100644 a/b", "x", "invalid name"},
		{"git", "100644 .git", "x", "belongs to git"},
		{"GIT", "40000 .GIT", "", "belongs to git"},
		{"short", "100644 git~1", "x", "belongs to git"},
		{"dots", "100644 .git. .", "x", "belongs to git"},
		{"stream", "100644 .git::$INDEX_ALLOCATION", "x", "belongs to git"},
		{"ignored character", "100644 .g\u200cit", "x", "belongs to git"},
		{"control", "100644 a\x1b[2J", "x", "control character"},
		{"line", "100644 a\nb", "x", "control character"},
		{"backslash", `100644 a\b`, "x", "backslash"},
		{"not UTF-8", "100644 a\xff", "x", "not UTF-8"},
		{"long", "100644 " + strings.Repeat("n", 256), "x", "too long"},
		{"absolute link", "120000 link", "/etc/passwd", "outside the repository"},
		{"link outside", "120000 link", "a/../../x", "outside the repository"},
		{"long link", "120000 link", strings.Repeat("l", 5000), "target of more"},
		{"mode", "100600 file", "x", "unknown mode"},
		{"device", "60000 file", "x", "unknown mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &packer{}
			h := p.add(blobType, c.content)
			if strings.HasPrefix(c.entry, "40000") {
				h = p.tree()
			}
			commit := p.commit(p.tree(c.entry, h))
			o, err := objects(t, gitpack.Limits{}, p.pack())
			if err != nil {
				t.Fatal(err)
			}
			_, err = o.Snapshot(commit)
			if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.entry, err, c.want)
			}
		})
	}
}

// TestTreeBombs has few objects that are many files.
func TestTreeBombs(t *testing.T) {
	t.Parallel()
	check := func(p *packer, top gitpack.Hash, code fault.Code, want string) {
		t.Helper()
		commit := p.commit(top)
		o, err := objects(t, gitpack.Limits{}, p.pack())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Closure(commit); err != nil {
			t.Errorf("%s: its objects are complete: %v", want, err)
		}
		if _, err = o.Snapshot(commit); !fault.Is(err, code) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p := &packer{}
	h := p.tree("100644 f", p.add(blobType, "x"))
	for range 40 {
		h = p.tree("40000 a", h, "40000 b", h, "40000 c", h)
	}
	check(p, h, fault.TooLarge, "more than 100000 files")
	p = &packer{}
	h = p.tree("100644 f", p.add(blobType, "x"))
	for range 150 {
		h = p.tree("40000 a", h)
	}
	check(p, h, fault.Unprocessable, "more than 100 folders")
	p = &packer{}
	file := p.add(blobType, "x")
	check(p, p.tree("100644 f", file, "100644 f", file), fault.Unprocessable, "twice")
}

// varint is a size in a difference.
func varint(n int) (out []byte) {
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

func delta(from, to int, ops ...byte) []byte {
	return append(append(varint(from), varint(to)...), ops...)
}

// TestDamagedPacks has packs that git would not send.
func TestDamagedPacks(t *testing.T) {
	t.Parallel()
	onBase := func(d []byte) []byte {
		p := &packer{}
		h := p.add(blobType, "0123456789")
		p.raw(append(append(head(refType, len(d)), h[:]...), deflated(d)...))
		return p.pack()
	}
	entry := func(bytes ...byte) []byte {
		p := &packer{}
		p.raw(bytes)
		return p.pack()
	}
	good := onBase(delta(10, 3, 0x90, 3))
	if _, err := objects(t, gitpack.Limits{}, good); err != nil {
		t.Fatalf("a pack that is right: %v", err)
	}
	wrongSum := bytes.Clone(good)
	wrongSum[len(wrongSum)-1] ^= 1
	more := &packer{}
	more.add(blobType, "x")
	more.add(blobType, "y")
	short := append(head(blobType, 3), deflated([]byte("12"))...)
	long := append(head(blobType, 1), deflated([]byte("12"))...)
	broken := append(head(blobType, 2), deflated([]byte("12"))...)
	broken[len(broken)-1] ^= 1
	for name, pack := range map[string][]byte{
		"nothing": nil, "no pack": []byte("GARBAGE AND MORE OF IT, LONG ENOUGH"), "half a header": good[:8],
		"cut off": good[:len(good)-25], "checksum": wrongSum, "more objects": more.claiming(1), "fewer": more.claiming(3),
		"version": append([]byte("PACK\x00\x00\x00\x09"), good[8:]...), "type 0": entry(0x01, 0), "type 5": entry(0x51, 0),
		"short object": entry(short...), "long object": entry(long...), "checksum of an object": entry(broken...),
		"no zlib": entry(0x33, 1, 2, 3), "huge size": entry(0xb0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"base before the pack": entry(append([]byte{ofsType<<4 | 3, 0x7f}, deflated([]byte("abc"))...)...),
		"base is itself":       entry(append([]byte{ofsType<<4 | 3, 0}, deflated([]byte("abc"))...)...),
		"far base":             entry(ofsType<<4|3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"other base size":      onBase(delta(11, 3, 0x90, 3)), "copies behind the end": onBase(delta(10, 3, 0x91, 9, 3)),
		"too long copy": onBase(delta(10, 3, 0x90, 4)), "too long insert": onBase(delta(10, 1, 2, 'a', 'b')),
		"too short": onBase(delta(10, 3, 0x90, 2)), "reserved": onBase(delta(10, 0, 0)),
		"insert is cut off": onBase(delta(10, 9, 9, 'a')), "copy is cut off": onBase(delta(10, 9, 0x91)),
		"empty difference": onBase(nil), "large result": onBase(delta(10, 1<<31)),
		"endless number": onBase(bytes.Repeat([]byte{0xff}, 30)),
	} {
		_, err := objects(t, gitpack.Limits{}, pack)
		if !fault.Is(err, fault.Unprocessable) && !fault.Is(err, fault.TooLarge) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}

// TestChains has differences from differences, in any order, and in a circle.
func TestChains(t *testing.T) {
	t.Parallel()
	chain := func(n int) []byte {
		p := &packer{}
		p.add(blobType, "0123456789")
		before := 12
		for i := range n {
			d := delta(10, 10, 0x90, 9, 1, byte('a'+i%26)) // the last byte changes
			at := 12 + p.size
			back := at - before
			p.raw(append(append(head(ofsType, len(d)), distance(back)...), deflated(d)...))
			before = at
		}
		return p.pack()
	}
	if o, err := objects(t, gitpack.Limits{}, chain(4000)); err != nil || o.Len() != 27 {
		t.Errorf("4000 differences: %v, want 27 objects", err)
	}
	// A long chain of differences is written with some whole objects in between.
	p := &packer{}
	p.add(blobType, "0123456789")
	before, entries := 12, []any{}
	for i := range 120 {
		d := delta(10, 10, 0x90, 9, 1, byte(i))
		at := 12 + p.size
		p.raw(append(append(head(ofsType, len(d)), distance(at-before)...), deflated(d)...))
		before = at
		entries = append(entries, fmt.Sprintf("100644 f%03d", i), hashOf(blobType, "012345678"+string([]byte{byte(i)})))
	}
	commit := p.commit(p.tree(entries...))
	o, err := objects(t, gitpack.Limits{}, p.pack())
	if err != nil {
		t.Fatal(err)
	}
	all, err := o.Closure(commit)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := o.WritePack(&out, all); err != nil {
		t.Fatal(err)
	}
	r := newRepository(t)
	r.gitWith(out.String(), "index-pack", "--stdin", "--strict")
	if again, err := objects(t, gitpack.Limits{}, out.Bytes()); err != nil || again.Len() != 122 {
		t.Errorf("the written pack: %v, want 122 objects", err)
	}

	p = &packer{}
	first, second := gitpack.Hash{1}, gitpack.Hash{2}
	for _, h := range []gitpack.Hash{first, second} {
		d := delta(10, 10, 0x90, 10)
		p.raw(append(append(head(refType, len(d)), h[:]...), deflated(d)...))
	}
	var missing *gitpack.MissingError
	if _, err := objects(t, gitpack.Limits{}, p.pack()); !errors.As(err, &missing) {
		t.Errorf("differences from nothing: %v, want a MissingError", err)
	}
}

// distance is how far a base is before a difference.
func distance(n int) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{byte(n&0x7f) | 0x80}, out...)
	}
	return out
}

// TestLimits has packs that are larger than they may be.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := &packer{}
	p.add(blobType, strings.Repeat("\x00", 32<<20))
	_, err := objects(t, gitpack.Limits{Bytes: 8 << 20}, p.pack())
	if !fault.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "limit of 8 MB") {
		t.Errorf("a large object: %v", err)
	}
	// Many large results of one base.
	p = &packer{}
	h := p.add(blobType, strings.Repeat("\x00", 1<<20))
	for i := range 20 {
		d := delta(1<<20, 1<<20+1, append(bytes.Repeat([]byte{0x80}, 16), 1, byte(i))...)
		p.raw(append(append(head(refType, len(d)), h[:]...), deflated(d)...))
	}
	if _, err := objects(t, gitpack.Limits{}, p.pack()); err != nil {
		t.Errorf("without a low limit: %v", err)
	}
	if _, err := objects(t, gitpack.Limits{Bytes: 8 << 20}, p.pack()); !fault.Is(err, fault.TooLarge) {
		t.Errorf("many large results: %v, want them refused", err)
	}
	if _, err := objects(t, gitpack.Limits{Objects: 20}, p.pack()); !fault.Is(err, fault.TooLarge) ||
		!strings.Contains(err.Error(), "more than 20 objects") {
		t.Errorf("21 objects: %v", err)
	}
}

// TestDamagedObjects has packs that are right, of objects that are not.
func TestDamagedObjects(t *testing.T) {
	t.Parallel()
	p := &packer{}
	file := p.add(blobType, "x")
	tree := p.tree("100644 f", file)
	for name, commit := range map[string]gitpack.Hash{
		"no commit": file, "a tree": tree, "no tree": p.add(commitType, "hello\n\n"), "blob as tree": p.commit(file),
		"parent":   p.add(commitType, "tree "+tree.String()+"\nparent x\n\n"),
		"cut tree": p.commit(p.add(treeType, "100644 f\x00short")), "mode": p.commit(p.tree("x f", file)),
		"tree as file": p.commit(p.tree("100644 f", tree)),
	} {
		o, err := objects(t, gitpack.Limits{}, p.pack())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Closure(commit); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		if _, err := o.Snapshot(commit); name != "parent" && !fault.Is(err, fault.Unprocessable) {
			t.Errorf("%s: files: %v, want it refused", name, err)
		}
	}
	o, err := objects(t, gitpack.Limits{}, p.pack())
	if err != nil {
		t.Fatal(err)
	}
	var missing *gitpack.MissingError
	if _, err := o.Closure(gitpack.Hash{9}); !errors.As(err, &missing) {
		t.Errorf("an unknown commit: %v, want a MissingError", err)
	}
}

// FuzzRead looks for packs that panic, take long, or are accepted although they are damaged.
func FuzzRead(f *testing.F) {
	p := &packer{}
	h := p.add(blobType, "0123456789")
	d := delta(10, 3, 0x90, 3)
	p.raw(append(append(head(refType, len(d)), h[:]...), deflated(d)...))
	commit := p.commit(p.tree("100644 f", h, "40000 d", p.tree("100755 g", h)))
	f.Add(p.pack())
	f.Fuzz(func(t *testing.T, pack []byte) {
		o, err := gitpack.New(t.TempDir(), gitpack.Limits{Objects: 1000, Bytes: 1 << 20, Files: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		// The checksum is corrected, so that the fuzzer gets behind it.
		if len(pack) > 20 {
			body := pack[:len(pack)-20]
			pack = append(bytes.Clone(body), sumOf(body)...)
		}
		if o.Read(bytes.NewReader(pack)) != nil {
			return
		}
		all, err := o.Closure(commit)
		if err != nil {
			return
		}
		if _, err := o.Snapshot(commit); err != nil {
			return
		}
		var out bytes.Buffer
		if err := o.WritePack(&out, all); err != nil {
			t.Fatal(err)
		}
		again, err := gitpack.New(t.TempDir(), gitpack.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if err := again.Read(&out); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if got, err := again.Closure(commit); err != nil || got.Bytes != all.Bytes {
			t.Fatalf("what was written has %v, %v, want %d bytes", got, err, all.Bytes)
		}
	})
}
