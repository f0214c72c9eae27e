//go:build linux

package main

import (
	"archive/tar"
	"bytes"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/db/dbtest/pgproc"
)

var (
	scaleInstances = flag.Int("instances", 1000, "how many instances the test of scale has")
	quiet          = flag.Duration("quiet", 30*time.Second, "how long requests of servers without work are counted")
)

// instancesPerApp and podsPerNode are as in a large installation.
const (
	instancesPerApp = 50
	podsPerNode     = 110
)

// TestScale runs many instances on three servers, without containers: kwok has the
// nodes, and a farm the agents. The servers run on this machine, where they reach the
// addresses of the Pods.
func TestScale(t *testing.T) {
	t.Parallel()
	inCluster(t)
	s := &site{api: kubectlProxy(t), home: t.TempDir(), report: newReport(t)}
	for _, node := range strings.Fields(string(kubectl(t, "", "get", "nodes", "-o", "name"))) {
		kubectl(t, "", "cordon", node)
		t.Cleanup(func() { kubectl(t, "", "uncordon", node) })
	}
	fakeNodes(t, *scaleInstances/podsPerNode+2)
	f := startFarm(t, s.api)
	counter := newCounter(t)
	trio := newTrio(t, counter.kubeconfig)
	t.Cleanup(func() { s.deletePods(t, appsNamespace) })
	trio.start(t)
	t.Cleanup(func() { trio.stop(t) })
	s.balancer = &balancer{address: trio.servers[0].address}

	s.cf(t, "api", "http://"+trio.servers[0].address)
	s.cf(t, "auth", "admin", trio.password)
	s.cf(t, "target", "-o", "demo", "-s", "dev")
	began := time.Now()
	s.manyApps(t, *scaleInstances)
	wanted := int64(*scaleInstances)
	adopted := func(limit time.Duration) {
		t.Helper()
		if !eventually(limit, func() bool { return f.streams.Load() == wanted }) {
			t.Fatalf("%d instances are followed after %v, want %d", f.streams.Load(), limit, wanted)
		}
	}
	adopted(10 * time.Minute)
	what := fmt.Sprintf("%d instances (kwok and farm) on 3 servers", *scaleInstances)
	s.report.add(what+", all started", "", fmt.Sprintf("%s, %.0f/s", seconds(time.Since(began)),
		float64(wanted)/time.Since(began).Seconds()))

	began = time.Now()
	trio.stop(t)
	stopped := time.Since(began)
	began = time.Now()
	trio.start(t)
	ready := time.Since(began)
	adopted(5 * time.Minute)
	s.report.add(what+", adopted after a restart of all servers", "≤ 30 s",
		fmt.Sprintf("%s after the start (ready after %s; stopped in %s)", seconds(time.Since(began)), seconds(ready),
			seconds(stopped)))

	pause(t.Context(), 15*time.Second) // what follows from the restart is done
	before := counter.n.Load()
	pause(t.Context(), *quiet)
	requests := counter.n.Load() - before
	s.report.add(what+", requests to the API server when quiet", "≤ 0.1/s", fmt.Sprintf("%d in %s by 3 servers", requests,
		seconds(*quiet)))
	s.report.add(what+", memory of a server", "≤ 350 MB", strings.Join(trio.memory(t), ", "))
	if n := f.streams.Load(); n != wanted {
		t.Errorf("%d instances are followed at the end, want %d", n, wanted)
	}
	if n := f.launched.Load(); n < wanted || n > wanted+10 { // and trials
		t.Errorf("%d instances were launched, want %d: none was replaced", n, wanted)
	}
}

// fakeNodes adds nodes whose Pods have no containers.
func fakeNodes(t *testing.T, n int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "kwok", "--kubeconfig", os.Getenv("KUBECONFIG"), "--cidr", "127.64.0.1/10",
		"--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds", "40",
		"--server-address", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("kwok: %s", messages.Bytes()[max(0, messages.Len()-2000):])
		}
	})
	var list bytes.Buffer
	for i := range n {
		capacity := object{"cpu": "64", "memory": "512Gi", "ephemeral-storage": "4Ti", "pods": strconv.Itoa(podsPerNode)}
		text, err := json.Marshal(object{
			"apiVersion": "v1", "kind": "Node",
			"metadata": object{"name": fmt.Sprintf("fake-%d", i), "annotations": object{"kwok.x-k8s.io/node": "fake"},
				"labels": object{"ingot.dev/fake": "true", "kubernetes.io/hostname": fmt.Sprintf("fake-%d", i)}},
			"status": object{"capacity": capacity, "allocatable": capacity},
		})
		if err != nil {
			t.Fatal(err)
		}
		list.Write(append(text, '\n'))
	}
	t.Cleanup(func() { kubectl(t, "", "delete", "nodes", "--selector", "ingot.dev/fake=true", "--wait=false") })
	kubectl(t, list.String(), "create", "-f", "-")
	kubectl(t, "", "wait", "nodes", "--selector", "ingot.dev/fake=true", "--for=condition=Ready", "--timeout=100s")
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
	args     []string
	password string
	servers  []*localServer
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
	bucket, err := url.Parse(os.Getenv(s3Variable))
	if err != nil {
		t.Fatal(err)
	}
	bucket.Path = "/scale"
	addresses, err := freePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	all := &trio{password: strings.TrimSpace(string(password)), args: []string{
		"up", "--engine", "kubernetes", "--kubernetes-kubeconfig", kubeconfig, "--kubernetes-image", os.Getenv(imageVariable),
		"--kubernetes-user-namespaces", "off",
		"--kubernetes-rate", "100", "--database-url", database.String(), "--blob-url", bucket.String(), "--public-url",
		"http://" + addresses[0], "--demo", "--log-format", "json",
		"--domain", domain,
	}}
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
			"--data-dir", s.dir, "--listen", s.address,
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

// manyApps starts apps with that many instances in all. Nothing is staged, because no Pod
// runs anything.
func (s *site) manyApps(t *testing.T, instances int) {
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
		call(http.MethodPost, "/v3/apps/"+one.GUID+"/actions/start", nil, nil)
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
