package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"ingot/internal/base/testkit"
)

// TestFilesExhausted floods a server that may open few files with connections, and then takes
// its last file descriptors away. It answers throughout, or again afterwards, what it
// acknowledged is kept, and the app and its log continue.
func TestFilesExhausted(t *testing.T) {
	t.Parallel()
	const files = 256
	s := startApps(t, options{Engine: "process", Under: []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`,
		files), "sh"}})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, home, "set-env", "steady", "NUMBERS", "20ms")
	cfOK(t, home, "start", "steady")
	app := guid(t, home, "steady")
	instance := s.running(t, app, 1)[0]
	token := s.adminToken(t)
	lines := strings.Count(s.Stderr.String(), "\n")
	orgs := map[string]bool{} // whether it was acknowledged
	create := func(name string) int {
		t.Helper()
		r, err := s.try(http.MethodPost, s.API+"/v3/organizations", token, map[string]string{"name": name})
		if err != nil {
			t.Logf("org %s: %v", name, err)
			orgs[name] = false
			return 0
		}
		orgs[name] = r.Status == http.StatusCreated
		return r.Status
	}

	// Far more connections than files: most wait, some have begun a request.
	end := flood(t, strings.TrimPrefix(s.API, "http://"), 2*files, 8)
	for i := range 10 {
		s.client.CloseIdleConnections() // each a new connection
		s.call(t, http.MethodGet, s.Admin+"/healthz", "", nil).want(t, http.StatusOK)
		if status := create(fmt.Sprint("flooded-", i)); status != http.StatusCreated {
			t.Errorf("an org in the flood: %d, want 201", status)
		}
		s.get(t, "steady", "/").want(t, http.StatusOK)
	}
	end()

	// No file descriptor at all, except those that are in use.
	used, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	s.mayFail = true // whatever opens a file now fails, and says so
	limitFiles(t, s.Cmd.Process.Pid, uint64(len(used)))
	end = flood(t, strings.TrimPrefix(s.API, "http://"), 20, 20)
	for i := range 10 {
		if status := create(fmt.Sprint("exhausted-", i)); status != 0 && status != http.StatusCreated &&
			status != http.StatusServiceUnavailable {
			t.Errorf("an org without file descriptors: %d, want 201, 503 or no connection", status)
		}
	}
	limitFiles(t, s.Cmd.Process.Pid, files)
	end()
	testkit.Eventually(t, "the server is ready again", func() bool {
		r, err := s.try(http.MethodGet, s.API+"/readyz", "", nil)
		return err == nil && r.Status == http.StatusOK
	})
	for name, acknowledged := range orgs {
		if found := s.list(t, token, "/v3/organizations?names="+name); acknowledged && len(found) != 1 {
			t.Errorf("org %s was acknowledged and does not exist", name)
		}
	}
	if now := s.running(t, app, 1)[0]; now != instance {
		t.Errorf("the app has the instance %s, had %s", now, instance)
	}
	var at location
	s.get(t, "steady", "/where").want(t, http.StatusOK).into(t, &at)
	countNumbers(t, s, app, instance, at.Number)
	cfOK(t, home, "restart", "steady")
	if n := strings.Count(s.Stderr.String(), "\n") - lines; n > 500 {
		t.Errorf("%d lines in the server's log, want at most 500", n)
	}
}

// flood opens n connections. Every one in some sends a part of a request. It returns when all
// are open or refused; end closes them.
func flood(t *testing.T, address string, n, some int) (end func()) {
	t.Helper()
	var mu sync.Mutex
	var open []net.Conn
	var all sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			c, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			if i%some == 0 {
				fmt.Fprint(c, "GET / HT")
			}
			mu.Lock()
			defer mu.Unlock()
			open = append(open, c)
		})
	}
	all.Wait()
	return func() {
		for _, c := range open {
			c.Close()
		}
	}
}

// limitFiles changes how many files another process may open.
func limitFiles(t *testing.T, pid int, files uint64) {
	t.Helper()
	now := syscall.Rlimit{}
	get := func(change *syscall.Rlimit) error {
		_, _, err := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
			uintptr(unsafe.Pointer(change)), uintptr(unsafe.Pointer(&now)), 0, 0)
		if err != 0 {
			return err
		}
		return nil
	}
	if err := get(nil); err != nil {
		t.Fatal(err)
	}
	if err := get(&syscall.Rlimit{Cur: files, Max: now.Max}); err != nil {
		t.Fatal(err)
	}
}
