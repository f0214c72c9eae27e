//go:build linux

package homedir_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingot/internal/platform/instance/homedir"
)

// collected returns the entries that Collect writes, with their content or target.
func collected(t *testing.T, home, name string) (out []string) {
	t.Helper()
	var b bytes.Buffer
	if err := homedir.Collect(t.Context(), home, "/home/vcap", name, &b); err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(&b); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h.Name+" "+string(content)+h.Linkname)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for name, text := range map[string]string{"out/b/d/x": "1", "out/b/y": "2", "out/a": "3", "other": "4"} {
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"out/l": "/etc", "out/up": ".."} {
		if err := os.Symlink(to, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]string{
		"{{home}}/out":         {"a 3", "b/ ", "b/d/ ", "b/d/x 1", "b/y 2", "l /etc", "up .."},
		"/home/vcap/out/b/d/x": {"x 1"},
		"out/b":                {"d/ ", "d/x 1", "y 2"},
		"out/l":                {"l /etc"},
	} {
		if d := cmp.Diff(want, collected(t, home, name)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	for name, is := range map[string]error{"nothing": os.ErrNotExist, "../x": homedir.ErrOutside,
		"/etc": homedir.ErrOutside} {
		if err := homedir.Collect(t.Context(), home, "/home/vcap", name, io.Discard); !errors.Is(err, is) {
			t.Errorf("%s: %v, want %v", name, err, is)
		}
	}
	if err := os.MkdirAll(filepath.Join(home, strings.Repeat("d/", 300)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := homedir.Collect(t.Context(), home, "/home/vcap", ".", io.Discard); err == nil ||
		!strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("deep directories: %v", err)
	}
}
