package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// programs writes files with the names of Ingot's programs.
func programs(t *testing.T, when time.Time) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range append(instancePrograms, "ingot") {
		file := filepath.Join(dir, program)
		if err := os.WriteFile(file, []byte("program "+program), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fakeDebian returns arguments with which run uses a layer with one file instead
// of Debian, for each architecture.
func fakeDebian(t *testing.T, image string) []string {
	t.Helper()
	const mirror = "http://mirror.invalid/debian"
	dir := t.TempDir()
	packages := slices.Sorted(slices.Values(kinds[image].packages))
	for _, arch := range []string{"amd64", "arm64"} {
		err := store(cacheFile(dir, debianArguments(arch, packages, mirror), time.Unix(0, 0).UTC()),
			func(to io.Writer) error {
				w := tar.NewWriter(to)
				content := "12 " + arch + "\n"
				if err := w.WriteHeader(&tar.Header{Name: "etc/debian_version", Mode: 0o644,
					Size: int64(len(content))}); err != nil {
					return err
				}
				if _, err := io.WriteString(w, content); err != nil {
					return err
				}
				return w.Close()
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--image", image, "--mirror", mirror, "--cache", dir}
}

func layerDigest(t *testing.T, dir string, names []string, when time.Time) v1.Hash {
	t.Helper()
	layer, err := programLayer(dir, names, when)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// The layer of the same programs is the same, wherever and whenever it is built.
func TestLayerIsReproducible(t *testing.T) {
	t.Parallel()
	epoch := time.Unix(0, 0)
	first := layerDigest(t, programs(t, time.Now()), instancePrograms, epoch)
	if second := layerDigest(t, programs(t, time.Now().Add(-time.Hour)), instancePrograms, epoch); second != first {
		t.Errorf("two builds of the same programs have the digests %s and %s, want the same", first, second)
	}
	changed := programs(t, time.Now())
	if err := os.WriteFile(filepath.Join(changed, "ingot-init"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if other := layerDigest(t, changed, instancePrograms, epoch); other == first {
		t.Errorf("another program has the same digest %s", first)
	}
	if other := layerDigest(t, changed, instancePrograms, time.Unix(1, 0)); other == first {
		t.Errorf("another SOURCE_DATE_EPOCH has the same digest %s", first)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := programLayer(t.TempDir(), instancePrograms, time.Unix(0, 0)); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v, want one that names the missing program and make build", err)
	}
}

// An image is the same in an archive and in a registry, where it is found by its
// digest.
func TestImage(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	for image, want := range map[string]struct {
		layers     int
		entrypoint []string
	}{"stack": {2, nil}, "small": {2, nil}, "server": {3, []string{"/ingot/ingot"}}} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			reference := strings.TrimPrefix(server.URL, "http://") + "/ingot/" + image + ":1"
			file := filepath.Join(t.TempDir(), "image.tar")
			args := append(fakeDebian(t, image), "--programs", programs(t, time.Now()), "--name", reference, "--out",
				file, "--push")
			var out strings.Builder
			if err := run(t.Context(), args, &out); err != nil {
				t.Fatal(err)
			}
			ref, err := name.ParseReference(reference)
			if err != nil {
				t.Fatal(err)
			}
			img, err := remote.Image(ref)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Image(img); err != nil {
				t.Errorf("the pushed image is not valid: %v", err)
			}
			config, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if got := len(config.RootFS.DiffIDs); got != want.layers {
				t.Errorf("%d layers, want %d", got, want.layers)
			}
			if got := config.Config.Entrypoint; !slices.Equal(got, want.entrypoint) {
				t.Errorf("entrypoint %q, want %q", got, want.entrypoint)
			}
			if got := config.Config.User; got != "2000:2000" {
				t.Errorf("user %q, want 2000:2000", got)
			}
			digest, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			byDigest := ref.Context().Name() + "@" + digest.String()
			if got := out.String(); got != byDigest+"\n" {
				t.Errorf("output %q, want %q", got, byDigest)
			}
			checkArchive(t, file, digest, reference, byDigest)
		})
	}
}

// With several architectures the result is an index, from which each machine gets its
// image, with its folder's programs.
func TestIndex(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.Rename(programs(t, time.Now()), filepath.Join(dir, arch)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, arch, "ingot"), []byte("for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reference := strings.TrimPrefix(server.URL, "http://") + "/ingot/server:1"
	file := filepath.Join(t.TempDir(), "image.tar")
	args := append(fakeDebian(t, "server"), "--arch", "amd64,arm64", "--programs", dir, "--name", reference, "--out",
		file, "--push")
	var out strings.Builder
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the pushed index is not valid: %v", err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	checkArchive(t, file, digest, reference, strings.TrimSpace(out.String()))
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil || len(layers) != 3 {
			t.Fatalf("%s: %d layers, %v, want 3", arch, len(layers), err)
		}
		content, err := layers[2].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil || !bytes.Contains(text, []byte("for "+arch)) {
			t.Errorf("the image for %s does not have its ingot (%v)", arch, err)
		}
		config, err := img.ConfigFile()
		if err != nil || config.Architecture != arch {
			t.Errorf("architecture %q, %v, want %s", config.Architecture, err, arch)
		}
	}
}

// checkArchive checks that an archive contains the image under these names.
func checkArchive(t *testing.T, file string, digest v1.Hash, names ...string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if err != nil {
			t.Fatalf("no index.json: %v", err)
		}
		if header.Name != "index.json" {
			continue
		}
		var index v1.IndexManifest
		if err := json.NewDecoder(r).Decode(&index); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, manifest := range index.Manifests {
			got = append(got, manifest.Annotations["io.containerd.image.name"])
			if manifest.Digest != digest {
				t.Errorf("digest %s, want %s", manifest.Digest, digest)
			}
		}
		if !slices.Equal(got, names) {
			t.Errorf("names %q, want %q", got, names)
		}
		return
	}
}

// Two archives of the same image are equal, byte for byte.
func TestArchiveIsReproducible(t *testing.T) {
	t.Parallel()
	args := append(fakeDebian(t, "small"), "--programs", programs(t, time.Now()))
	var files [2][]byte
	for i := range files {
		file := filepath.Join(t.TempDir(), "image.tar")
		if err := run(t.Context(), append(slices.Clone(args), "--out", file), io.Discard); err != nil {
			t.Fatal(err)
		}
		var err error
		if files[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two archives of the same image differ")
	}
}

// A cached layer that was cut off is not used.
func TestBrokenCache(t *testing.T) {
	t.Parallel()
	args := fakeDebian(t, "small")
	packages := slices.Sorted(slices.Values(smallPackages))
	file := cacheFile(args[len(args)-1], debianArguments(runtime.GOARCH, packages, args[3]), time.Unix(0, 0).UTC())
	if err := os.Truncate(file, 10); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), append(args, "--programs", programs(t, time.Now()), "--out",
		filepath.Join(t.TempDir(), "x.tar")), io.Discard)
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names %s", err, file)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"--image other --out x", "stack, small, server"},
		{"--image small", "--out or --push"},
		{"--out x --name http://x", "http://x"},
		{"--out x more", "more"},
	} {
		if err := run(t.Context(), strings.Fields(tt.args), io.Discard); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("stack %s: error %v, want one with %q", tt.args, err, tt.want)
		}
	}
}

// The layer with Debian is the same when it is built again. It takes minutes, so it
// runs only when asked for.
func TestSoakDebianIsReproducible(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") != "1" {
		t.Skip("slow: set INGOT_SOAK=1")
	}
	var digests [2]v1.Hash
	for i := range digests {
		layer, err := debianLayer(context.Background(), options{mirror: "http://deb.debian.org/debian", cache: t.TempDir()},
			runtime.GOARCH, smallPackages, time.Unix(0, 0).UTC())
		if err != nil {
			t.Fatal(err)
		}
		if digests[i], err = layer.Digest(); err != nil {
			t.Fatal(err)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("digests %s and %s, want the same", digests[0], digests[1])
	}
}
