//go:build linux

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
)

// A peer has its own network: a Pod, or what is outside of the cluster.
type peer struct {
	namespace string // of the kernel
	ip        string
}

// A network is a node whose Pods are network namespaces. Everything between them is routed
// by the node, where a program enforces NetworkPolicies.
//
//	Pod ── veth ──┐
//	Pod ── veth ──┤ node ── veth ── this machine with the API server
//	world ─ veth ─┘
type network struct {
	*testing.T
	prefix string
	node   string // address
	n      int
	world  peer
	pods   map[string]peer
}

// Addresses of the world: a public one, that of a cloud's metadata, and a private one.
const (
	publicIP   = "198.51.100.7"
	metadataIP = "169.254.169.254"
	databaseIP = "172.16.8.9"
)

func (w *network) ip(args ...string) {
	w.Helper()
	w.command("", "ip", args...)
}

func (w *network) command(input, name string, args ...string) {
	w.Helper()
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// newNetwork creates a node and the world. They are removed with the test.
func newNetwork(t *testing.T) *network {
	t.Helper()
	number := os.Getpid() % 250
	w := &network{T: t, prefix: fmt.Sprintf("ingot%d", os.Getpid()), node: fmt.Sprintf("10.198.%d.2", number),
		pods: map[string]peer{}}
	host := fmt.Sprintf("10.198.%d.1", number)
	outside := fmt.Sprintf("ing%d", os.Getpid())
	w.ip("netns", "add", w.prefix)
	t.Cleanup(func() { w.ip("netns", "delete", w.prefix) })
	w.ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", w.prefix)
	w.ip("address", "add", host+"/30", "dev", outside)
	w.ip("link", "set", outside, "up")
	for _, args := range []string{"address add " + w.node + "/30 dev eth0", "link set lo up", "link set eth0 up",
		"route add default via " + host} {
		w.ip(append([]string{"-netns", w.prefix}, strings.Fields(args)...)...)
	}
	w.command("", "ip", "netns", "exec", w.prefix, "sysctl", "-qw", "net.ipv4.ip_forward=1",
		"net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
	w.world = w.peer(publicIP, metadataIP, databaseIP)
	return w
}

// peer adds a network namespace with addresses.
func (w *network) peer(addresses ...string) peer {
	w.Helper()
	w.n++
	p := peer{fmt.Sprintf("%s-%d", w.prefix, w.n), addresses[0]}
	link := fmt.Sprintf("veth%d", w.n)
	w.ip("netns", "add", p.namespace)
	w.Cleanup(func() { w.ip("netns", "delete", p.namespace) })
	w.ip("link", "add", link, "netns", w.prefix, "type", "veth", "peer", "name", "eth0", "netns", p.namespace)
	w.ip("-netns", w.prefix, "link", "set", link, "up")
	// The node answers for every address.
	w.command("", "ip", "netns", "exec", w.prefix, "sysctl", "-qw", "net.ipv4.conf."+link+".proxy_arp=1",
		"net.ipv4.neigh."+link+".proxy_delay=0")
	w.ip("-netns", p.namespace, "link", "set", "lo", "up")
	for _, address := range addresses {
		w.ip("-netns", p.namespace, "address", "add", address+"/32", "dev", "eth0")
		w.ip("-netns", w.prefix, "route", "add", address+"/32", "dev", link)
	}
	w.ip("-netns", p.namespace, "link", "set", "eth0", "up")
	w.ip("-netns", p.namespace, "route", "add", "default", "dev", "eth0")
	return p
}

// within calls f in the network of a peer.
func (w *network) within(p peer, f func()) {
	w.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		w.Fatal(err)
	}
	defer own.Close()
	other, err := os.Open("/run/netns/" + p.namespace)
	if err != nil {
		w.Fatal(err)
	}
	defer other.Close()
	if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
		w.Fatal(err)
	}
	f()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err) // the thread cannot be used any more
	}
}

// listen accepts connections to ports of a peer.
func (w *network) listen(p peer, ports ...int) {
	w.Helper()
	w.within(p, func() {
		for _, port := range ports {
			l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf("0.0.0.0:%d", port))
			if err != nil {
				w.Fatal(err)
			}
			w.Cleanup(func() { _ = l.Close() })
			go func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					_ = c.Close()
				}
			}()
		}
	})
}

