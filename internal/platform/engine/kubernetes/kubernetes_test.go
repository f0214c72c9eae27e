//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
	"ingot/internal/platform/engine/local"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// options returns the options of an engine on a cluster. Engines of one test share their
// key, as the servers of an installation do.
func options(t *testing.T, c *kubetest.Cluster) kubernetes.Options {
	t.Helper()
	authority, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	config := kubernetes.DefaultConfig()
	config.Image, config.Kubeconfig, config.Rate, config.PlaceTimeout = "stack:test", c.Kubeconfig(t), 1000, time.Second
	return kubernetes.Options{
		Config: config, Authority: authority, Key: []byte("the key of this test: " + t.Name()), Server: "test",
		Home: c.Home, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

func open(t *testing.T, o kubernetes.Options) *kubernetes.Engine {
	t.Helper()
	e, err := kubernetes.New(t.Context(), o)
	if err != nil {
		t.Fatalf("opening the engine: %v", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// TestEngine runs the suite on a cluster whose Pods are processes.
func TestEngine(t *testing.T) {
	t.Parallel()
	clusters := map[string]*kubetest.Cluster{}
	all := map[string]kubernetes.Options{}
	var mu sync.Mutex
	newEngine := func(t *testing.T, dir string) engine.Engine {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if clusters[dir] == nil {
			clusters[dir] = kubetest.New(t, enginetest.InitPath())
			all[dir] = options(t, clusters[dir])
		}
		o := all[dir]
		o.Log = nil // its test may be over
		e, err := kubernetes.New(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		return &renumbered{Engine: e, file: filepath.Join(dir, "ports")}
	}
	cluster := func(dir string) *kubetest.Cluster {
		mu.Lock()
		defer mu.Unlock()
		return clusters[dir]
	}
	o := enginetest.Options{
		KillInit: func(_ *testing.T, dir string, _ engine.Engine, id string) { cluster(dir).KillInit("i-" + id) },
		Leftovers: func(_ *testing.T, dir string) []string {
			c := cluster(dir)
			left := c.Processes()
			for deadline := time.Now().Add(5 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = c.Processes() {
				<-time.After(10 * time.Millisecond)
			}
			return append(left, c.Pods()...)
		},
	}
	if os.Geteuid() == 0 {
		o.User, o.Group = 2000, 2000
	}
	enginetest.Run(t, newEngine, o)
}

// renumbered is an engine on a cluster whose Pods share the network of this machine: every
// instance gets its own number for each port, as with an engine with shared ports. A real
// Pod has its own network.
type renumbered struct {
	*kubernetes.Engine
	file string // numbers of an earlier engine

	mu sync.Mutex
}

// Describe does not claim isolation: there is none between the processes of one machine.
func (r *renumbered) Describe() engine.Description {
	d := r.Engine.Describe()
	d.Isolated = false
	return d
}

// ports reads the numbers of all instances, as lines of id, port and number.
func (r *renumbered) ports() []string {
	b, _ := os.ReadFile(r.file) // there may be none yet
	return strings.Fields(string(b))
}

func (r *renumbered) number(id string, port int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	prefix := fmt.Sprintf("%s/%d/", id, port)
	for _, line := range r.ports() {
		if n, ok := strings.CutPrefix(line, prefix); ok {
			number, _ := strconv.Atoi(n)
			return number
		}
	}
	return port
}

func (r *renumbered) assign(id string, port int) error {
	number, err := numbers.Take()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	line := fmt.Sprintf("%s/%d/%d\n", id, port, number)
	b, _ := os.ReadFile(r.file)
	if !bytes.Contains(b, []byte(fmt.Sprintf("%s/%d/", id, port))) {
		err = os.WriteFile(r.file, append(b, line...), 0o600)
	}
	return err
}

// numbers are ports that no other test takes.
var numbers = local.NewPorts()

func (r *renumbered) Start(ctx context.Context, s engine.Spec) error {
	if strings.Contains(fmt.Sprint(s.Launch.Members), "{{port:8080}}") {
		if err := r.assign(s.ID, 8080); err != nil {
			return err
		}
	}
	to := r.number(s.ID, 8080)
	replace := func(texts []string) []string {
		out := slices.Clone(texts)
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], "{{port:8080}}", strconv.Itoa(to))
		}
		return out
	}
	renumber := func(ports []int) []int {
		out := slices.Clone(ports)
		for i := range out {
			out[i] = r.number(s.ID, out[i])
		}
		return out
	}
	s.Launch.Members = slices.Clone(s.Launch.Members)
	for i, m := range s.Launch.Members {
		m.Args, m.Env = replace(m.Args), replace(m.Env)
		s.Launch.Members[i] = m
	}
	s.Ports, s.Launch.Health.Ports, s.Launch.Readiness.Ports = renumber(s.Ports), renumber(s.Launch.Health.Ports),
		renumber(s.Launch.Readiness.Ports)
	return r.Engine.Start(ctx, s)
}

func (r *renumbered) restore(in engine.Instance) engine.Instance {
	for i := range in.Ports {
		if in.Ports[i].Inside == r.number(in.ID, 8080) {
			in.Ports[i].Inside = 8080
		}
	}
	return in
}

func (r *renumbered) Get(ctx context.Context, id string) (engine.Instance, error) {
	in, err := r.Engine.Get(ctx, id)
	return r.restore(in), err
}

func (r *renumbered) List(ctx context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	list, err := r.Engine.List(ctx, wanted)
	for i := range list {
		list[i] = r.restore(list[i])
	}
	return list, err
}

func (r *renumbered) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && port == "8080" {
		address = net.JoinHostPort(host, strconv.Itoa(r.number(id, 8080)))
	}
	return r.Engine.Dial(ctx, id, network, address)
}
