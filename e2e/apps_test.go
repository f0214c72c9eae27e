package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/container/containertest"
)

// Helpers of the tests of apps: servers that run apps on each engine, and
// functions to inspect apps from outside.

// heavy limits the number of concurrent servers with apps.
var heavy = make(chan struct{}, 4)

// site is a server that runs apps.
type site struct{ *Server }

// onEngines runs a test on each engine, each with its own server.
func onEngines(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	for _, o := range engines() {
		t.Run(o.Engine, func(t *testing.T) {
			t.Parallel()
			test(t, startApps(t, o))
		})
	}
}

// engines returns options of a server on each engine: those of this machine, or the
// cluster that `make test-kubernetes` starts.
func engines() []options {
	if kubeconfig := os.Getenv("INGOT_TEST_KUBECONFIG"); kubeconfig != "" {
		return []options{{Engine: "kubernetes", Args: []string{
			"--kubernetes-kubeconfig", kubeconfig, "--kubernetes-image", os.Getenv("INGOT_TEST_STACK_IMAGE"),
			"--kubernetes-user-namespaces", "off", // Debian's containerd has none
		}}}
	}
	return []options{{Engine: "container"}, {Engine: "process"}}
}

// part is a part of a test.
type part struct {
	name string
	test func(t *testing.T)
}

// together runs parts of a test concurrently, up to four at once. They do not
// call t.Parallel: tests that wait for a site may use all of its slots.
func together(t *testing.T, parts ...part) {
	t.Helper()
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, p := range parts {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(p.name, p.test)
		})
	}
	all.Wait()
}

// startApps starts a server that runs apps. It skips the test if containers are
// requested and the machine cannot run them.
func startApps(t *testing.T, o options) *site {
	t.Helper()
	heavy <- struct{}{}
	t.Cleanup(func() { <-heavy })
	if all := engines(); o.Engine == "" && len(all) == 1 { // the cluster's
		o.Engine, o.Args = all[0].Engine, append(all[0].Args, o.Args...)
	}
	if o.Dir == "" {
		o.Dir = appsDir(t)
	}
	if !o.Bare {
		o.Args = append(o.Args, "--demo")
	}
	s := &site{prepare(t, o)}
	s.launch(t)
	if o.Engine == "container" {
		testkit.Eventually(t, "the server is ready, or ends", func() bool {
			return s.ended() || strings.Contains(s.Stderr.String(), `"msg":"ready"`)
		})
		if log := s.Stderr.String(); s.ended() && strings.Contains(log, "--engine container: ") {
			s.mayFail = true
			containertest.Missing(t, log[strings.LastIndex(strings.TrimSpace(log), "\n")+1:])
		}
	}
	s.awaitReady(t)
	t.Cleanup(func() { s.clear(t) })
	return s
}

// appsDir returns the path of a new data directory. Unlike those of t.TempDir,
// other users can enter it: apps run as such users if the server is root.
func appsDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-e2e-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the server leaves something behind: %v", err)
		}
	})
	return filepath.Join(dir, "data")
}

// clear deletes all apps, stops the server, and checks that nothing is left.
func (s *site) clear(t *testing.T) {
	t.Helper()
	if s.ended() { // the test failed in between; its apps still run
		s.Restart(t)
	}
	token := s.adminToken(t)
	var apps []string
	for _, app := range s.list(t, token, "/v3/apps?per_page=5000") {
		apps = append(apps, app["guid"].(string))
		s.call(t, http.MethodDelete, "/v3/apps/"+app["guid"].(string), token, nil).want(t, http.StatusAccepted)
	}
	if s.options.Engine == "kubernetes" && len(apps) > 0 {
		s.podsGone(t, apps)
	}
	s.poll(t, "remove the instances of deleted apps", func() bool {
		for _, engine := range []string{"containers/instances", "processes"} {
			if left, _ := os.ReadDir(filepath.Join(s.Dir, engine)); len(left) > 0 {
				return false
			}
		}
		return true
	})
	var network struct{ Subnet netip.Prefix }
	if text, err := os.ReadFile(filepath.Join(s.Dir, "containers", "network.json")); err == nil {
		_ = json.Unmarshal(text, &network) // on an error it has no known network
	}
	s.Stop(t)
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), s.Dir+"/") {
		t.Errorf("mounts below %s are left", s.Dir)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if own, err := netip.ParsePrefix(a.String()); err == nil && network.Subnet.IsValid() &&
			network.Subnet.Contains(own.Addr()) {
			t.Errorf("the bridge with address %s is left", own)
		}
	}
}