// reaches reports whether a connection is made.
func (w *network) reaches(from peer, to string, port int) (ok bool) {
	w.Helper()
	w.within(from, func() {
		c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(w.Context(), "tcp", net.JoinHostPort(to,
			fmt.Sprint(port)))
		if err == nil {
			_ = c.Close()
		}
		ok = err == nil
	})
	return ok
}

// pod adds a Pod of the cluster: its labels are what policies go by.
func (w *network) pod(name, namespace string, labels map[string]string) {
	w.Helper()
	p := w.peer(fmt.Sprintf("10.198.%d.%d", 100+os.Getpid()%100, 10+w.n))
	w.pods[name] = p
	w.listen(p, 53, 80, 8080, 61001, 61002)
	text, err := os.ReadFile(filepath.Join("testdata", "pod.json"))
	if err != nil {
		w.Fatal(err)
	}
	var o struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(text, &o); err != nil {
		w.Fatal(err)
	}
	o.Metadata = map[string]any{"name": name, "namespace": namespace, "labels": labels}
	o.Spec["nodeName"], o.Spec["serviceAccountName"] = w.prefix, "default"
	if text, err = json.Marshal(o); err != nil {
		w.Fatal(err)
	}
	w.command(string(text), "kubectl", "create", "-f", "-")
	w.Cleanup(func() {
		w.command("", "kubectl", "delete", "pod", name, "-n", namespace, "--force", "--grace-period=0")
	})
	w.command("", "kubectl", "patch", "pod", name, "-n", namespace, "--subresource=status", "-p", fmt.Sprintf(
		`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"hostIP":%q}}`, p.ip, p.ip, w.node))
}

