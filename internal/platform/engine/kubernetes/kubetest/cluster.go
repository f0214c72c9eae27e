//go:build linux

package kubetest

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/kubernetes/policytest"
)

// Namespace is the only namespace of a cluster, Owner its only ConfigMap.
const (
	Namespace = "ingot-apps"
	Owner     = "ingot-install"
)

// Nodes are the nodes of a cluster. Pods are placed in turn.
var Nodes = []string{"node-a", "node-b"}

// Cluster is a Kubernetes cluster of two nodes.
type Cluster struct {
	init, root string
	server     *httptest.Server
	store      *store

	mu       sync.Mutex
	faults   Faults
	changed  chan struct{} // closed and replaced when the faults change
	broken   chan struct{} // closed and replaced to end all watches
	role     map[string]bool
	calls    map[string]int
	pods     map[string]*container // by uid
	lost     map[string]bool       // nodes
	placed   int
	kubelets background.WaitGroup
}

// Faults are what goes wrong. The zero value is a healthy cluster.
type Faults struct {
	Away          bool                    // the API server does not answer
	Unschedulable string                  // the scheduler's message: Pods stay pending
	ImageError    string                  // the registry's message: Pods stay without a container
	Pull          Pull                    // the registry of images of apps; nil has all images
	StackError    string                  // as ImageError, for the first container of a Pod with another image
	NodeRefusal   string                  // the kubelet's message: Pods fail without a container
	Refuse        func(pod []byte) string // the message of an admission plugin; empty to admit
	Duplicate     bool                    // watches send every event twice
	Late          time.Duration           // watches send events this much later
}

// Pull answers a node that pulls an image, with the content of the Pod's Secret if it has one:
// it returns the message of a failure, empty to hand the image out. PullSlow never ends.
type Pull func(image string, credentials []byte) string

// PullSlow is the answer of a registry that never comes.
const PullSlow = "slow"

// Stack begins the names of images that contain ingot-init. In a Pod with another one, a
// container with such an image has to run before.
const Stack = "stack"

// Memory is the memory of a node in bytes, Disk its disk; a Pod that requests more cannot
// be placed.
const (
	Memory = 64 << 30
	Disk   = 1 << 40
)