// podsGone waits until the cluster has no Pods of these apps.
func (s *site) podsGone(t *testing.T, apps []string) {
	t.Helper()
	selector := "ingot.dev/app in (" + strings.Join(apps, ",") + ")"
	s.poll(t, "remove the Pods of deleted apps", func() bool {
		out, err := exec.Command("kubectl", "get", "pods", "--namespace", //nolint:noctx // after the end of the test, too
			"ingot-apps", "--selector", selector, "--output", "name").CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl: %v\n%s", err, out)
		}
		return len(out) == 0 || strings.HasPrefix(string(out), "No resources")
	})
}

// admin returns a folder for the client of the administrator, whose target is
// the space of the demo.
func (s *site) admin(t testing.TB) string {
	t.Helper()
	home := cfAdmin(t, s.Server)
	cfOK(t, home, "target", "-o", "demo", "-s", "dev")
	return home
}

// probe returns a folder with the program of testdata/probe, to be pushed. All
// tests share it, and none writes to it.
func probe(t testing.TB) string {
	t.Helper()
	dir, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var buildProbe = sync.OnceValues(func() (string, error) {
	base, err := buildDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "app")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "probe"),
		"./testdata/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return dir, nil
})

// pushProbe returns the arguments for cf to push the probe with little memory.
func pushProbe(t testing.TB, name string, more ...string) []string {
	t.Helper()
	return append([]string{
		"push", name, "-p", probe(t), "-b", "binary_buildpack", "-c", "./probe", "-m", "64M", "-k", "64M",
	}, more...)
}

// get sends a request to an app through its route.
func (s *site) get(t testing.TB, host, path string) *reply {
	t.Helper()
	return s.call(t, http.MethodGet, s.API+path, "", nil, header{"Host", host + ".apps.localhost"})
}

// reaches waits until a route responds with the status.
func (s *site) reaches(t testing.TB, host, path string, status int) *reply {
	t.Helper()
	var last *reply
	defer func() {
		if t.Failed() {
			t.Logf("the last answer of %s%s: %s", host, path, last)
		}
	}()
	testkit.Eventually(t, fmt.Sprintf("%s%s answers %d", host, path, status), func() bool {
		r, err := s.try(http.MethodGet, s.API+path, "", nil, header{"Host", host + ".apps.localhost"})
		if err != nil {
			t.Fatal(err)
		}
		last = r
		return last.Status == status
	})
	return last
}

// breaks sends a request that makes the app exit before it responds.
func (s *site) breaks(t testing.TB, host, path string) {
	t.Helper()
	r, err := s.try(http.MethodGet, s.API+path, "", nil, header{"Host", host + ".apps.localhost"})
	if err == nil && r.Status != http.StatusBadGateway {
		t.Errorf("%s of an app that ends: %s, want 502", path, r)
	}
}

// list returns the resources of a list of the v3 API.
func (s *site) list(t testing.TB, token, path string) []map[string]any {
	t.Helper()
	var page struct{ Resources []map[string]any }
	s.call(t, http.MethodGet, path, token, nil).want(t, http.StatusOK).into(t, &page)
	return page.Resources
}

