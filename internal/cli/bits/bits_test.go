package bits_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/cli/bits"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func scan(t *testing.T, dir string) []bits.File {
	t.Helper()
	files, err := bits.Scan(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := bits.Sum(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	return files
}

func TestScanLeavesOutWhatIsIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".cfignore": "*.log\nbuild/\n!keep.log\n", "a.txt": "a", "x.log": "x", "keep.log": "k", "build/out": "o",
		".git/HEAD": "h", "manifest.yml": "m", "sub/b.txt": "b", "sub/.DS_Store": "d",
	})
	var names []string
	for _, f := range scan(t, dir) {
		names = append(names, f.Path)
	}
	if want := []string{"a.txt", "keep.log", "sub", "sub/b.txt"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// A stored zip is exactly as long as announced, and both formats have the same
// content.
func TestZip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"empty": "", "big": strings.Repeat("0123456789", 100_000), "bin/run": "#!/bin/sh\n"})
	if err := os.Chmod(filepath.Join(dir, "bin", "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("bin/run", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	files := scan(t, dir)
	length, err := bits.Length(files)
	if err != nil {
		t.Fatal(err)
	}
	var stored, compressed bytes.Buffer
	if err := bits.Store(&stored, files); err != nil {
		t.Fatal(err)
	}
	if err := bits.Compress(&compressed, files); err != nil {
		t.Fatal(err)
	}
	if int64(stored.Len()) != length {
		t.Errorf("%d bytes, %d were announced", stored.Len(), length)
	}
	if compressed.Len() > stored.Len()/10 {
		t.Errorf("%d bytes compressed, %d not", compressed.Len(), stored.Len())
	}
	for name, b := range map[string][]byte{"stored": stored.Bytes(), "compressed": compressed.Bytes()} {
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, e := range z.File {
			r, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r) // verifies the checksum
			if err != nil {
				t.Fatalf("%s: %s: %v", name, e.Name, err)
			}
			got[e.Name] = e.Mode().String() + " " + string(content[:min(10, len(content))])
		}
		want := map[string]string{
			"empty": "-rw-r--r-- ", "big": "-rw-r--r-- 0123456789", "bin/": "drwxr-xr-x ", "bin/run": "-rwxr-xr-x #!/bin/sh\n", "link": "Lrwxrwxrwx bin/run",
		}
		for path, content := range want {
			if got[path] != content {
				t.Errorf("%s: %s is %q, want %q", name, path, got[path], content)
			}
		}
	}
}

func TestAFileThatChangesIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"log": "one"})
	files := scan(t, dir)
	write(t, dir, map[string]string{"log": "one and more"})
	if err := bits.Store(io.Discard, files); err == nil || !strings.Contains(err.Error(), "log changes") {
		t.Errorf("error %v", err)
	}
}