// New starts a cluster whose Pods run the given ingot-init. It ends with the test.
func New(t testing.TB, initProgram string) *Cluster {
	t.Helper()
	root, err := os.MkdirTemp("", "kube")
	testkit.Must(t, err)
	testkit.Must(t, os.Chmod(root, 0o711))
	c := &Cluster{
		init: initProgram, root: root, store: newStore(), changed: make(chan struct{}), broken: make(chan struct{}),
		calls: map[string]int{}, pods: map[string]*container{}, lost: map[string]bool{},
	}
	c.store.put("configmaps", Owner, true, func(o object) {
		o["apiVersion"], o["kind"] = "v1", "ConfigMap"
		set(o, "0d6ce0f4-7f3f-4c52-8a3e-3c6b7f0a5e11", "metadata", "uid")
	})
	c.server = httptest.NewServer(c)
	t.Cleanup(func() {
		c.BreakWatches()
		c.server.CloseClientConnections()
		c.server.Close()
		c.killAll()
		c.kubelets.Wait()
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Kubeconfig writes a kubeconfig file of the cluster and returns its path.
func (c *Cluster) Kubeconfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test, namespace: %s}}]
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
`, Namespace, c.server.URL)
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Home returns the home directory of a Pod's container.
func (c *Cluster) Home(pod string) string { return filepath.Join(c.root, pod, "home") }

// Set changes what goes wrong from now on.
func (c *Cluster) Set(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
	close(c.changed)
	c.changed = make(chan struct{})
	if f.Away {
		c.breakWatches()
	}
}

// wake makes kubelets that wait look again.
func (c *Cluster) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// BreakWatches ends all watches, as an API server does from time to time.
func (c *Cluster) BreakWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breakWatches()
}

func (c *Cluster) breakWatches() {
	close(c.broken)
	c.broken = make(chan struct{})
}

// Compact forgets all events: watches that are not up to date get 410.
func (c *Cluster) Compact() { c.store.compact() }

// SetRole permits the listed requests only, as "verb resource" or
// "verb resource/name".
func (c *Cluster) SetRole(permissions []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.role = map[string]bool{}
	for _, p := range permissions {
		c.role[p] = true
	}
}

// Calls returns which requests were made, as "verb resource", sorted.
func (c *Cluster) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.calls))
}

// Pods returns the names of all Pods.
func (c *Cluster) Pods() []string { return c.names("pods") }

// Secrets returns the names of all Secrets.
func (c *Cluster) Secrets() []string { return c.names("secrets") }

// Policies returns the names of all NetworkPolicies.
func (c *Cluster) Policies() []string { return c.names("networkpolicies") }

func (c *Cluster) names(resource string) []string {
	list, _ := c.store.list(resource, "")
	names := make([]string, 0, len(list))
	for _, o := range list {
		names = append(names, text(o, "metadata", "name"))
	}
	return names
}

// Object returns an object as JSON; nil if it does not exist.
func (c *Cluster) Object(resource, name string) []byte {
	o, ok := c.store.get(resource, name)
	if !ok {
		return nil
	}
	return encode(o)
}

// Reaches reports whether the NetworkPolicies let one Pod connect to another. Pods are
// processes of one machine, so nothing enforces it.
func (c *Cluster) Reaches(from, to string, port int) bool {
	list, _ := c.store.list("networkpolicies", "")
	policies := make([]policytest.Policy, len(list))
	for i, o := range list {
		var err error
		if policies[i], err = policytest.Parse(encode(o)); err != nil {
			panic(err) // the API server would have refused it
		}
	}
	peer := func(name string) policytest.Peer {
		o, _ := c.store.get("pods", name)
		labels := map[string]string{}
		found, _ := get(o, "metadata", "labels").(map[string]any)
		for k, v := range found {
			labels[k] = fmt.Sprint(v)
		}
		ip, _ := netip.ParseAddr(text(o, "status", "podIP")) // none before it runs
		return policytest.Peer{Namespace: Namespace,
			NamespaceLabels: map[string]string{"kubernetes.io/metadata.name": Namespace}, Labels: labels, IP: ip}
	}
	return policytest.Allowed(policies, peer(from), peer(to), "TCP", port)
}

// Node returns the node of a Pod.
func (c *Cluster) Node(pod string) string {
	o, _ := c.store.get("pods", pod)
	return text(o, "spec", "nodeName")
}

// LoseNode cuts a node off: with kill its processes end, else they hang. The API server
// still shows its Pods as they were.
func (c *Cluster) LoseNode(node string, kill bool) {
	c.mu.Lock()
	c.lost[node] = true
	found := slices.Collect(maps.Values(c.pods))
	c.mu.Unlock()
	for _, one := range found {
		if one.node != node {
			continue
		}
		if kill {
			one.kill()
		} else {
			one.signal(sigStop)
		}
	}
}

// Evict deletes a Pod as a drain of its node does.
func (c *Cluster) Evict(pod, reason, message string) {
	c.condition(pod, "DisruptionTarget", "True", reason, message)
	if o, ok := c.store.get("pods", pod); ok {
		c.delete(o, graceOf(o))
	}
}

// Pressure ends a Pod on a node that is short of resources, as the kubelet does: the phase
// says so before the container has ended.
func (c *Cluster) Pressure(pod, message string) {
	c.store.put("pods", pod, false, func(o object) {
		set(o, "Failed", "status", "phase")
		set(o, "Evicted", "status", "reason")
		set(o, message, "status", "message")
		setCondition(o, "DisruptionTarget", "True", "TerminationByKubelet", message)
	})
	o, _ := c.store.get("pods", pod)
	c.mu.Lock()
	one := c.pods[text(o, "metadata", "uid")]
	if one != nil {
		one.evicted = message
	}
	c.mu.Unlock()
	if one != nil {
		one.signal(syscall.SIGTERM)
	}
}

// Remove deletes a Pod by force, as an operator does.
func (c *Cluster) Remove(pod string) {
	if o, ok := c.store.get("pods", pod); ok {
		c.delete(o, 0)
	}
}

// Exceed ends a Pod that used more of its disk than its limit, as the kubelet does.
func (c *Cluster) Exceed(pod, message string) {
	c.end(pod, func(one *container) { one.evicted = message })
}

// KillOutOfMemory kills all processes of a Pod, as the kernel does when the group has no
// memory left.
func (c *Cluster) KillOutOfMemory(pod string) { c.end(pod, func(one *container) { one.oom = true }) }

// KillInit kills ingot-init of a Pod.
func (c *Cluster) KillInit(pod string) { c.end(pod, func(*container) {}) }

func (c *Cluster) end(pod string, mark func(*container)) {
	o, _ := c.store.get("pods", pod)
	c.mu.Lock()
	one := c.pods[text(o, "metadata", "uid")]
	if one != nil {
		mark(one)
	}
	c.mu.Unlock()
	if one != nil {
		one.kill()
	}
}

// Processes lists the processes of the cluster's Pods that still run.
func (c *Cluster) Processes() []string {
	var found []string
	for _, p := range mentioning(c.root) {
		found = append(found, p.String())
	}
	return found
}

func (c *Cluster) killAll() {
	c.mu.Lock()
	found := slices.Collect(maps.Values(c.pods))
	c.mu.Unlock()
	for _, one := range found {
		one.kill()
	}
	for _, name := range c.Pods() {
		o, ok := c.store.get("pods", name)
		if ok {
			c.store.remove("pods", name, text(o, "metadata", "uid"))
		}
	}
	c.Set(Faults{}) // wakes kubelets that wait
}

// condition sets a condition of a Pod.
func (c *Cluster) condition(pod, kind, status, reason, message string) {
	c.store.put("pods", pod, false, func(o object) { setCondition(o, kind, status, reason, message) })
}

func setCondition(o object, kind, status, reason, message string) {
	list, _ := get(o, "status", "conditions").([]any)
	list = slices.DeleteFunc(list, func(one any) bool { return text(one, "type") == kind })
	list = append(list, object{"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": now()})
	set(o, list, "status", "conditions")
}

// permitted records a request and reports whether the role allows it.
func (c *Cluster) permitted(verb, resource, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[verb+" "+resource]++
	return c.allows(verb, resource, name)
}

// allows reports whether the role allows a request. mu must be held.
func (c *Cluster) allows(verb, resource, name string) bool {
	return c.role == nil || c.role[verb+" "+resource] || c.role[verb+" "+resource+"/"+name]
}

func (c *Cluster) current() (Faults, <-chan struct{}, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults, c.changed, c.broken
}

// quantity parses a number of bytes, as in 256Mi.
func quantity(s string) int64 {
	var n int64
	var unit string
	_, _ = fmt.Sscanf(s, "%d%s", &n, &unit)
	return n << (10 * (1 + strings.Index("KiMiGiTiPiEi", unit)/2) * min(1, len(unit)))
}
