package bits_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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
	want := map[string]string{
		"empty": "-rw-r--r-- ", "big": "-rw-r--r-- 0123456789", "bin/": "drwxr-xr-x ", "bin/run": "-rwxr-xr-x #!/bin/sh\n",
		"link": "Lrwxrwxrwx bin/run",
	}
	if runtime.GOOS == "windows" { // every file can be executed, as with the cf CLI
		want = map[string]string{
			"empty": "-rwxr--r-- ", "big": "-rwxr--r-- 0123456789", "bin/": "drwxr-xr-x ", "bin/run": "-rwxr--r-- #!/bin/sh\n",
		}
	} else if err := os.Symlink("bin/run", filepath.Join(dir, "link")); err != nil {
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
	if err := bits.Store(io.Discard, files); err == nil ||
		!strings.Contains(err.Error(), "log changed during the upload") {
		t.Errorf("error %v", err)
	}
}

func rescan(t *testing.T, dir string, before []bits.File) []bits.File {
	t.Helper()
	files, err := bits.Rescan(t.Context(), dir, before)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestDiff: files count as changed by their content, mode and kind, not by their time.
func TestDiff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"same": "x", "touched": "x", "edited": "x", "mode": "x", "gone": "x", "kind": "x",
		"d/gone": "x", ".cfignore": "*.log\n", "a.log": "x"})
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{"same", "edited"} {
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	before := rescan(t, dir, nil)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Chtimes(at("touched"), long, long), os.Chmod(at("mode"), 0o755), os.Remove(at("gone")), os.RemoveAll(at("d")),
		os.Remove(at("kind")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"edited", "fast", "kind", "mode", "new", "new/file"}
	if runtime.GOOS == "windows" { // it has no such mode, and allows links to administrators only
		want = []string{"edited", "fast", "kind", "new", "new/file"}
		write(t, dir, map[string]string{"kind": "y"})
	} else if err := os.Symlink("same", at("kind")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"edited": "y", "new/file": "x", "a.log": "y"})
	// Of the same size and time, as far as the clock of a file system can tell.
	write(t, dir, map[string]string{"fast": "1"})
	middle := rescan(t, dir, before)
	write(t, dir, map[string]string{"fast": "2"})
	after := rescan(t, dir, middle)

	changed, deleted := bits.Diff(before, after)
	var names []string
	for _, f := range changed {
		names = append(names, f.Path)
	}
	if !slices.Equal(names, want) {
		t.Errorf("changed %q, want %q", names, want)
	}
	if want := []string{"d", "d/gone", "gone"}; !slices.Equal(deleted, want) {
		t.Errorf("deleted %q, want %q", deleted, want)
	}
	if changed, deleted := bits.Diff(middle, after); len(changed) != 1 || changed[0].Path != "fast" || deleted != nil {
		t.Errorf("a file that was written twice at once: %v, %v", changed, deleted)
	}
	if want := []string{dir, at("new")}; !slices.Equal(bits.Folders(dir, after), want) {
		t.Errorf("folders %q, want %q", bits.Folders(dir, after), want)
	}
}

// A file that cannot be sent as it was announced is named, whatever happened to it.
func TestFilesThatChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"grows":            func(path string) error { return os.WriteFile(path, []byte("one line\nand more\n"), 0o600) },
		"shrinks":          func(path string) error { return os.Truncate(path, 1) },
		"is another":       func(path string) error { return os.WriteFile(path, []byte("two line\n"), 0o600) },
		"vanishes":         os.Remove,
		"becomes a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		"becomes a loop":   func(path string) error { return errors.Join(os.Remove(path), os.Symlink("push.log", path)) },
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"push.log": "one line\n"})
		files := scan(t, dir)
		if err := change(filepath.Join(dir, "push.log")); err != nil {
			t.Fatal(err)
		}
		var unread *bits.ReadError
		if err := bits.Store(io.Discard, files); !errors.As(err, &unread) || unread.Path != "push.log" {
			t.Errorf("%s: error %v, want one that names the file", name, err)
		}
	}
}
