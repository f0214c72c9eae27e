//go:build linux

package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/db/dbtest/pgproc"
)

var (
	scaleInstances = flag.Int("instances", 1000, "how many instances the test of scale has")
	podTakes       = flag.Duration("pod-takes", time.Second, "how long a Pod on a simulated node takes until it runs")
	quiet          = flag.Duration("quiet", 30*time.Second, "how long requests of servers without work are counted")
)

// instancesPerApp is as in a large installation.
const instancesPerApp = 50

// TestScale runs many instances on three servers, without containers: nodes are simulated.
// The servers run on this machine, where they reach the addresses of the Pods.
func TestScale(t *testing.T) {
	t.Parallel()
	inCluster(t)
	if nodes := kubectl(t, "", "get", "nodes", "-o", "name"); len(nodes) > 0 {
		t.Skip("the cluster has nodes, whose Pods would have containers: make test-kubernetes runs this on another one")
	}
	s := &site{api: kubectlProxy(t), home: t.TempDir(), report: newReport(t)}
	f := simulateNodes(t, *scaleInstances)
	counter := newCounter(t)
	trio := newTrio(t, os.Getenv(configVariable))
	t.Cleanup(func() { s.deletePods(t, appsNamespace) })
	trio.start(t)
	t.Cleanup(func() { trio.stop(t) })
	s.balancer = &balancer{address: trio.servers[0].address}

	s.cf(t, "api", "http://"+trio.servers[0].address)
	s.cf(t, "auth", "admin", trio.password)
	s.cf(t, "target", "-o", "demo", "-s", "dev")
	apps := s.manyApps(t, *scaleInstances)
	wanted := *scaleInstances
	adopted := func(limit time.Duration) {
		t.Helper()
		if !eventually(limit, func() bool { streams, _ := f.count(); return streams == wanted }) {
			streams, launched := f.count()
			t.Fatalf("%d instances are followed after %v and %d were launched, want %d", streams, limit, launched, wanted)
		}
	}
	what := fmt.Sprintf("%d instances on simulated nodes, 3 servers", *scaleInstances)
	began, before := time.Now(), trio.processorTime(t)
	s.startAll(t, apps)
	adopted(15 * time.Minute)
	took, used := time.Since(began), trio.processorTime(t)-before
	s.report.add(what+", all started", "≥ 60/s", fmt.Sprintf("%s, %.0f/s; the servers used %s of a processor for each",
		seconds(took), float64(wanted)/took.Seconds(), millis(used/time.Duration(wanted))))

	began = time.Now()
	trio.stop(t)
	stopped := time.Since(began)
	trio.kubeconfig = counter.kubeconfig
	began = time.Now()
	trio.start(t)
	ready := time.Since(began)
	adopted(5 * time.Minute)
	s.report.add(what+", adopted after a restart of all servers", "< 60 s",
		fmt.Sprintf("%s after the start (ready after %s, Pods listed in %s; %s of processor time; stopped in %s)",
			seconds(time.Since(began)), seconds(ready), trio.listed(t), seconds(trio.processorTime(t)), seconds(stopped)))

	pause(t.Context(), 15*time.Second) // what follows from the restart is done
	requests, before := counter.n.Load(), trio.processorTime(t)
	pause(t.Context(), *quiet)
	s.report.add(what+", without work", "≤ 0.1 requests to the API server a second",
		fmt.Sprintf("%d in %s by 3 servers, which used %.0f %% of a processor", counter.n.Load()-requests, seconds(*quiet),
			100*float64(trio.processorTime(t)-before)/float64(*quiet)))
	s.report.add(what+", memory of a server", "≤ 1 GiB", strings.Join(trio.memory(t), ", "))
	streams, launched := f.count()
	if streams != wanted {
		t.Errorf("%d instances are followed at the end, want %d", streams, wanted)
	}
	if launched < wanted || launched > wanted+10 { // and trials
		t.Errorf("%d instances were launched, want %d: none was replaced", launched, wanted)
	}
}

// simulateVariable makes the program of the tests simulate a node: it has the arguments.
const simulateVariable = "INGOT_TEST_SIMULATE"

func TestMain(m *testing.M) {
	if args := os.Getenv(simulateVariable); args != "" {
		os.Exit(run(strings.Fields(args)))
	}
	os.Exit(m.Run())
}

// simulated are nodes without containers, each a process: one has too few file descriptors
// for all.
type simulated struct {
	mu     sync.Mutex
	counts [][2]int // streams and launched instances of each
}

// podsPerNode is how many Pods a simulated node has, with two descriptors each.
const podsPerNode = 7000

