package e2e

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
)

// smallDisk mounts a separate file system for a data directory.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-e2e-disk-") // apps run as another user and must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=192m,mode=0711"); err != nil {
		if os.Getenv("INGOT_REQUIRE_CONTAINERS") != "" {
			t.Fatalf("a small disk cannot be mounted: %v", err)
		}
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk writes a file until the disk is full, and returns its name.
func fillDisk(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(bytes.Repeat([]byte{1}, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// TestFullDisk fills the disk of a server: small writes continue, large ones are
// rejected with the reason, a killed server starts again, and the operator can log in and free space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	s := startApps(t, options{Dir: filepath.Join(disk, "data"), Engine: "process", Args: []string{"--disk-reserve", "32"}})
	home := s.admin(t)
	app := t.TempDir()
	if err := os.WriteFile(filepath.Join(app, "Staticfile"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(app, "index.html"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfOK(t, home, "push", "before", "-p", app, "-k", "64M")
	cfOK(t, home, "push", "running", "-p", app, "-k", "64M", "-m", "32M", "-i", "2")
	cfOK(t, home, "create-user-provided-service", "given", "-p", `{"a":"b"}`)
	cfOK(t, home, "bind-service", "running", "given")
	cfOK(t, home, "create-space", "spare")
	packages := s.list(t, s.adminToken(t), "/v3/apps/"+guid(t, home, "before")+"/packages")

	filler := fillDisk(t, disk)
	ready := func(status int, words string) func() bool {
		return func() bool {
			r := s.call(t, http.MethodGet, "/readyz", "", nil)
			return r.Status == status && strings.Contains(r.String(), words)
		}
	}
	testkit.Eventually(t, "readiness tells of the disk", ready(http.StatusServiceUnavailable, "disk"))
	// If the server has released its reserve while the disk was being filled, the file has
	// used it up, too.
	if info, err := os.Stat(filler); err != nil {
		t.Fatal(err)
	} else if err := os.Truncate(filler, info.Size()-4<<20); err != nil {
		t.Fatal(err)
	}
	s.adminToken(t)
	cfFails(t, home, "server's disk is nearly full", "push", "during", "-p", app, "-k", "64M")
	cfOK(t, home, "apps")
	cfOK(t, home, "create-space", "other")
	cfOK(t, home, "delete-space", "other", "-f")
	cfOK(t, home, "stop", "before")

	// The database logs start from zero, so that they have not grown yet when the disk is full.
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	s.Restart(t)
	testkit.Eventually(t, "readiness tells that there is room", ready(http.StatusOK, "ok"))
	// Killed with no space at all, more than once: the freed reserve is used up, too.
	for range 3 {
		fillDisk(t, disk)
		s.Kill9(t)
		fillDisk(t, disk)
		s.launch(t)
		s.awaitEndpoints(t)
		testkit.Eventually(t, "a server answers on a full disk", func() bool {
			return s.call(t, http.MethodGet, "/v3/info", "", nil).Status == http.StatusOK
		})
	}
	s.getOut(t, disk, packages[0]["guid"].(string))

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "readiness tells that there is room", ready(http.StatusOK, "ok"))
	cfOK(t, home, "push", "after", "-p", app, "-k", "64M")
}

// getOut does what an operator does to see what is wrong and to free space. The disk is
// full before each step: what the previous step freed is used up.
func (s *site) getOut(t *testing.T, disk, packages string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	p := run(t, nil, "backup", "keygen", "--output", key)
	if code := p.wait(t); code != 0 {
		t.Fatalf("keygen: %d %s", code, p.Stderr)
	}
	_, rest, _ := strings.Cut(p.Stdout.String(), "INGOT_BACKUP_RECIPIENTS=")
	recipient, _, _ := strings.Cut(rest, "\n")
	home := ""
	cf := func(args ...string) func() { return func() { cfOK(t, home, args...) } }
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"log in", func() { home = cfAdmin(t, s.Server) }},
		{"token of a client", func() { s.adminToken(t) }},
		{"refresh a token", func() {
			_, refresh := cfTokens(t, home)
			s.refresh(t, refresh).want(t, http.StatusOK)
		}},
		{"target a space", cf("target", "-o", "demo", "-s", "dev")},
		{"list apps", cf("apps")},
		{"show an app", cf("app", "before")},
		{"read logs", cf("logs", "before", "--recent")},
		{"read events", cf("events", "before")},
		{"log in to the console", func() { s.openConsole(t) }},
		{"back up to another disk", func() {
			p := run(t, nil, "backup", filepath.Join(t.TempDir(), "elsewhere"), "--data-dir", s.Dir, "--recipient", recipient)
			if code := p.wait(t); code != 0 {
				t.Errorf("backup: %d %s", code, p.Stderr)
			}
		}},
		{"scale down", cf("scale", "running", "-i", "1")},
		{"stop an app", cf("stop", "running")},
		{"unbind a service instance", cf("unbind-service", "running", "given")},
		{"delete a service instance", cf("delete-service", "given", "-f")},
		{"delete a package", func() {
			s.call(t, http.MethodDelete, "/v3/packages/"+packages, s.adminToken(t), nil).want(t, http.StatusAccepted)
		}},
		{"delete an app", cf("delete", "before", "-f", "-r")},
		{"delete a space", cf("delete-space", "spare", "-f")},
		{"log out", cf("logout")},
	} {
		fillDisk(t, disk)
		t.Log("on a full disk: " + step.name)
		step.do()
	}
}

// openConsole logs in to the console as a browser does.
func (s *site) openConsole(t *testing.T) {
	t.Helper()
	get := s.browser(t)
	r, _ := get(http.MethodGet, s.API+"/console/", nil)
	at := r.Request.URL
	r, text := get(http.MethodPost, at.Scheme+"://"+at.Host+"/login.do", url.Values{
		"username": {"admin"}, "password": {s.secret(t, "admin-password")}, "return_to": {at.Query().Get("return_to")},
	})
	if r.StatusCode != http.StatusOK || !strings.Contains(text, "<summary>admin</summary>") {
		t.Errorf("after the login: %d at %s: %s", r.StatusCode, r.Request.URL, text)
	}
	if r, text := get(http.MethodGet, s.API+"/console/apps", nil); r.StatusCode != http.StatusOK ||
		!strings.Contains(text, "before") {
		t.Errorf("the apps: %d: %s", r.StatusCode, text)
	}
}
