package staging_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
)

// makeDroplet packs names and texts in turn; names with a trailing slash are
// folders, those with a leading '@' links.
func makeDroplet(t *testing.T, pairs ...string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for pair := range slices.Chunk(pairs, 2) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: pair[0], Mode: 0o755, Size: int64(len(pair[1]))}
		if strings.HasSuffix(h.Name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if name, link := strings.CutPrefix(h.Name, "@"); link {
			h.Typeflag, h.Name, h.Linkname, h.Size, pair[1] = tar.TypeSymlink, name, pair[1], 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, pair[1]); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("not written")
	}
	return &b
}

func TestInspect(t *testing.T) {
	t.Parallel()
	const info = `{"detected_buildpack":"ruby 1","start_command":"rackup"}`
	for name, test := range map[string]struct {
		droplet []string
		web     string
		want    string // of the error
	}{
		"cloud foundry": {[]string{"./", "", "./app/", "", "./app/x", "", "@./deps/0/python", "/usr/bin/python3",
			"./staging_info.yml", info}, "rackup", ""},
		"yaml": {[]string{"app/", "", "staging_info.yml", "---\ndetected_buildpack: x\nstart_command: run it\n"},
			"run it", ""},
		"procfile":      {[]string{"app/Procfile", "web: mine\n", "staging_info.yml", info}, "mine", ""},
		"no info":       {[]string{"app/", ""}, "", ""},
		"below a link":  {[]string{"app/", "", "@app/l", "/etc", "app/l/passwd", "x", "staging_info.yml", info}, "", "link"},
		"no app":        {[]string{"staging_info.yml", info}, "", "it has no folder app"},
		"more":          {[]string{"app/", "", "staging_info.yml", info, "etc/passwd", ""}, "rackup", ""},
		"escape":        {[]string{"app/", "", "../x", ""}, "", "leaves the directory"},
		"app is a link": {[]string{"@app", "/etc"}, "", "app is not a directory"},
		"junk":          {[]string{"app/", "", "staging_info.yml", "\t:"}, "", "neither JSON nor YAML"},
		"bad types": {[]string{"app/", "", "staging_info.yml", `{"process_types":{"a b":"x"}}`}, "",
			"is not a process type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := staging.Inspect(context.Background(), makeDroplet(t, test.droplet...), archive.Limits{})
			if test.want != "" {
				if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				return
			}
			if err != nil || result.ProcessTypes["web"] != test.web {
				t.Errorf("result is %+v, %v, want the web command %q", result, err, test.web)
			}
		})
	}
}

// A droplet staged here describes itself completely.
func TestInspectOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"Staticfile": "", "index.html": "", "Procfile": "worker: work\n"})
	made := w.stage(req, log)
	droplet, err := w.blobs.Open(context.Background(), blob.Droplets, "droplet")
	if err != nil {
		t.Fatal(err)
	}
	defer droplet.Close()
	z, err := gzip.NewReader(droplet)
	if err != nil {
		t.Fatal(err)
	}
	// As in Cloud Foundry's: tools look for these names.
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(h.Name, "./") {
			t.Errorf("the droplet has an entry %q", h.Name)
		}
	}
	if _, err := droplet.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	got, err := staging.Inspect(context.Background(), droplet, archive.Limits{})
	if err != nil || len(got.ProcessTypes) != 2 || got.ProcessTypes["web"] != made.ProcessTypes["web"] ||
		!slices.Equal(got.Buildpacks, made.Buildpacks) || got.DetectedBuildpack != made.DetectedBuildpack {
		t.Errorf("%+v, %v; made %+v", got, err, made)
	}
}
