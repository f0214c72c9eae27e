//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"ingot/internal/base/db/dbtest/pgproc"
)

const (
	systemNamespace = "ingot-system"
	domain          = "example.com"
)

// A site is three servers in the cluster that were installed with the chart, and a
// balancer in front of them.
type site struct {
	api      string // the API server, through kubectl
	host     string // an address of this machine that Pods reach
	balancer *balancer
	wire     *wire // to PostgreSQL
	db       *pgx.Conn
	home     string // of cf, with a target
	web      app    // with two instances, for requests
	values   string // of the chart, a file
	report   *report
}

// install installs the servers as docs/kubernetes.md says.
func install(t *testing.T) *site {
	t.Helper()
	inCluster(t)
	if os.Getenv(serverVariable) == "" {
		t.Skip(serverVariable + " is not set: make test-kubernetes sets it")
	}
	database, err := url.Parse(os.Getenv(podURLVariable))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{host: database.Hostname(), home: t.TempDir(), report: newReport(t)}
	s.api = kubectlProxy(t)
	s.balancer = newBalancer(t, s.host, s.servers)
	s.wire = newWire(t, s.host, database.Host)
	s.db = openDatabase(t, "ingot_site")
	database.Host, database.Path = s.wire.address, "/ingot_site"

	bucket, err := url.Parse(os.Getenv(s3Variable))
	if err != nil {
		t.Fatal(err)
	}
	query := bucket.Query()
	query.Set("ca-file", "/var/lib/ingot/secrets/s3-ca.crt") // copied from the Secret
	bucket.Path, bucket.RawQuery = "/site", query.Encode()

	secrets := newSecrets(t)
	copyDatabase(t, filepath.Dir(secrets), database.String())
	kubectl(t, "", "--namespace", systemNamespace, "create", "secret", "generic", "ingot-files", "--from-file="+secrets,
		"--from-file=s3-ca.crt="+os.Getenv("INGOT_TEST_S3_CA"))
	kubectl(t, "", "--namespace", systemNamespace, "create", "secret", "generic", "ingot",
		"--from-literal=INGOT_DATABASE_URL="+database.String(), "--from-literal=INGOT_ADMIN_TOKEN=a-token-of-the-tests",
		"--from-literal=INGOT_BLOB_URL="+bucket.String(),
		"--from-literal=AWS_ACCESS_KEY_ID="+os.Getenv("AWS_ACCESS_KEY_ID"), "--from-literal=AWS_SECRET_ACCESS_KEY="+
			os.Getenv("AWS_SECRET_ACCESS_KEY"))
	repository, digest, _ := strings.Cut(os.Getenv(serverVariable), "@")
	s.values = filepath.Join(t.TempDir(), "values.json")
	if err := writeJSON(s.values, object{
		"domain": domain, "publicURL": "http://" + s.balancer.address,
		"image":   object{"repository": repository, "digest": digest, "pullPolicy": "Never"},
		"stack":   object{"image": os.Getenv(imageVariable)},
		"service": object{"ssh": object{"type": "ClusterIP"}},
		// Debian's containerd has none
		"environment": object{"INGOT_KUBERNETES_USER_NAMESPACES": "off", "INGOT_DEMO": "true"},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.uninstall(t) })
	began := time.Now()
	s.helm(t)
	s.rollout(t)
	s.report.add("`helm install` until three servers are ready", "", seconds(time.Since(began)))
	s.awaitServers(t, 3)

	password, err := os.ReadFile(filepath.Join(secrets, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	s.cf(t, "api", "http://"+s.balancer.address)
	s.cf(t, "auth", "admin", strings.TrimSpace(string(password)))
	s.cf(t, "target", "-o", "demo", "-s", "dev")
	return s
}

// helm installs the chart, or upgrades it.
func (s *site) helm(t *testing.T, args ...string) {
	t.Helper()
	helm(t, append([]string{"upgrade", "--install", "ingot", chartDir, "--namespace", systemNamespace, "--values",
		s.values}, args...)...)
}

// rollout waits until all servers run the installed version.
func (s *site) rollout(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", "--namespace", systemNamespace, "rollout", "status",
		"deployment/ingot").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, kubectl(t, "", "--namespace", systemNamespace, "describe", "pods"))
	}
}

// uninstall shows the servers' logs after a failure and removes what the test made.
func (s *site) uninstall(t *testing.T) {
	t.Helper()
	if t.Failed() {
		dir := filepath.Join("..", "bin", "kubernetes-servers")
		_ = os.RemoveAll(dir)
		_ = os.MkdirAll(dir, 0o755)
		pods, _ := s.servers(context.Background())
		for _, name := range slices.Sorted(maps.Keys(pods)) {
			out, _ := exec.Command("kubectl", "--namespace", systemNamespace, "logs", //nolint:noctx // at the end of the test
				name).CombinedOutput()
			_ = os.WriteFile(filepath.Join(dir, name+".log"), out, 0o600)
		}
		t.Logf("the logs of the servers are in %s", dir)
	}
	// Without the servers, which would start new instances.
	s.helm(t, "--set", "replicas=0", "--set", "migrate.enabled=false")
	s.deletePods(t, systemNamespace)
	s.deletePods(t, appsNamespace)
	kubectl(t, "", "--namespace", systemNamespace, "delete", "secret", "ingot", "ingot-files")
}

