package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestIgnoreFiles has the real cf upload a folder with different .cfignore files: what it leaves out is
// what our client has to (decision 50), whose test in internal/cli/bits has the same cases.
func TestIgnoreFiles(t *testing.T) {
	t.Parallel()
	var given struct {
		Files []string
		Cases []struct{ Lines, CF []string }
	}
	b, err := os.ReadFile("../internal/cli/bits/testdata/cfignore.json")
	if err == nil {
		err = json.Unmarshal(b, &given)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := startApps(t, options{Engine: "process"})
	token, home, dir := s.adminToken(t), s.admin(t), t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range given.Files {
		write(name, name)
	}
	cfOK(t, home, "create-app", "ignore")
	for _, c := range given.Cases {
		write(".cfignore", strings.Join(c.Lines, "\n")+"\n")
		cfOK(t, home, "create-package", "ignore", "-p", dir)
		want := slices.DeleteFunc(slices.Clone(given.Files), func(name string) bool {
			return slices.Contains(c.CF, name) || name == "manifest.yml" || name == ".gitignore"
		})
		if got := s.uploaded(t, token, "ignore"); !slices.Equal(got, want) {
			t.Errorf("with %q it uploads %q, want %q", c.Lines, got, want)
		}
	}
}

// uploaded returns the files of an app's newest package.
func (s *site) uploaded(t testing.TB, token, app string) (names []string) {
	t.Helper()
	apps := s.list(t, token, "/v3/apps?names="+app)
	packages := s.list(t, token, "/v3/apps/"+apps[0]["guid"].(string)+"/packages?order_by=-created_at&per_page=1")
	r := s.call(t, http.MethodGet, "/v3/packages/"+packages[0]["guid"].(string)+"/download", token, nil)
	link := r.want(t, http.StatusFound).Header.Get("Location")
	body := s.call(t, http.MethodGet, link, "", nil).want(t, http.StatusOK).Body
	archive, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.File {
		if !f.FileInfo().IsDir() {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}
