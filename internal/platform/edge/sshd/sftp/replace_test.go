package sftp

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func tarOf(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		content := []byte("new " + h.Name)
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	regular := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o400} }
	want := func(when, a, b string) {
		t.Helper()
		for name, content := range map[string]string{"a": a, "b": b} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != content {
				t.Errorf("%s: %s has %q, %v, want %q", when, name, got, err, content)
			}
		}
		if all, _ := os.ReadDir(dir); len(all) != 2 {
			t.Errorf("%s: there are %d files, want 2", when, len(all))
		}
	}
	for when, bad := range map[string][]tar.Header{
		"another directory": {regular("a"), regular("../c")},
		"a link":            {regular("a"), {Name: "b", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
		"absolute":          {regular("a"), regular("/tmp/x")},
	} {
		if err := Replace(dir, tarOf(t, bad...)); err == nil {
			t.Errorf("%s: accepted", when)
		}
		want(when, "old", "old")
	}
	whole := tarOf(t, regular("a"), regular("b")).Bytes()
	for _, n := range []int{0, 100, 700, 1024, 1800, 2048, 2560} {
		if err := Replace(dir, bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("a stream of %d bytes of %d: accepted", n, len(whole))
		}
		want("truncated", "old", "old")
	}
	if err := Replace(dir, bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	want("replaced", "new a", "new b")
	replaceBelow(t)
	if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the mode is %v, %v, want 0400", info.Mode(), err)
	}
}

// replaceBelow replaces a file of a read-only subdirectory, which stays read-only.
func replaceBelow(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	sub := filepath.Join(dir, "db")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "password"), []byte("old"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sub, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(sub, 0o755) })
	stream := tarOf(t, tar.Header{Name: "db/", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "db/password",
		Typeflag: tar.TypeReg, Mode: 0o444})
	if err := Replace(dir, stream); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(sub, "password")); err != nil || string(got) != "new db/password" {
		t.Errorf("the file has %q, %v", got, err)
	}
	if info, err := os.Stat(sub); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	if all, _ := os.ReadDir(sub); len(all) != 1 {
		t.Errorf("the directory has %d files, want 1", len(all))
	}
	if err := Replace(dir, tarOf(t, tar.Header{Name: "gone/password", Typeflag: tar.TypeReg, Mode: 0o444})); err == nil {
		t.Error("a file of a directory that does not exist was replaced")
	}
}