// deletePods deletes all Pods of a namespace, also those on a node that is gone.
func (s *site) deletePods(t *testing.T, namespace string) {
	t.Helper()
	err := request(context.Background(), http.MethodDelete, caller, s.api+"/api/v1/namespaces/"+namespace+
		"/pods?gracePeriodSeconds=0", nil)
	if err != nil {
		t.Error(err)
	}
}

// newSecrets returns the files that a server creates for its data directory.
func newSecrets(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := []string{"up", "--data-dir", dir, "--engine", "process", "--log-format", "json"}
	for _, name := range []string{"", "notifications-", "admin-", "ssh-"} {
		args = append(args, "--"+name+"listen", "127.0.0.1:0")
	}
	cmd := exec.CommandContext(ctx, os.Getenv("INGOT_BIN"), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	messages, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		fmt.Fprintln(&text, lines.Text())
		if strings.Contains(lines.Text(), `"msg":"ready"`) {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it is waited for below
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("ingot up: %v\n%s", err, &text)
	}
	return filepath.Join(dir, "secrets")
}

// copyDatabase copies a single server's database to the cluster's.
func copyDatabase(t *testing.T, dir, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Getenv("INGOT_BIN"), "db", "copy", "--from", dir, "--to", to).
		CombinedOutput()
	if err != nil || !strings.Contains(string(out), "number and checksum of each table are the same") {
		t.Fatalf("ingot db copy: %v\n%s", err, out)
	}
}

// kubectlProxy returns a URL at which the API server needs no credentials.
func kubectlProxy(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("kubectl", "proxy", "--port=0") //nolint:noctx // until the end of the cleanup
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if !found {
		t.Fatalf("kubectl proxy: %q, %v", line, err)
	}
	return "http://" + address
}

// openDatabase creates a database beside the cluster, and connects to it.
func openDatabase(t *testing.T, name string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(os.Getenv(pgproc.URLVariable))
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *pgx.Conn {
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	if _, err := connect().Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	config.Database = name
	return connect()
}

// pods returns the Pods of a namespace.
func (s *site) pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := request(ctx, http.MethodGet, caller, s.api+"/api/v1/namespaces/"+namespace+"/pods?labelSelector="+
		url.QueryEscape(selector), &list)
	return list.Items, err
}

// servers returns the addresses of the servers' Pods that are not being deleted.
func (s *site) servers(ctx context.Context) (map[string]string, error) {
	list, err := s.pods(ctx, systemNamespace, "app.kubernetes.io/component=server")
	all := map[string]string{}
	for _, p := range list {
		if p.DeletionTimestamp == nil && p.Status.PodIP != "" {
			all[p.Name] = p.Status.PodIP
		}
	}
	return all, err
}

// awaitServers waits until that many servers get requests, and no other server runs.
func (s *site) awaitServers(t *testing.T, n int) {
	t.Helper()
	s.until(t, fmt.Sprintf("%d servers", n), func() bool {
		all, err := s.pods(t.Context(), systemNamespace, "app.kubernetes.io/component=server")
		return err == nil && len(all) == n && len(s.balancer.names()) == n
	})
}

// until waits for something and returns how long that took.
func (s *site) until(t *testing.T, what string, done func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	if !eventually(2*patience, done) {
		t.Fatalf("%s: not after %v", what, 2*patience)
	}
	return time.Since(began)
}

// instances returns the Pods of an app's instances that are not being deleted.
func (s *site) instances(t *testing.T, app string) []corev1.Pod {
	t.Helper()
	all, err := s.pods(context.Background(), appsNamespace, "ingot.dev/kind=app,ingot.dev/app="+app)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// cf runs the cf CLI, which must succeed, and returns its output.
func (s *site) cf(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv("CF_BIN"), args...)
	cmd.Dir = s.home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "CF_HOME=" + s.home, "CF_COLOR=false",
		"LANG=en_US.UTF-8", "TERM=dumb"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		recent := ""
		if args[0] == "push" {
			logs := exec.CommandContext(ctx, os.Getenv("CF_BIN"), "logs", args[1], "--recent")
			logs.Env = cmd.Env
			more, _ := logs.CombinedOutput()
			recent = string(more)
		}
		t.Fatalf("cf %s: %v\n%s%s", strings.Join(args, " "), err, out, recent)
	}
	return string(out)
}

// call calls the API at a server, or through the balancer if address is "".
func (s *site) call(ctx context.Context, token, address, method, path string, body, into any) error {
	if address == "" {
		address = s.balancer.address
	}
	var send io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, send)
	if err != nil {
		return err
	}
	r.Host = s.balancer.address
	r.Header.Set("Authorization", token)
	r.Header.Set("Content-Type", "application/json")
	response, err := caller.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func (s *site) token(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(s.cf(t, "oauth-token"))
}