// stat is a row of the stats of a process.
type stat struct {
	Index    int
	State    string
	Instance string `json:"instance_guid"`
	Details  string
	Host     string
	Internal string `json:"instance_internal_ip"`
	Memory   int64  `json:"mem_quota"`
	Ports    []struct{ External, Internal int }
	Routable bool
}

// stats returns the stats of an app's web process.
func (s *site) stats(t testing.TB, app string) []stat {
	t.Helper()
	var got struct {
		Resources []struct {
			stat
			Ports []struct{ External, Internal int } `json:"instance_ports"`
		}
	}
	s.call(t, http.MethodGet, "/v3/apps/"+app+"/processes/web/stats", s.adminToken(t), nil).want(t, http.StatusOK).
		into(t, &got)
	rows := make([]stat, len(got.Resources))
	for i, r := range got.Resources {
		rows[i] = r.stat
		rows[i].Ports = r.Ports
	}
	return rows
}

// running waits until exactly n instances run, and returns their guids.
func (s *site) running(t testing.TB, app string, n int) []string {
	t.Helper()
	var guids []string
	testkit.Eventually(t, fmt.Sprintf("%d instances run", n), func() bool {
		guids = nil
		rows := s.stats(t, app)
		for _, r := range rows {
			if r.State == "RUNNING" && r.Routable {
				guids = append(guids, r.Instance)
			}
		}
		return len(rows) == n && len(guids) == n
	})
	return guids
}

// guid returns the guid of an app in the client's space.
func guid(t testing.TB, home, app string) string {
	t.Helper()
	return strings.TrimSpace(cfOK(t, home, "app", app, "--guid"))
}

// line is a line of an app's log.
type line struct {
	Time                      int64
	Source, Index, Kind, Text string
}

func (l line) String() string { return fmt.Sprintf("[%s/%s] %s %s", l.Source, l.Index, l.Kind, l.Text) }

// log reads the whole log of an app in pages.
func (s *site) log(t testing.TB, app string) []line {
	t.Helper()
	var all []line
	token := s.adminToken(t)
	for from := int64(0); ; {
		// The next page begins at the time of the last lines of this one and
		// repeats them.
		again := 0
		for i := len(all) - 1; i >= 0 && all[i].Time == from; i-- {
			again++
		}
		q := url.Values{"limit": {"1000"}, "start_time": {strconv.FormatInt(from, 10)}, "envelope_types": {"LOG"}}
		var page struct {
			Envelopes struct {
				Batch []struct {
					Timestamp string            `json:"timestamp"`
					Instance  string            `json:"instance_id"`
					Tags      map[string]string `json:"tags"`
					Log       struct {
						Payload []byte `json:"payload"`
						Type    string `json:"type"`
					} `json:"log"`
				} `json:"batch"`
			} `json:"envelopes"`
		}
		s.call(t, http.MethodGet, "/api/v1/read/"+app+"?"+q.Encode(), token, nil).want(t, http.StatusOK).into(t, &page)
		batch := page.Envelopes.Batch
		if len(batch) <= again {
			return all
		}
		for _, e := range batch[again:] {
			at, err := strconv.ParseInt(e.Timestamp, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, line{at, e.Tags["source_type"], e.Instance, e.Log.Type, string(e.Log.Payload)})
		}
		from = all[len(all)-1].Time
	}
}

// logged waits for a line with a prefix and returns the rest of it.
func (s *site) logged(t testing.TB, app, source, begins string) string {
	t.Helper()
	var found string
	testkit.Eventually(t, source+" logs "+begins, func() bool {
		for _, l := range s.log(t, app) {
			if rest, ok := strings.CutPrefix(l.Text, begins); ok && l.Source == source {
				found = rest
				return true
			}
		}
		return false
	})
	return found
}

// contains fails the test unless text contains all the words.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// columns returns text with every run of spaces replaced by one.
func columns(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}
	return strings.Join(lines, "\n")
}

// write writes a file in a new folder and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
