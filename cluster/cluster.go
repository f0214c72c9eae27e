//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ingot/internal/base/db/dbtest/pgproc"
)

// startTimeout limits how long a program may take to become ready. It is long,
// because it only expires when something does not happen at all.
const startTimeout = 3 * time.Minute

// Variables of a command that runs with a cluster.
const (
	configVariable  = "INGOT_TEST_KUBECONFIG"
	imageVariable   = "INGOT_TEST_STACK_IMAGE"
	serverVariable  = "INGOT_TEST_SERVER_IMAGE"
	networkVariable = "INGOT_TEST_NETWORK"
	podURLVariable  = "INGOT_TEST_POSTGRES_POD_URL"
	s3Variable      = "INGOT_TEST_S3_URL"
)

type options struct {
	tools  string
	nodes  int
	images []string
	keep   string
}

// cluster is a running cluster.
type cluster struct {
	state
	// Environment tells a command where the cluster is.
	Environment []string

	mu       sync.Mutex // for state
	tools    string
	images   []string
	number   int // of this cluster on this machine, part of names and addresses
	pki      *authority
	client   *http.Client
	postgres *pgproc.Server
	forward  net.Listener // to PostgreSQL, for Pods
}

// start starts a cluster in a directory. After an error nothing is left.
func start(ctx context.Context, dir string, o options) (c *cluster, err error) {
	c = &cluster{state: state{Dir: dir, Supervisor: pidOf("cluster", os.Getpid())}, images: o.images}
	defer func() {
		if err != nil {
			c.keepLogs(o.keep)
			err = errors.Join(err, c.stop())
		}
	}()
	if c.tools, err = filepath.Abs(o.tools); err != nil {
		return c, err
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(c.tool(name)); err != nil {
			return c, fmt.Errorf("%w (run: scripts/setup kubernetes)", err)
		}
	}
	if os.Geteuid() != 0 {
		return c, errors.New("a node needs root")
	}
	c.remember()
	// Containers and the database's user enter it.
	if err := os.Chmod(dir, 0o711); err != nil {
		return c, err
	}
	if err := os.Mkdir(filepath.Join(dir, "log"), 0o755); err != nil {
		return c, err
	}
	if err := c.save(); err != nil {
		return c, err
	}
	if err := c.prepare(ctx, o.nodes); err != nil {
		return c, err
	}
	if err := together(ctx,
		func(ctx context.Context) error { return c.startNodes(ctx, o.nodes) },
		func(ctx context.Context) error { return c.startStores(ctx, o.nodes > 0) },
	); err != nil {
		return c, err
	}
	err = c.restore()
	return c, err
}

func (c *cluster) tool(name string) string { return filepath.Join(c.tools, name) }

// ip returns an address of the cluster: 10.NUMBER.a.b.
func (c *cluster) ip(a, b int) string { return fmt.Sprintf("10.%d.%d.%d", 200+c.number, a, b) }

// The addresses of Services, of which the first is the API server's, and addresses of
// this machine that Pods reach.
const (
	services = 128
	machine  = 64
)

func (c *cluster) server() string { return "https://" + c.ip(services, 1) }

// bridgeName returns the name of a node's bridge, at most 15 bytes.
func bridgeName(number, node int) string { return fmt.Sprintf("ingot-k%dn%d", number, node) }

// prepare creates bridges, cgroups and certificates.
func (c *cluster) prepare(ctx context.Context, nodes int) error {
	// The first bridge reserves a number: creating one that exists fails.
	for ; ; c.number++ {
		err := command(ctx, "ip", "link", "add", bridgeName(c.number, 0), "type", "bridge")
		if err == nil {
			break
		}
		if _, exists := os.Stat("/sys/class/net/" + bridgeName(c.number, 0)); exists != nil || c.number == 40 {
			return err
		}
	}
	for i := range max(1, nodes) { // the first bridge has the address of the API server
		n := c.node(i)
		c.Bridges, c.Cgroups = append(c.Bridges, n.bridge), append(c.Cgroups, n.cgroup)
		if err := c.save(); err != nil {
			return err
		}
		if i > 0 {
			if err := command(ctx, "ip", "link", "add", n.bridge, "type", "bridge"); err != nil {
				return err
			}
		}
		if err := errors.Join(
			// Otherwise it is the lowest of its ports', and Pods do not find this machine
			// for a while after another Pod was added or removed.
			command(ctx, "ip", "link", "set", n.bridge, "address", fmt.Sprintf("02:69:6e:67:%02x:%02x", c.number, i)),
			command(ctx, "ip", "address", "add", n.address+"/24", "dev", n.bridge),
			command(ctx, "ip", "link", "set", n.bridge, "up"),
			// Between the nodes, and only there: packets from these bridges are routed.
			os.WriteFile("/proc/sys/net/ipv4/conf/"+n.bridge+"/forwarding", //nolint:gosec // a kernel setting
				[]byte("1"), 0o644),
			makeCgroup(n.cgroup),
		); err != nil {
			return err
		}
	}
	if err := command(ctx, "ip", "address", "add", c.ip(services, 1)+"/32", "dev", c.Bridges[0]); err != nil {
		return err
	}
	// Removed with the bridge.
	network := c.ip(machine, 0) + "/20"
	if err := command(ctx, "ip", "route", "add", "local", network, "dev", c.Bridges[0]); err != nil {
		return err
	}
	c.Environment = append(c.Environment, networkVariable+"="+network)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := writePause(filepath.Join(c.Dir, "pause.tar"), filepath.Join(filepath.Dir(self), "pause")); err != nil {
		return err
	}
	return c.makePKI()
}