func simulateNodes(t *testing.T, instances int) *simulated {
	t.Helper()
	f := &simulated{counts: make([][2]int, max(3, instances/podsPerNode+1))}
	var names []string
	for i := range f.counts {
		names = append(names, fmt.Sprintf("sim-%d", i))
	}
	for i, name := range names {
		args := fmt.Sprintf("--takes %v simulate %s", *podTakes, name)
		if i == 0 {
			args = "--schedule " + strings.Join(names, ",") + " " + args
		}
		cmd := exec.Command(os.Args[0]) //nolint:noctx // until the end of the cleanup, when Pods are deleted
		cmd.Env = append(os.Environ(), simulateVariable+"="+args)
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var reading sync.WaitGroup
		reading.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				f.mu.Lock()
				_, _ = fmt.Sscan(lines.Text(), &f.counts[i][0], &f.counts[i][1]) // two numbers
				f.mu.Unlock()
			}
		})
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			reading.Wait()
			_ = cmd.Wait()
		})
	}
	return f
}

// count returns how many instances are followed, and how many were launched.
func (f *simulated) count() (streams, launched int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.counts {
		streams, launched = streams+c[0], launched+c[1]
	}
	return streams, launched
}

// A counter counts requests to the API server with the rights of the servers.
type counter struct {
	kubeconfig string
	n          atomic.Int64
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	read := func(path string) string {
		return string(kubectl(t, "", "--kubeconfig", os.Getenv(configVariable), "config", "view", "--raw", "--output",
			"jsonpath={"+path+"}"))
	}
	target, err := url.Parse(read(".clusters[0].cluster.server"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(read(".clusters[0].cluster.certificate-authority"))
	if err != nil {
		t.Fatal(err)
	}
	token := read(".users[0].user.token")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	c := &counter{kubeconfig: filepath.Join(t.TempDir(), "counted.kubeconfig")}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+token) // clients send none without TLS
		}, FlushInterval: -1,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.n.Add(1)
			proxy.ServeHTTP(w, r)
		})}
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() { server.Close() })
	if err := writeJSON(c.kubeconfig, object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []object{{"name": "c", "cluster": object{"server": "http://" + listener.Addr().String()}}},
		"users":    []object{{"name": "c", "user": object{}}},
		"contexts": []object{{"name": "c", "context": object{"cluster": "c", "user": "c"}}},
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// A trio is three servers on this machine.
type trio struct {
	args       []string
	kubeconfig string
	password   string
	servers    []*localServer
}

type localServer struct {
	dir, address string
	cmd          *exec.Cmd
	log          *os.File
}

func newTrio(t *testing.T, kubeconfig string) *trio {
	t.Helper()
	secrets := newSecrets(t)
	password, err := os.ReadFile(filepath.Join(secrets, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	openDatabase(t, "ingot_scale")
	database, err := url.Parse(os.Getenv(pgproc.URLVariable))
	if err != nil {
		t.Fatal(err)
	}
	database.Path = "/ingot_scale"
	addresses, err := freePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	all := &trio{password: strings.TrimSpace(string(password)), kubeconfig: kubeconfig, args: []string{
		"up", "--engine", "kubernetes", "--kubernetes-image", cmp.Or(os.Getenv(imageVariable), "stack"),
		"--kubernetes-user-namespaces", "off",
		"--kubernetes-rate", "100", "--database-url", database.String(), "--public-url",
		"http://" + addresses[0], "--demo", "--log-format", "json",
		"--domain", domain,
	}}
	blobs := t.TempDir() // they run on one machine, and need no bucket
	for i, address := range addresses {
		dir := filepath.Join(t.TempDir(), strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(dir, "secrets"), os.DirFS(secrets)); err != nil {
			t.Fatal(err)
		}
		if err := command(t.Context(), "chmod", "-R", "go=", dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(blobs, filepath.Join(dir, "blobs")); err != nil {
			t.Fatal(err)
		}
		all.servers = append(all.servers, &localServer{dir: dir, address: address})
	}
	return all
}

// start starts all servers and waits until they are ready.
func (all *trio) start(t *testing.T) {
	t.Helper()
	for i, s := range all.servers {
		logs, err := os.OpenFile(filepath.Join("..", "bin", fmt.Sprintf("scale-%d.log", i)),
			os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		s.log = logs
		args := slices.Concat(all.args, []string{
			"--data-dir", s.dir, "--listen", s.address, "--kubernetes-kubeconfig", all.kubeconfig,
			"--notifications-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--ssh-listen", "127.0.0.1:0",
		})
		s.cmd = exec.Command(os.Getenv("INGOT_BIN"), args...) //nolint:noctx // it is stopped in order
		s.cmd.Stdout, s.cmd.Stderr = logs, logs
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all.servers {
		if !eventually(2*patience, func() bool {
			return request(t.Context(), http.MethodGet, caller, "http://"+s.address+"/readyz", nil) == nil
		}) {
			t.Fatalf("the server at %s is not ready:\n%s", s.address, lastLines(s.log.Name()))
		}
	}
}

// stop stops the servers that run.
func (all *trio) stop(t *testing.T) {
	t.Helper()
	for _, s := range all.servers {
		if s.cmd != nil {
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, s := range all.servers {
		if s.cmd == nil {
			continue
		}
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("a server ended: %v\n%s", err, lastLines(s.log.Name()))
		}
		s.cmd = nil
		s.log.Close()
	}
}

// memory returns the resident memory of each server.
func (all *trio) memory(t *testing.T) []string {
	t.Helper()
	var sizes []string
	for _, s := range all.servers {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kib, err := strconv.Atoi(strings.Fields(rest)[0])
				if err != nil {
					t.Fatal(err)
				}
				sizes = append(sizes, fmt.Sprintf("%d MB", kib*1024/1_000_000))
			}
		}
	}
	return sizes
}

// processorTime returns what the running servers have used.
func (all *trio) processorTime(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, s := range all.servers {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range fields[11:13] { // user and system, in hundredths of a second
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

// listed returns how long each server took to read all Pods when it was started last.
func (all *trio) listed(t *testing.T) string {
	t.Helper()
	var times []string
	for _, s := range all.servers {
		text, err := os.ReadFile(s.log.Name())
		if err != nil {
			t.Fatal(err)
		}
		took := "?"
		for line := range strings.Lines(string(text)) {
			var entry struct {
				Took float64 `json:"pods_listed_ms"`
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Took > 0 {
				took = millis(time.Duration(entry.Took) * time.Millisecond)
			}
		}
		times = append(times, took)
	}
	return strings.Join(times, ", ")
}

// manyApps creates apps with that many instances in all, and returns their guids. Nothing is
// staged, because no Pod runs anything.
func (s *site) manyApps(t *testing.T, instances int) (apps []string) {
	t.Helper()
	token := s.token(t)
	call := func(method, path string, body, into any) {
		t.Helper()
		if err := s.call(t.Context(), token, "", method, path, body, into); err != nil {
			t.Fatal(err)
		}
	}
	var spaces struct{ Resources []struct{ GUID string } }
	call(http.MethodGet, "/v3/spaces?names=dev", nil, &spaces)
	bits := tinyDroplet(t)
	for i := 0; i*instancesPerApp < instances; i++ {
		var one, droplet struct{ GUID string }
		call(http.MethodPost, "/v3/apps", object{"name": fmt.Sprintf("many-%d", i),
			"relationships": to("space", spaces.Resources[0].GUID)}, &one)
		call(http.MethodPost, "/v3/droplets", object{"relationships": to("app", one.GUID),
			"process_types": object{"web": "./run"}}, &droplet)
		s.upload(t, token, "/v3/droplets/"+droplet.GUID+"/upload", bits)
		if !eventually(patience, func() bool {
			return s.call(t.Context(), token, "", http.MethodPatch, "/v3/apps/"+one.GUID+"/relationships/current_droplet",
				object{"data": object{"guid": droplet.GUID}}, nil) == nil
		}) {
			t.Fatal("the droplet does not become usable")
		}
		call(http.MethodPost, "/v3/apps/"+one.GUID+"/processes/web/actions/scale",
			object{"instances": min(instancesPerApp, instances-i*instancesPerApp), "memory_in_mb": 16, "disk_in_mb": 16}, nil)
		apps = append(apps, one.GUID)
	}
	return apps
}

// startAll starts apps, several at the same time.
func (s *site) startAll(t *testing.T, apps []string) {
	t.Helper()
	token := s.token(t)
	if err := together(t.Context(), func() (all []func(context.Context) error) {
		for part := range slices.Chunk(apps, len(apps)/8+1) {
			all = append(all, func(ctx context.Context) error {
				for _, app := range part {
					if err := s.call(ctx, token, "", http.MethodPost, "/v3/apps/"+app+"/actions/start", nil, nil); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return all
	}()...); err != nil {
		t.Fatal(err)
	}
}

func to(name, guid string) object { return object{name: object{"data": object{"guid": guid}}} }

// tinyDroplet returns an archive with one file.
func tinyDroplet(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	const text = "#!/bin/sh\nexec sleep infinity\n"
	err := w.WriteHeader(&tar.Header{Name: "app/run", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// upload sends a file.
func (s *site) upload(t *testing.T, token, path string, bits []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("bits", "droplet.tgz")
	if err == nil {
		_, err = part.Write(bits)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.balancer.address+path, &b)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", token)
	r.Header.Set("Content-Type", w.FormDataContentType())
	response, err := caller.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s: %s: %s", path, response.Status, body)
	}
}