// running returns how many instances of an app run, as the API says.
func (s *site) running(token, app string) int {
	var stats struct{ Resources []struct{ State string } }
	if s.call(context.Background(), token, "", http.MethodGet, "/v3/apps/"+app+"/processes/web/stats", nil,
		&stats) != nil {
		return -1
	}
	n := 0
	for _, one := range stats.Resources {
		if one.State == "RUNNING" {
			n++
		}
	}
	return n
}

// An app of the site.
type app struct{ name, guid, host string }

// push pushes the program of the end-to-end tests, with more bytes in its package.
func (s *site) push(t *testing.T, name string, size int, args ...string) app {
	t.Helper()
	dir := t.TempDir()
	if err := command(t.Context(), "cp", probe(t), filepath.Join(dir, "probe")); err != nil {
		t.Fatal(err)
	}
	if size > 0 {
		if err := command(t.Context(), "sh", "-c", fmt.Sprintf("head -c %d /dev/urandom >%s/data", size, dir)); err != nil {
			t.Fatal(err)
		}
	}
	s.cf(t, append([]string{"push", name, "-p", dir, "-b", "binary_buildpack", "-c", "./probe", "-m", "64M", "-k", "128M"},
		args...)...)
	return app{name, strings.TrimSpace(s.cf(t, "app", name, "--guid")), name + ".apps." + domain}
}

// probe returns the path of that program.
func probe(t *testing.T) string {
	t.Helper()
	file, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

var buildProbe = sync.OnceValues(func() (string, error) {
	file, err := filepath.Abs("../bin/probe")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "-C", "../e2e", "build", "-trimpath", "-ldflags=-s -w", //nolint:noctx // go test limits it
		"-o", file, "./testdata/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return file, nil
})

// owner returns the server that works on an app: the id of its row, and its Pod.
func (s *site) owner(t *testing.T, shard string) (id, pod string) {
	t.Helper()
	err := s.db.QueryRow(t.Context(),
		"SELECT s.id, s.host FROM cluster_leases l JOIN cluster_servers s ON s.id = l.holder WHERE l.name = $1",
		shard).Scan(&id, &pod)
	if err != nil {
		t.Fatalf("owner of %s: %v", shard, err)
	}
	return id, pod
}

// shards returns how many shards servers work on that are alive, without one.
func (s *site) shards(t *testing.T, without string) (n int) {
	t.Helper()
	err := s.db.QueryRow(t.Context(), `SELECT count(*) FROM cluster_leases l JOIN cluster_servers s ON s.id = l.holder
		WHERE l.name LIKE 'shard-%' AND s.id <> $1 AND s.expires > extract(epoch FROM now()) * 1e9`, without).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const allShards = 64

// kill kills the process of a server, from outside, with SIGKILL.
func (s *site) kill(t *testing.T, pod string) time.Time {
	t.Helper()
	for _, n := range processes() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", n)) // it may have ended
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n))
		if args := strings.Split(string(line), "\x00"); len(args) > 1 && filepath.Base(args[0]) == "ingot" &&
			args[1] == "up" && bytes.Contains(environ, []byte("HOSTNAME="+pod+"\x00")) {
			at := time.Now()
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatalf("no process of server %s", pod)
	panic("unreachable")
}

// A wire carries connections to a TCP server, until it is cut.
type wire struct {
	address, to string

	mu    sync.Mutex
	open  net.Listener
	conns map[net.Conn]bool
}

func newWire(t *testing.T, host, to string) *wire {
	t.Helper()
	w := &wire{address: host + ":0", to: to, conns: map[net.Conn]bool{}}
	w.join(t)
	t.Cleanup(w.cut)
	return w
}

// join accepts connections.
func (w *wire) join(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.open, w.address = listener, listener.Addr().String()
	w.mu.Unlock()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", w.to) //nolint:noctx // on this machine
			if err != nil {
				near.Close()
				continue
			}
			w.mu.Lock()
			cut := w.open != listener
			w.conns[near], w.conns[far] = true, true
			w.mu.Unlock()
			if cut {
				near.Close()
				far.Close()
			}
			go w.carry(near, far)
			go w.carry(far, near)
		}
	}()
}

func (w *wire) carry(from, to net.Conn) {
	_, _ = io.Copy(to, from) // either end may close it
	from.Close()
	to.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, from)
}

// cut ends all connections and refuses new ones.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil {
		w.open.Close()
		w.open = nil
	}
	for c := range w.conns {
		c.Close()
	}
}

// A report is a table of what was measured: lines in the test's log, and in the file of
// INGOT_TEST_REPORT, after what that has already.
type report struct{ t *testing.T }

func newReport(t *testing.T) *report {
	t.Helper()
	return &report{t}
}

// add adds a line at once, so that it is not lost when a later part of a test fails.
func (r *report) add(what, goal, figure string) {
	r.t.Helper()
	row := fmt.Sprintf("| %s | %s | %s |\n", what, goal, figure)
	r.t.Log(row)
	file := os.Getenv("INGOT_TEST_REPORT")
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // a report
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(row); err != nil {
		r.t.Error(err)
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + " ms" }

// percentile returns the value that this part of all values does not exceed.
func percentile(all []time.Duration, part float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