// makePKI issues the certificates of the control plane.
func (c *cluster) makePKI() error {
	dir := filepath.Join(c.Dir, "pki")
	err := os.Mkdir(dir, 0o711)
	if err != nil {
		return err
	}
	if c.pki, err = newAuthority(dir); err != nil {
		return err
	}
	_, err = c.pki.newKey("accounts") // signs tokens of service accounts
	if err := errors.Join(err,
		c.pki.issue("apiserver", "kube-apiserver", "", c.ip(services, 1), "kubernetes", "kubernetes.default",
			"kubernetes.default.svc"),
		c.pki.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
		c.pki.issue("s3", "s3", "", c.ip(0, 1)),
		c.pki.kubeconfig("admin", "admin", "system:masters", c.server()),
		c.pki.kubeconfig("controller-manager", "system:kube-controller-manager", "", c.server()),
		c.pki.kubeconfig("scheduler", "system:kube-scheduler", "", c.server()),
	); err != nil {
		return err
	}
	config, err := c.pki.client("admin")
	if err != nil {
		return err
	}
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 10 * time.Second}
	admin := c.pki.file("admin.kubeconfig")
	c.Environment = append(c.Environment, "KUBECONFIG="+admin, configVariable+"="+admin, "HELM_BIN="+c.tool("helm"),
		"PATH="+c.tools+":"+os.Getenv("PATH"))
	for i, variable := range []string{imageVariable, serverVariable} {
		if i == len(c.images) {
			break
		}
		name, err := imageName(c.images[i])
		if err != nil {
			return err
		}
		c.Environment = append(c.Environment, variable+"="+name)
	}
	return nil
}

// startNodes starts the control plane and the nodes.
func (c *cluster) startNodes(ctx context.Context, nodes int) error {
	steps := []func(context.Context) error{func(ctx context.Context) error { return c.startControlPlane(ctx, nodes > 0) }}
	for i := range nodes {
		steps = append(steps, func(ctx context.Context) error { return c.startRuntime(ctx, c.node(i)) })
	}
	if err := together(ctx, steps...); err != nil {
		return err
	}
	steps = nil
	for i := range nodes {
		steps = append(steps, func(ctx context.Context) error { return c.startKubelet(ctx, c.node(i)) })
	}
	return together(ctx, steps...)
}

