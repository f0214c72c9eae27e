package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestAppsAreIsolated has an app try to break out of its container.
func TestAppsAreIsolated(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "container"})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "captive", "-m", "512M")...)
	app := guid(t, home, "captive")
	row := s.stats(t, app)[0]
	fails := func(how, what string) { t.Helper(); s.fails(t, "captive", how, what) }
	works := func(how, what string) { t.Helper(); s.works(t, "captive", how, what) }
	_, admin, _ := strings.Cut(s.Admin, "//")
	_, api, _ := strings.Cut(s.API, "//")

	works("write", "/home/vcap/app")
	works("write", "/tmp")
	works("listen", ":9999")
	works("dial", "127.0.0.1:8080")
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/home", "/proc/sys/kernel", "/sys",
		"/sys/fs/cgroup", "/dev"} {
		fails("write", dir)
	}
	fails("read", "/etc/shadow")
	fails("read", "/proc/kcore")
	fails("read", "/proc/1/environ")
	fails("list", s.Dir)
	fails("list", filepath.Dir(s.Dir))
	fails("read", filepath.Join(s.Dir, "secrets", "admin-password"))
	fails("mount", "/tmp")
	// Neither the server nor anything else that listens on the machine can be
	// reached, by any of its addresses.
	fails("dial", admin)
	fails("dial", api)
	open, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range append(addresses, &net.IPNet{IP: net.ParseIP(row.Host)}) {
		ip := a.(*net.IPNet).IP
		if ip.To4() != nil && !ip.IsLoopback() {
			fails("dial", net.JoinHostPort(ip.String(), strconv.Itoa(open.Addr().(*net.TCPAddr).Port)))
		}
	}
	// No process of the machine is visible, so none can be signalled.
	fails("signal", strconv.Itoa(s.Cmd.Process.Pid))
	fails("signal", strconv.Itoa(os.Getpid()))
	fails("signal", "1")
	fails("fork", "5000")
	s.reaches(t, "captive", "/", http.StatusOK)
	if now := s.running(t, app, 1)[0]; now != row.Instance {
		t.Errorf("the app is another one after its attempts: %s, was %s", now, row.Instance)
	}

	// Another app cannot be reached either.
	cfOK(t, home, pushProbe(t, "neighbour")...)
	other := s.stats(t, guid(t, home, "neighbour"))[0]
	fails("dial", other.Internal+":8080")
	fails("list", filepath.Join(s.Dir, "containers", "instances", other.Instance))
}

// attempt has the probe try something, and returns the error.
func (s *site) attempt(t testing.TB, host, how, what string) string {
	t.Helper()
	r := s.get(t, host, "/try?"+url.Values{"how": {how}, "what": {what}}.Encode())
	return string(r.want(t, http.StatusOK).Body)
}

func (s *site) fails(t testing.TB, host, how, what string) {
	t.Helper()
	if s.attempt(t, host, how, what) == "" {
		t.Errorf("the app %s can %s %s", host, how, what)
	}
}

func (s *site) works(t testing.TB, host, how, what string) {
	t.Helper()
	last := ""
	defer func() {
		if last != "" {
			t.Logf("the app %s cannot %s %s: %s", host, how, what, last)
		}
	}()
	// More than once: the attempts of the app have a time limit.
	testkit.Eventually(t, fmt.Sprintf("the app %s can %s %s", host, how, what), func() bool {
		last = s.attempt(t, host, how, what)
		return last == ""
	})
}
