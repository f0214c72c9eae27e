package uploads_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha1" //nolint:gosec // clients name files by it
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/api"
	"ingot/internal/platform/api/uploads"
	"ingot/internal/platform/blob"
)

func open(t *testing.T) uploads.Blobs {
	t.Helper()
	store, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := uploads.Blobs{Store: store, Scratch: t.TempDir()}
	t.Cleanup(func() {
		if left, err := os.ReadDir(b.Scratch); err != nil || len(left) != 0 {
			t.Errorf("left in the scratch directory: %v, %v", left, err)
		}
	})
	return b
}

func zipOf(t *testing.T, files map[string]string) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, content := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(out.Bytes())
}

// stored returns the content of a blob.
func stored(t *testing.T, b uploads.Blobs, kind blob.Kind, guid string) []byte {
	t.Helper()
	file, err := b.Store.Open(t.Context(), kind, guid)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestPackage(t *testing.T) {
	t.Parallel()
	b, ctx := open(t), t.Context()
	large := strings.Repeat("large enough for the pool ", 400)
	sum := sha1.Sum([]byte(large)) //nolint:gosec // as above
	resource := api.Resource{Path: "bin/large", Mode: "755", SHA1: hex.EncodeToString(sum[:]), Size: int64(len(large))}
	other := api.Resource{Path: "other", Mode: "644", SHA1: strings.Repeat("0", 40), Size: resource.Size}

	if got, err := b.Match(ctx, "pool", []api.Resource{other, resource}); err != nil || len(got) != 0 {
		t.Errorf("before the first upload the pool has %v, %v", got, err)
	}
	first := zipOf(t, map[string]string{"large": large})
	if _, err := b.PutPackage(ctx, "first", "pool", first, first.Size(), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Match(ctx, "pool", []api.Resource{other, resource}); err != nil || len(got) != 1 || got[0] != resource {
		t.Errorf("the pool has %v, %v, want %v", got, err, resource)
	}
	if got, err := b.Match(ctx, "another pool", []api.Resource{resource}); err != nil || len(got) != 0 {
		t.Errorf("another pool has %v, %v, want nothing", got, err)
	}

	// The second upload leaves out what the pool has.
	second := zipOf(t, map[string]string{"small": "x"})
	checksum, err := b.PutPackage(ctx, "second", "pool", second, second.Size(), []api.Resource{resource})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.CopyPackage(ctx, "second", "copy"); err != nil {
		t.Fatal(err)
	}
	content := stored(t, b, blob.Packages, "copy")
	if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != checksum {
		t.Errorf("checksum is %s, want %x", checksum, got)
	}
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range z.File {
		got[f.Name] = f.Mode().String()
	}
	if got["bin/large"] != "-rwxr-xr-x" || got["small"] == "" {
		t.Errorf("the package has %v, want small and bin/large, which is executable", got)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	b, ctx := open(t), t.Context()
	bits, broken := zipOf(t, map[string]string{"a": "b"}), strings.NewReader("not a zip")
	results := map[string]error{}
	_, results["mode"] = b.PutPackage(ctx, "guid", "pool", bits, bits.Size(), []api.Resource{{Path: "x", Mode: "rwx"}})
	_, results["package"] = b.PutPackage(ctx, "guid", "pool", broken, broken.Size(), nil)
	_, results["buildpack"] = b.PutBuildpack(ctx, "guid", broken, broken.Size())
	for name, err := range results {
		if !fault.Is(err, fault.Unprocessable) {
			t.Errorf("%s: %v, want an unprocessable request", name, err)
		}
	}
	for _, kind := range []blob.Kind{blob.Packages, blob.Buildpacks} {
		if _, err := b.Store.Open(ctx, kind, "guid"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s after a refused upload: %v, want it not found", kind, err)
		}
	}
	if err := b.CopyDroplet(ctx, "missing", "copy"); !fault.Is(err, fault.NotFound) {
		t.Errorf("copy of a missing droplet: %v, want it not found", err)
	}
}

func TestDropletAndBuildpack(t *testing.T) {
	t.Parallel()
	b, ctx := open(t), t.Context()
	if _, size, err := b.PutDroplet(ctx, "droplet", strings.NewReader("content")); err != nil || size != 7 {
		t.Fatalf("size is %d, %v, want 7", size, err)
	}
	if err := b.CopyDroplet(ctx, "droplet", "copy"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"droplet": string(stored(t, b, blob.Droplets, "droplet")), "copy": string(stored(t, b, blob.Droplets, "copy"))}
	if want := map[string]string{"droplet": "content", "copy": "content"}; !maps.Equal(got, want) {
		t.Errorf("droplets are %q, want %q", got, want)
	}
	bits := zipOf(t, map[string]string{"bin/detect": ""})
	if _, err := b.PutBuildpack(ctx, "buildpack", bits, bits.Size()); err != nil {
		t.Fatal(err)
	}
	stored(t, b, blob.Buildpacks, "buildpack")
	if err := b.DeleteBuildpack(ctx, "buildpack"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Store.Open(ctx, blob.Buildpacks, "buildpack"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted buildpack: %v, want it not found", err)
	}
	for _, key := range []string{"app-a", "app-b", "app-c"} {
		if _, err := b.Store.Put(ctx, blob.BuildCache, key, strings.NewReader("x"), blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		app  string
		left []string
	}{{"App-A", []string{"app-b", "app-c"}}, {"App-A", []string{"app-b", "app-c"}}, {"", nil}} {
		if err := b.ClearBuildCache(ctx, c.app); err != nil {
			t.Fatal(err)
		}
		var left []string
		for item, err := range b.Store.List(ctx, blob.BuildCache) {
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, item.Key)
		}
		if slices.Sort(left); !slices.Equal(left, c.left) {
			t.Errorf("after clearing %q: got %q, want %q", c.app, left, c.left)
		}
	}
}