// startControlPlane starts etcd, the API server, and unless nodes are simulated the controllers
// and the scheduler.
func (c *cluster) startControlPlane(ctx context.Context, controllers bool) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	etcd, peer := "http://"+ports[0], "http://"+ports[1]
	p, err := c.spawn("etcd", c.tool("etcd"), "--data-dir", filepath.Join(c.Dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return err
	}
	if err := p.await(ctx, func(ctx context.Context) error {
		return request(ctx, http.MethodGet, &http.Client{}, etcd+"/readyz", nil)
	}); err != nil {
		return err
	}
	p, err = c.spawn("kube-apiserver", c.tool("kube-apiserver"), "--etcd-servers", etcd,
		"--bind-address", c.ip(services, 1), "--secure-port", "443", "--endpoint-reconciler-type", "none",
		"--service-cluster-ip-range", c.ip(services, 0)+"/20", "--cert-dir", filepath.Join(c.Dir, "pki"),
		"--client-ca-file", c.pki.file("ca.crt"), "--tls-cert-file", c.pki.file("apiserver.crt"), "--tls-private-key-file",
		c.pki.file("apiserver.key"),
		"--kubelet-client-certificate", c.pki.file("kubelet-client.crt"), "--kubelet-client-key",
		c.pki.file("kubelet-client.key"),
		"--kubelet-preferred-address-types", "InternalIP", "--authorization-mode", "Node,RBAC", "--enable-admission-plugins",
		"NodeRestriction",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file",
		c.pki.file("accounts.key"),
		"--service-account-signing-key-file", c.pki.file("accounts.key"))
	if err != nil {
		return err
	}
	if err := p.await(ctx, func(ctx context.Context) error {
		return c.api(ctx, http.MethodGet, "/readyz",
			nil)
	}); err != nil || !controllers {
		return err
	}
	if _, err := c.spawn("kube-scheduler", c.tool("kube-scheduler"), "--kubeconfig", c.pki.file("scheduler.kubeconfig"),
		"--leader-elect=false", "--secure-port=0", "--authentication-skip-lookup", "--kube-api-qps=500",
		"--kube-api-burst=1000"); err != nil {
		return err
	}
	p, err = c.spawn("kube-controller-manager", c.tool("kube-controller-manager"), "--kubeconfig",
		c.pki.file("controller-manager.kubeconfig"),
		"--leader-elect=false", "--secure-port=0", "--authentication-skip-lookup", "--use-service-account-credentials",
		"--service-account-private-key-file", c.pki.file("accounts.key"), "--root-ca-file", c.pki.file("ca.crt"))
	if err != nil {
		return err
	}
	// Without the account, the API server refuses Pods.
	return p.await(ctx, func(ctx context.Context) error {
		return c.api(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", nil)
	})
}

// The keys and the bucket of the S3 server.
const (
	s3Access = "ingot-test"
	s3Secret = "ingot-test-secret"
	s3Bucket = "ingot"
)

// startStores starts PostgreSQL, and for Pods the S3 server.
func (c *cluster) startStores(ctx context.Context, forPods bool) error {
	var err error
	if c.postgres, err = pgproc.Start(ctx); err != nil {
		return err
	}
	c.Environment = append(c.Environment, pgproc.URLVariable+"="+c.postgres.URL)
	if !forPods {
		return nil
	}
	// It listens on a socket only; Pods need an address.
	if c.forward, err = (&net.ListenConfig{}).Listen(ctx, "tcp", c.ip(0, 1)+":5432"); err != nil {
		return err
	}
	go forward(c.forward, filepath.Join(c.postgres.Dir, ".s.PGSQL.5432"))

	bucket := filepath.Join(c.Dir, "s3", s3Bucket)
	if err := os.MkdirAll(bucket, 0o755); err != nil {
		return err
	}
	address := c.ip(0, 1) + ":9000"
	p, err := c.spawn("versitygw", c.tool("versitygw"), "--port", address, "--access", s3Access, "--secret", s3Secret,
		"--cert", c.pki.file("s3.crt"), "--key", c.pki.file("s3.key"), "--health", "/health", "posix", filepath.Dir(bucket))
	if err != nil {
		return err
	}
	s3URL := &url.URL{Scheme: "s3", Host: s3Bucket, RawQuery: url.Values{"endpoint": {"https://" + address},
		"region": {"us-east-1"}, "path-style": {"true"}, "ca-file": {c.pki.file("ca.crt")}}.Encode()}
	c.Environment = append(c.Environment,
		podURLVariable+"=postgres://postgres@"+c.ip(0, 1)+":5432/postgres?sslmode=disable",
		s3Variable+"="+s3URL.String(), "INGOT_TEST_S3_CA="+c.pki.file("ca.crt"),
		"AWS_ACCESS_KEY_ID="+s3Access, "AWS_SECRET_ACCESS_KEY="+s3Secret)
	return p.await(ctx, func(ctx context.Context) error {
		return request(ctx, http.MethodGet, c.client, "https://"+address+"/health", nil)
	})
}

// forward copies connections to a Unix socket until the listener is closed.
func forward(l net.Listener, socket string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
			if err != nil {
				return
			}
			defer to.Close()
			go func() {
				_, _ = io.Copy(to, from) // either end may close it
				to.Close()
			}()
			_, _ = io.Copy(from, to)
		}()
	}
}

// stop stops the cluster and removes everything.
func (c *cluster) stop() error {
	if c.client != nil {
		c.deletePods()
	}
	if c.forward != nil {
		c.forward.Close()
	}
	if c.postgres != nil {
		c.postgres.Stop()
	}
	return c.clean()
}

// deletePods lets the nodes remove their Pods in order. What remains is removed
// without them.
func (c *cluster) deletePods() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var pods struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
		}
	}
	list := func() bool {
		return c.api(ctx, http.MethodGet, "/api/v1/pods", &pods) == nil
	}
	if !list() {
		return
	}
	for _, p := range pods.Items {
		_ = c.api(ctx, http.MethodDelete, "/api/v1/namespaces/"+p.Metadata.Namespace+"/pods/"+p.Metadata.Name+
			"?gracePeriodSeconds=1", nil)
	}
	eventually(20*time.Second, func() bool {
		pods.Items = nil
		return !list() || len(pods.Items) == 0
	})
}

// keepLogs copies the logs of the cluster's programs to a directory.
func (c *cluster) keepLogs(to string) {
	if to == "" {
		return
	}
	os.RemoveAll(to)
	if err := os.CopyFS(to, os.DirFS(filepath.Join(c.Dir, "log"))); err == nil {
		fmt.Fprintln(os.Stderr, "cluster: the logs are in", to)
	}
}

// api calls the API server as administrator and decodes the answer, if into is not
// nil.
func (c *cluster) api(ctx context.Context, method, path string, into any) error {
	return request(ctx, method, c.client, c.server()+path, into)
}

func request(ctx context.Context, method string, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(req)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", method, url, response.Status, bytes.TrimSpace(body))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// freePorts returns addresses of loopback that were free.
func freePorts(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns at once
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:gocritic // all at the end, or the next may get the same port
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// together runs functions concurrently. The first error cancels the others and is
// returned.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, f := range all {
		running.Go(func() {
			if err := f(ctx); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
