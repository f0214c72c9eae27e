//go:build linux

package container

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"slices"
	"testing"

	"ingot/internal/platform/engine"
)

// oneFile is an archive with a key.
func oneFile(key string) engine.Archive {
	return engine.Archive{Key: key, Open: func() (io.ReadCloser, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		_ = w.WriteHeader(&tar.Header{Name: "file", Mode: 0o600, Size: 4})
		_, _ = w.Write([]byte("text"))
		_ = w.Close()
		return io.NopCloser(&b), nil
	}}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("files are given to another user, which needs root")
	}
	l, err := openLayers(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, key := range []string{"gone", "named", "wanted", "held"} {
		found, release, err := l.get(t.Context(), contentOf(oneFile(key), 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		ids[key] = found.ID
		if key != "held" {
			release()
		}
	}
	named := func(id string) bool { return id == ids["named"] }
	if err := l.trim(named, func(key string) bool { return key == "wanted" }); err != nil {
		t.Fatal(err)
	}
	var left []string
	for key, id := range ids {
		if _, err := os.Stat(l.root + "/" + id); err == nil {
			left = append(left, key)
		}
	}
	slices.Sort(left)
	if want := []string{"held", "named", "wanted"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}