// enforce starts the program that enforces NetworkPolicies on the node.
func (w *network) enforce(program string) {
	w.Helper()
	cmd := exec.CommandContext(context.Background(), "ip", "netns", "exec", w.prefix, program, "--kubeconfig",
		os.Getenv("KUBECONFIG"), "--node", w.prefix)
	cmd.Stdout, cmd.Stderr = w.Output(), w.Output()
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// A way is a connection that is possible or not.
type way struct {
	from, to string // a Pod, or an address of the world
	port     int
	want     bool
}

// check checks all ways. What is changed takes effect some time later, so the first that
// differs is waited for.
func (w *network) check(when string, all []way) {
	w.Helper()
	for _, c := range all {
		from, to := w.world, c.to
		if p, ok := w.pods[c.from]; ok {
			from = p
		}
		if p, ok := w.pods[c.to]; ok {
			to = p.ip
		}
		deadline := time.Now().Add(patience)
		for w.reaches(from, to, c.port) != c.want {
			if time.Now().After(deadline) {
				w.Errorf("%s: %s reaches %s, port %d: %t, want %t", when, c.from, c.to, c.port, !c.want, c.want)
				break
			}
		}
	}
}

// TestEnforced: with kube-router's controller, which enforces NetworkPolicies, what security
// groups and policies between apps allow is possible, and nothing else.
func TestEnforced(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("netpol")
	if err != nil || os.Getenv("INGOT_TEST_KUBECONFIG") == "" || os.Geteuid() != 0 {
		t.Skip("no cluster or no program that enforces policies: make test-kubernetes starts both")
	}
	if _, err := exec.LookPath("ipset"); err != nil {
		t.Skip(err)
	}
	w := newNetwork(t)
	w.command(fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q},"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`,
		w.prefix, w.node), "kubectl", "create", "-f", "-")
	t.Cleanup(func() { w.command("", "kubectl", "delete", "node", w.prefix) })
	authority, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	config := kubernetes.DefaultConfig()
	config.Kubeconfig, config.Image = os.Getenv("INGOT_TEST_KUBECONFIG"), "stack"
	key := []byte(w.prefix)
	e := open(t, kubernetes.Options{Config: config, Authority: authority, Key: key, Server: "test"})

	for _, namespace := range []string{"ingot-apps", "ingot-system", "kube-system", "default"} {
		w.command(fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":%q}}`,
			namespace), "kubectl", "apply", "-f", "-")
	}
	app := func(guid, space string) map[string]string {
		return map[string]string{"ingot.dev/install": kubernetes.InstallName(key), "ingot.dev/kind": "app",
			"ingot.dev/app": guid, "ingot.dev/space": space}
	}
	server := map[string]string{"app.kubernetes.io/name": "ingot", "app.kubernetes.io/instance": "ingot",
		"app.kubernetes.io/component": "server"}
	w.pod("shop", "ingot-apps", app("shop", "space-a"))
	w.pod("cart", "ingot-apps", app("cart", "space-a"))
	w.pod("other", "ingot-apps", app("other", "space-b"))
	w.pod("impostor", "ingot-apps", server)
	w.pod("server", "ingot-system", server)
	w.pod("dns", "kube-system", map[string]string{"k8s-app": "kube-dns"})
	w.pod("stranger", "default", nil)
	w.listen(w.world, 443, 5432)

	w.check("before", []way{{"other", "shop", 8080, true}, {"shop", metadataIP, 443, true}, {"world", "shop", 8080, true}})
	rules := engine.Rules{
		Groups: map[string]engine.Group{
			"public": {Name: "public_networks", Rules: []platform.SecurityRule{
				{Protocol: platform.ProtocolAll, Destination: "0.0.0.0-9.255.255.255"},
				{Protocol: platform.ProtocolAll, Destination: "11.0.0.0-169.253.255.255"},
				{Protocol: platform.ProtocolAll, Destination: "169.255.0.0-172.15.255.255"},
				{Protocol: platform.ProtocolAll, Destination: "172.32.0.0-192.167.255.255"},
				{Protocol: platform.ProtocolAll, Destination: "192.169.0.0-255.255.255.255"},
			}},
			"database": {Name: "database", Rules: []platform.SecurityRule{
				{Protocol: platform.ProtocolTCP, Destination: databaseIP, Ports: "5000-6000"},
			}},
		},
		Zones: map[engine.Zone][]string{{}: {"public"}, {Space: "space-a"}: {"public"}, {Space: "space-b"}: {"public"}},
	}
	if err := e.Enforce(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Enforce(context.Background(), engine.Rules{}) })
	w.enforce(program)
	denied := []way{
		{"other", "shop", 8080, false}, {"cart", "shop", 8080, false}, {"cart", "shop", 61001, false},
		{"impostor", "shop", 61001, false}, {"stranger", "shop", 8080, false}, {"world", "shop", 8080, false},
		{"server", "shop", 8080, true}, {"server", "shop", 80, true}, {"server", "shop", 61001, true},
		{"server", "shop", 61002, false}, {"shop", "server", 8080, false},
		{"shop", "dns", 53, true}, {"shop", "dns", 8080, false}, {"shop", "stranger", 8080, false},
		{"shop", publicIP, 443, true}, {"other", publicIP, 443, true},
		{"shop", metadataIP, 443, false}, {"shop", databaseIP, 5432, false}, {"other", databaseIP, 5432, false},
	}
	w.check("security groups of all spaces", denied)

	rules.Zones[engine.Zone{Space: "space-a"}] = []string{"public", "database"}
	rules.Policies = []platform.NetworkPolicy{{SourceApp: "cart", DestApp: "shop", Protocol: platform.ProtocolTCP,
		FirstPort: 8080, LastPort: 8081}}
	if err := e.Enforce(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	w.check("a security group of a space and a policy", []way{
		{"shop", databaseIP, 5432, true}, {"cart", databaseIP, 5432, true}, {"other", databaseIP, 5432, false},
		{"shop", databaseIP, 443, false}, {"shop", metadataIP, 443, false},
		{"cart", "shop", 8080, true}, {"cart", "shop", 80, false}, {"cart", "shop", 61001, false},
		{"shop", "cart", 8080, false}, {"other", "shop", 8080, false}, {"stranger", "shop", 8080, false},
		{"server", "shop", 8080, true},
	})

	rules.Zones[engine.Zone{Space: "space-a"}], rules.Policies = []string{"public"}, nil
	if err := e.Enforce(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	w.check("after they were removed", denied)
}
