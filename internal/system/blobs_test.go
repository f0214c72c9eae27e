//go:build unix

package system

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/logging"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/blob/s3/s3test"
)

// TestBlobsInABucket pushes an app to a server whose blobs are in a bucket. When
// the bucket is away, the app runs and restarts, and an upload says what is wrong.
func TestBlobsInABucket(t *testing.T) {
	t.Parallel()
	bucket := s3test.New(t)
	log := &lockedLog{}
	c := testConfig(t)
	c.DataDir = passableDir(t)
	c.BlobURL, c.BlobRedirect, c.Log = bucket.BlobURL(), true, logging.New(log, false, slog.LevelInfo)
	f := &faultySite{T: t, System: startSystem(t, c)}
	f.api, f.token = f.Endpoints().API, adminToken(t, f.System)
	org := f.create("/v3/organizations", map[string]any{"name": "org"})
	f.space = f.create("/v3/spaces", map[string]any{"name": "space", "relationships": to("organization", org)})
	app, pkg := f.app("app")
	if !f.build(app, pkg) {
		t.Fatal("the build failed")
	}
	f.act(app, "start")
	defer func() {
		f.end(app)
	}()
	testkit.Eventually(t, "the app runs", func() bool { return f.running(app) != "" })
	if _, err := os.Stat(filepath.Join(c.DataDir, "blobs")); err == nil {
		t.Error("there is a directory for blobs")
	}

	// Downloads come from the bucket.
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.api+"/v3/packages/"+pkg+"/download", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+f.token)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusFound || !strings.HasPrefix(res.Header.Get("Location"), bucket.URL) {
		t.Fatalf("the download answers %d with %s, want 302 to the bucket", res.StatusCode, res.Header.Get("Location"))
	}
	res, err = bucket.Client().Get(res.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.HasPrefix(string(content), "PK") {
		t.Errorf("downloaded %d bytes, %v, want a zip", len(content), err)
	}

	bucket.Fail(s3test.Away)
	before := f.running(app)
	f.act(app, "restart")
	testkit.Eventually(t, "the app runs again", func() bool { now := f.running(app); return now != "" && now != before })
	a := f.uploadApp(f.create("/v3/packages", map[string]any{"type": "bits", "relationships": to("app", app)}))
	if want := "The blob store of the platform does not work at the moment (storing the package). Nothing was changed; " +
		"try again later."; a.status != http.StatusServiceUnavailable ||
		!strings.Contains(a.body, want) || a.header.Get("Retry-After") == "" {
		t.Errorf("the upload answers %d %s, want 503 with %q", a.status, a.body, want)
	}
	bucket.Fail(nil)
	if a := f.uploadApp(f.create("/v3/packages",
		map[string]any{"type": "bits", "relationships": to("app", app)})); a.status != http.StatusOK {
		t.Errorf("the upload answers %d %s, want 200", a.status, a.body)
	}
	for _, secret := range []string{s3test.Secret, "X-Amz-Signature"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}

func TestCopyBlobs(t *testing.T) {
	t.Parallel()
	bucket := s3test.New(t)
	dir := t.TempDir()
	files, err := blob.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if _, err := files.Put(t.Context(), blob.Droplets, key, strings.NewReader(strings.Repeat(key, 100_000)),
			blob.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"droplet           3 copied (0.3 MB), 0 already there",
		"droplet           0 copied (0.0 MB), 3 already there"} {
		var lines []string
		if err := CopyBlobs(t.Context(), "file://"+dir, bucket.BlobURL(), slog.New(slog.DiscardHandler),
			func(line string) { lines = append(lines, line) }); err != nil {
			t.Fatal(err)
		}
		if len(lines) != 5 || lines[1] != want {
			t.Errorf("copied %q, want %q", lines, want)
		}
	}
	for from, want := range map[string]string{
		"file:relative": "--from: it must be file:///DIR or s3://BUCKET", "ftp://x": "--from: it must be s3://BUCKET",
		strings.Replace(bucket.BlobURL(), "blobs/", "other/", 1): "--from: blob store s3://other/pre/fix at " + bucket.URL +
			": cannot find the bucket: it does not exist",
	} {
		if err := CopyBlobs(t.Context(), from, bucket.BlobURL(), slog.New(slog.DiscardHandler),
			func(string) {}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("from %s: %v, want %q", from, err, want)
		}
	}
}
