package e2e

import (
	"bytes"
	"errors"
	"net/http"
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
// rejected with the reason, and a killed server starts again.
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

	// Killed with no space at all: the freed reserve is used up, too.

	fillDisk(t, disk)
	s.Kill9(t)
	s.launch(t)
	s.awaitEndpoints(t)
	testkit.Eventually(t, "a server answers on a full disk", func() bool {
		return s.call(t, http.MethodGet, "/v3/info", "", nil).Status == http.StatusOK
	})
	s.adminToken(t)
	cfOK(t, home, "apps")

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "readiness tells that there is room", ready(http.StatusOK, "ok"))
	cfOK(t, home, "push", "after", "-p", app, "-k", "64M")
}
