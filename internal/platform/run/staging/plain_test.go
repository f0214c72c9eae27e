package staging_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/run/staging/buildpacks"
	"ingot/internal/platform/storage/blob"
)

// The binary buildpack builds without an instance what its own scripts build in one.
func TestPlainDroplet(t *testing.T) {
	t.Parallel()
	for name, app := range map[string]map[string]string{
		"command":  {"app": "#!/bin/sh\n", "data/text": "text", "@link": "data/text"},
		"Procfile": {"app": "#!/bin/sh\n", "Procfile": "web: ./app\nworker: ./app work\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, plainFiles, said := stageBinary(t, app, true)
			run, runFiles, ran := stageBinary(t, app, false)
			if strings.Contains(said, "staging instance") || !strings.Contains(ran, "staging instance") {
				t.Errorf("an instance was used, or not:\n%s\n%s", said, ran)
			}
			if diff := cmp.Diff(runFiles, plainFiles); diff != "" {
				t.Errorf("the droplets differ: %s", diff)
			}
			for _, r := range []*staging.Result{&plain, &run} {
				r.Checksum, r.Size = "", 0
				for i := range r.Buildpacks {
					r.Buildpacks[i].Name = ""
				}
			}
			if diff := cmp.Diff(run, plain); diff != "" {
				t.Errorf("the results differ: %s", diff)
			}
			for line := range strings.Lines(ran) {
				own := strings.Contains(line, "staging instance") || strings.HasPrefix(line, "Uploaded")
				if !own && !strings.Contains(said, line) {
					t.Errorf("the log lacks %q:\n%s", line, said)
				}
			}
		})
	}
}

// stageBinary stages with the bundled binary buildpack, or with its content as another one.
func stageBinary(t *testing.T, app map[string]string, bundled bool) (staging.Result, map[string]string, string) {
	t.Helper()
	name := buildpacks.Binary
	w, list := withCatalog(t, nil, nil)
	if *list = append(*list, platform.Buildpack{Name: name, Enabled: true, State: platform.BuildpackReady,
		Bundled: true}); !bundled {
		name = "other"
		*list = catalog{w.installBuildpack(name, bundledFiles(t, buildpacks.Binary))}
	}
	req, log := w.request(app, name)
	result := w.stage(req, log)
	files := map[string]string{}
	droplet, err := w.blobs.Open(context.Background(), blob.Droplets, req.DropletGUID)
	if err != nil {
		t.Fatal(err)
	}
	defer droplet.Close()
	z, err := gzip.NewReader(droplet)
	if err != nil {
		t.Fatal(err)
	}
	readTar(t, z, func(h *tar.Header, text string) {
		if h.Name == "./staging_info.yml" { // it names the buildpack
			text = ""
		}
		if strings.HasPrefix(h.Name, "./app/") && h.Name != "./app/" && h.Typeflag == tar.TypeDir {
			return // made for its files anyway
		}
		files[h.Name] = fmt.Sprintf("%c %o %s %q", h.Typeflag, h.Mode, h.Linkname, text)
	})
	return result, files, log.String() + "\n"
}

func bundledFiles(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, b := range buildpacks.Bundled() {
		if b.Name != name {
			continue
		}
		r, err := b.Open()
		if err != nil {
			t.Fatal(err)
		}
		readTar(t, r, func(h *tar.Header, text string) { files[h.Name] = text })
	}
	return files
}

func readTar(t *testing.T, r io.Reader, each func(h *tar.Header, text string)) {
	t.Helper()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		text, readErr := io.ReadAll(in)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		each(h, string(text))
	}
}

// brokenEngine starts nothing.
type brokenEngine struct{ engine.Engine }

func (brokenEngine) Start(context.Context, engine.Spec) error { return errors.New("no instance") }

// What the builder has to look at is left to it: a Procfile that is none, or not a file; and a segment
// to the engine.
func TestPlainIsLeftToTheBuilder(t *testing.T) {
	t.Parallel()
	app := map[string]string{"app": "#!/bin/sh\n"}
	for name, odd := range map[string]map[string]string{
		"broken":    {"Procfile": "- no\n- map\n"},
		"link":      {"@Procfile": "app"},
		"directory": {"Procfile/web": "x"},
		"large":     {"Procfile": "web: " + strings.Repeat("x", 2<<20)},
		"segment":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *staging.Config) { c.Engine = brokenEngine{c.Engine} })
			files := maps.Clone(app)
			maps.Copy(files, odd)
			req, log := w.request(files, buildpacks.Binary)
			if name == "segment" {
				req.Segment = "gpu"
			}
			if _, err := w.Stage(t.Context(), req); err == nil || !strings.Contains(log.String(), "staging instance") {
				t.Errorf("error is %v, want that of an instance\n%s", err, log)
			}
			w.nothingLeft()
			if req, log = w.request(app, buildpacks.Binary); w.stage(req, log).Checksum == "" {
				t.Error("no droplet")
			}
		})
	}
}
