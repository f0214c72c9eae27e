package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
)

// breakableDisk mounts a file system that breakIt makes read-only as the kernel does after an
// disk error. again mounts it once more.
func breakableDisk(t *testing.T) (dir string, breakIt func(), again func(flags ...string)) {
	t.Helper()
	base, err := os.MkdirTemp("", "ingot-e2e-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o711); err != nil { //nolint:gosec // apps run as another user
		t.Fatal(err)
	}
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "disk")
	command := func(name string, args ...string) (string, error) {
		out, err := exec.Command(name, args...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	missing := func(what string, err error) {
		t.Helper()
		if os.Getenv("INGOT_REQUIRE_CONTAINERS") != "" {
			t.Fatalf("a disk that fails cannot be made: %s: %v", what, err)
		}
		t.Skipf("a disk that fails cannot be made: %s: %v", what, err)
	}
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(160 << 20)
		f.Close()
	}
	if err == nil {
		err = os.Mkdir(dir, 0o711) //nolint:gosec // as above
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := command("mkfs.ext4", "-q", image); err != nil {
		missing(out, err)
	}
	mounted := false
	unmount := func() {
		if !mounted {
			return
		}
		mounted = false
		testkit.Eventually(t, "the disk can be unmounted", func() bool {
			for _, pid := range usersOf(dir) { // one that ends may have started another
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return syscall.Unmount(dir, 0) == nil
		})
	}
	mount := func(flags ...string) error {
		out, err := command("mount", "-o", strings.Join(append([]string{"loop", "errors=remount-ro"}, flags...),
			","), image, dir)
		if err != nil {
			missing(out, err)
		}
		mounted = true
		return os.Chmod(dir, 0o711) //nolint:gosec // as above
	}
	if err := mount(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unmount)
	breakIt = func() {
		device, err := command("findmnt", "-no", "SOURCE", dir)
		if err == nil {
			err = os.WriteFile("/sys/fs/ext4/"+filepath.Base(device)+"/trigger_fs_error", []byte("1"), 0)
		}
		if err != nil {
			missing("make the disk fail", err)
		}
	}
	return dir, breakIt, func(flags ...string) {
		unmount()
		_ = mount() // which completes what was being written
		if len(flags) > 0 {
			unmount()
			_ = mount(flags...) // a read-only one keeps its permissions
		}
	}
}

// usersOf returns the processes that have their working directory or files below a directory.
func usersOf(dir string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	seen := map[int]bool{os.Getpid(): true}
	for _, link := range append(links, files...) {
		to, err := os.Readlink(link)
		pid, bad := strconv.Atoi(strings.Split(link, "/")[2])
		if err == nil && bad == nil && !seen[pid] && strings.HasPrefix(to, dir+"/") {
			seen[pid] = true
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestReadOnlyDisk has a disk that becomes read-only under a running server: what needs no
// write works, what does is refused with the reason, and when the disk works again
// everything that was acknowledged still exists.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	disk, breakIt, again := breakableDisk(t)
	s := startApps(t, options{Dir: filepath.Join(disk, "data"), Engine: "process", Args: []string{"--disk-reserve", "16"}})
	s.mayFail = true
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady")...)
	app := guid(t, home, "steady")
	token := s.adminToken(t)
	s.call(t, http.MethodPost, "/v3/organizations", token, map[string]string{"name": "before"}).want(t, http.StatusCreated)
	lines := strings.Count(s.Stderr.String(), "\n")

	breakIt()
	testkit.Eventually(t, "readiness tells of the disk", func() bool {
		r := s.call(t, http.MethodGet, "/readyz", "", nil)
		return r.Status == http.StatusServiceUnavailable && strings.Contains(r.String(), "disk")
	})
	s.call(t, http.MethodGet, "/healthz", "", nil).want(t, http.StatusOK)
	for _, path := range []string{"/v3/apps", "/v3/organizations", "/Users"} {
		s.call(t, http.MethodGet, path, token, nil).want(t, http.StatusOK)
	}
	for range 50 {
		s.get(t, "steady", "/").want(t, http.StatusOK)
	}
	if n := strings.Count(s.Stderr.String(), "access log lines failed"); n > 5 {
		t.Errorf("%d complaints about lines of requests, want few", n)
	}
	space := s.list(t, token, "/v3/spaces?names=dev")[0]["guid"].(string)
	for name, r := range map[string]*reply{
		"org":  s.call(t, http.MethodPost, "/v3/organizations", token, map[string]string{"name": "during"}),
		"user": s.call(t, http.MethodPost, "/Users", token, userBody("during", "pw")),
		"app": s.call(t, http.MethodPost, "/v3/apps", token, map[string]any{"name": "during",
			"relationships": map[string]any{"space": map[string]any{"data": map[string]string{"guid": space}}}}),
	} {
		if r.Status != http.StatusServiceUnavailable || !strings.Contains(string(r.Body), "disk") ||
			r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, Retry-After %q; want 503 that tells of the disk, with Retry-After", name, r,
				r.Header.Get("Retry-After"))
		}
	}
	if n := strings.Count(s.Stderr.String(), "\n") - lines; n > 500 {
		t.Errorf("%d lines in the server's log, want at most 500", n)
	}

	// A server does not start on it, and says why.
	s.Kill9(t)
	again("ro")
	refused(t, s.Server, "read-only file system")
	again()
	s.Restart(t)
	s.mayFail = true
	token = s.adminToken(t)
	for name, want := range map[string]int{"before": 1, "during": 0} {
		if found := s.list(t, token, "/v3/organizations?names="+name); len(found) != want {
			t.Errorf("%d orgs called %s, want %d", len(found), name, want)
		}
	}
	s.running(t, app, 1) // its processes were killed to unmount the disk
	s.reaches(t, "steady", "/", http.StatusOK)
}
