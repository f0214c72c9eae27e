package uploads_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // clients name files by it
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/api/uploads"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/deltas"
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
	resource := builds.Resource{Path: "bin/large", Mode: "755", SHA1: hex.EncodeToString(sum[:]), Size: int64(len(large))}
	other := builds.Resource{Path: "other", Mode: "644", SHA1: strings.Repeat("0", 40), Size: resource.Size}

	if got, err := b.Match(ctx, "pool", []builds.Resource{other, resource}); err != nil || len(got) != 0 {
		t.Errorf("before the first upload the pool has %v, %v", got, err)
	}
	first := zipOf(t, map[string]string{"large": large})
	if _, err := b.PutPackage(ctx, "first", "pool", first, first.Size(), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Match(ctx, "pool", []builds.Resource{other, resource}); err != nil || len(got) != 1 ||
		got[0] != resource {
		t.Errorf("the pool has %v, %v, want %v", got, err, resource)
	}
	if got, err := b.Match(ctx, "another pool", []builds.Resource{resource}); err != nil || len(got) != 0 {
		t.Errorf("another pool has %v, %v, want nothing", got, err)
	}

	// The second upload leaves out what the pool has.
	second := zipOf(t, map[string]string{"small": "x"})
	checksum, err := b.PutPackage(ctx, "second", "pool", second, second.Size(), []builds.Resource{resource})
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
	_, results["mode"] = b.PutPackage(ctx, "guid", "pool", bits, bits.Size(), []builds.Resource{{Path: "x", Mode: "rwx"}})
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
	got := map[string]string{"droplet": string(stored(t, b, blob.Droplets, "droplet")),
		"copy": string(stored(t, b, blob.Droplets, "copy"))}
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

// dropletOf returns a droplet with files of an app.
func dropletOf(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: "./app/" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return &out
}

// TestPatch: a change makes another package and droplet, and leaves those before alone.
func TestPatch(t *testing.T) {
	t.Parallel()
	b, ctx := open(t), t.Context()
	b.Deltas = &deltas.Droplets{}
	files := map[string]string{"a.js": "1", "b.js": "1"}
	first := zipOf(t, files)
	if _, err := b.PutPackage(ctx, "package", "pool", first, first.Size(), nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.PutDroplet(ctx, "droplet", dropletOf(t, files)); err != nil {
		t.Fatal(err)
	}
	before := string(stored(t, b, blob.Droplets, "droplet"))

	bits := zipOf(t, map[string]string{"a.js": "2"})
	change := builds.Patch{Files: bits, Size: bits.Size()}
	sum, changed, err := b.PatchPackage(ctx, "package", "package-2", change)
	if err != nil || sum == "" || !slices.Equal(changed.Changed, []string{"a.js"}) {
		t.Errorf("package %q, %v, %v", sum, changed, err)
	}
	if !b.Deltas.Package("package-2") || b.Deltas.Package("package") {
		t.Error("it is not known which package is a change")
	}
	if sum, size, err := b.PatchDroplet(ctx, "droplet", "droplet-2", change); err != nil || sum == "" || size == 0 {
		t.Errorf("droplet %q of %d bytes, %v", sum, size, err)
	}
	if base, overlay, ok := b.Deltas.Find("droplet-2"); !ok || base.GUID != "droplet" || base.Checksum == "" ||
		overlay == nil {
		t.Errorf("the droplet is made of %v, %v, %v", base, overlay, ok)
	}
	// A change to a change has the first one below it.
	if _, _, err := b.PatchDroplet(ctx, "droplet-2", "droplet-3", change); err != nil {
		t.Error(err)
	}
	if base, _, ok := b.Deltas.Find("droplet-3"); !ok || base.GUID != "droplet" {
		t.Errorf("the second change is based on %v, %v", base, ok)
	}
	// A deleted file cannot be hidden by files over it.
	if _, _, err := b.PatchDroplet(ctx, "droplet-3", "droplet-4", builds.Patch{Deleted: []string{"b.js"}}); err != nil {
		t.Error(err)
	}
	if _, _, ok := b.Deltas.Find("droplet-4"); ok {
		t.Error("a droplet with fewer files has an overlay")
	}
	if after := string(stored(t, b, blob.Droplets, "droplet")); after != before {
		t.Error("the droplet before the change is another")
	}

	dependencies := zipOf(t, map[string]string{"go.mod": "module x"})
	if _, _, err := b.PatchPackage(ctx, "package", "package-3", builds.Patch{Files: dependencies,
		Size: dependencies.Size()}); err != nil || b.Deltas.Package("package-3") {
		t.Errorf("a change to dependencies: %v", err)
	}
	broken := strings.NewReader("not a zip")
	if _, _, err := b.PatchPackage(ctx, "package", "package-4",
		builds.Patch{Files: broken, Size: broken.Size()}); !fault.Is(err, fault.Unprocessable) {
		t.Errorf("a broken zip: %v", err)
	}
	for _, kind := range []blob.Kind{blob.Packages, blob.Droplets} {
		if _, err := b.Store.Open(ctx, kind, "package-4"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s after a refused change: %v", kind, err)
		}
	}
}
