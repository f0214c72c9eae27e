//go:build linux

package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
)

// TestProtect: processes with several instances have a budget, which follows their number.
func TestProtect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	budget := func(process string) (n float64, found bool) {
		b := w.cluster.Object("poddisruptionbudgets", "p-"+process)
		var o struct {
			Spec struct {
				MinAvailable float64 `json:"minAvailable"`
			} `json:"spec"`
		}
		if b != nil && json.Unmarshal(b, &o) != nil {
			t.Fatalf("budget %s", b)
		}
		return o.Spec.MinAvailable, b != nil
	}
	for _, step := range []struct {
		wanted map[string]int
		one    float64
		has    bool
	}{
		{map[string]int{"one": 3, "two": 1}, 2, true},
		{map[string]int{"one": 5}, 4, true},
		{map[string]int{"one": 5}, 4, true},
		{map[string]int{"one": 1}, 0, false},
	} {
		if err := w.engine.Protect(w.within(), step.wanted); err != nil {
			t.Fatal(err)
		}
		if n, has := budget("one"); n != step.one || has != step.has {
			t.Errorf("%v: the budget is %v (%t), want %v (%t)", step.wanted, n, has, step.one, step.has)
		}
		if _, has := budget("two"); has {
			t.Error("a single instance has a budget, which would block drains")
		}
	}
}

// TestRole: the engine needs exactly the permissions of its Role.
func TestRole(t *testing.T) {
	t.Parallel()
	c := kubetest.New(t, enginetest.InitPath())
	var permitted, expected []string
	for _, p := range kubernetes.Role() {
		for _, verb := range p.Verbs {
			// for operators who look at them
			if !((p.Resource == "networkpolicies" || p.Resource == "poddisruptionbudgets") && verb == "get") {
				expected = append(expected, verb+" "+p.Resource)
			}
			if p.Names == nil {
				permitted = append(permitted, verb+" "+p.Resource)
			}
			for _, name := range p.Names {
				permitted = append(permitted, verb+" "+p.Resource+"/"+name)
			}
		}
	}
	c.SetRole(permitted)
	e, err := kubernetes.Open(t.Context(), options(t, c))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, cluster: c, engine: e}
	t.Cleanup(func() { _ = e.Close() })
	s := w.start("a")
	c.KillInit("i-a")
	w.end(s)
	if err := e.Start(w.within(), specOf("a", "true")); err != nil {
		t.Errorf("Start again: %v", err)
	}
	for _, n := range []int{2, 3, 1} {
		if err := e.Protect(w.within(), map[string]int{"one": n}); err != nil {
			t.Error(err)
		}
	}
	for _, destination := range []string{"10.0.0.1", "10.0.0.2", ""} {
		if err := e.Enforce(w.within(), groupFor(destination)); err != nil {
			t.Error(err)
		}
	}
	if err := e.Start(w.within(), imageSpec("b", "sleep 1000")); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"a", "b"} {
		if err := e.Remove(w.within(), id); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(expected)
	if got := c.Calls(); !slices.Equal(got, expected) {
		t.Errorf("used are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
}

// TestOpen: what does not work in a cluster is named, with what to do.
func TestOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*kubetest.Cluster, *kubernetes.Options)
		want    []string
	}{
		"works": {func(*kubetest.Cluster, *kubernetes.Options) {}, nil},
		"away": {func(c *kubetest.Cluster, _ *kubernetes.Options) { c.Set(kubetest.Faults{Away: true}) },
			[]string{"read the ConfigMap"}},
		"role": {func(c *kubetest.Cluster, _ *kubernetes.Options) { c.SetRole([]string{"get configmaps", "list pods"}) },
			[]string{"cannot", "the Role of the chart"}},
		"config": {func(c *kubetest.Cluster, _ *kubernetes.Options) { c.SetRole(nil) },
			[]string{"read the ConfigMap ingot-install", "the Role of the chart"}},
		"image": {func(c *kubetest.Cluster, _ *kubernetes.Options) { c.Set(kubetest.Faults{ImageError: "denied"}) },
			[]string{"pull the image", "denied", "--kubernetes-image"}},
		"room": {func(c *kubetest.Cluster, _ *kubernetes.Options) {
			c.Set(kubetest.Faults{Unschedulable: "0/2 nodes are available"})
		}, []string{
			"find a node", "0/2 nodes are available", "ResourceQuota",
		}},
		"security": {func(c *kubetest.Cluster, _ *kubernetes.Options) {
			c.Set(kubetest.Faults{Refuse: func([]byte) string { return `violates PodSecurity "restricted"` }})
		}, []string{"create a Pod", "PodSecurity", "restricted"}},
		"user namespaces": {func(_ *kubetest.Cluster,
			o *kubernetes.Options) {
			o.UserNamespaces = kubernetes.UserNamespacesOn
		}, []string{"user namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kubetest.New(t, enginetest.InitPath())
			o := options(t, cluster)
			c.prepare(cluster, &o)
			e, err := kubernetes.Open(t.Context(), o)
			if err == nil {
				t.Cleanup(func() { _ = e.Close() })
			}
			if (err == nil) != (c.want == nil) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if left := cluster.Pods(); len(left) > 0 {
				t.Errorf("%v is left, want nothing", left)
			}
		})
	}
}

// TestReopen: a cluster that was used before and does not work holds instances back, and
// Check starts them again.
func TestReopen(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t, enginetest.InitPath())
	cluster.Set(kubetest.Faults{Unschedulable: "no room"})
	e, err := kubernetes.Reopen(t.Context(), options(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	w := &world{T: t, cluster: cluster, engine: e}
	var refused *engine.PlacementError
	if err := e.Start(w.within(), specOf("a", "true")); !errors.As(err, &refused) || e.Describe().Held == "" {
		t.Errorf("got %v and held %q, want that it is held back", err, e.Describe().Held)
	}
	cluster.Set(kubetest.Faults{})
	if err := e.Check(w.within()); err != nil || e.Describe().Held != "" {
		t.Errorf("got %v and held %q, want that it works", err, e.Describe().Held)
	}
	w.start("a")
}

// TestStartWhileReopening: a build or a task that begins while a server starts waits for the
// trial Pod.
func TestStartWhileReopening(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t, enginetest.InitPath())
	e, err := kubernetes.Reopen(t.Context(), options(t, cluster))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	w := &world{T: t, cluster: cluster, engine: e}
	w.start("a")
}

var update = flag.Bool("update", false, "write the Pods of testdata anew")

// TestPod: a Pod contains nothing of the app but guids, and no permission.
func TestPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := specOf("a", `echo ready; sleep 1000`)
	s.Ports = []int{8080}
	if err := w.engine.Start(w.within(), s); err != nil {
		t.Fatal(err)
	}
	pod := w.cluster.Object("pods", "i-a")
	for _, secret := range []string{"of the app", "sleep 1000", "SECRET"} {
		if bytes.Contains(pod, []byte(secret)) {
			t.Errorf("the Pod contains %q:\n%s", secret, pod)
		}
	}
	for _, want := range []string{
		`"automountServiceAccountToken":false`, `"runAsNonRoot":true`, `"readOnlyRootFilesystem":true`, `"drop":["ALL"]`, `"restartPolicy":"Never"`,
		`"ingot.dev/process":"shop-web"`, `"name":"p8080"`, `"uid":"0d6ce0f4-7f3f-4c52-8a3e-3c6b7f0a5e11"`, `"memory":"64Mi"`, `"ephemeral-storage":"160Mi"`,
	} {
		if !bytes.Contains(pod, []byte(want)) {
			t.Errorf("the Pod has no %s:\n%s", want, pod)
		}
	}
	s.ID, s.Ports = "b", []int{61001}
	if err := w.engine.Start(w.within(), s); err == nil || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("port 61001: got %v, want that it is reserved", err)
	}
	golden(t, "pod.json", pod)
}

// golden compares a Pod with a file of testdata, which another module checks against
// Kubernetes' own types and Pod Security Standards. What differs in each run is replaced.
func golden(t *testing.T, name string, pod []byte) {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(pod, &o); err != nil {
		t.Fatal(err)
	}
	delete(o, "status")
	for _, key := range []string{"uid", "resourceVersion", "creationTimestamp"} {
		delete(o["metadata"].(map[string]any), key)
	}
	spec := o["spec"].(map[string]any)
	delete(spec, "nodeName")
	for _, v := range spec["containers"].([]any)[0].(map[string]any)["env"].([]any) {
		if v := v.(map[string]any); v["name"] == "INGOT_SEED" || v["name"] == "INGOT_CA" {
			v["value"] = "base64"
		}
	}
	got, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the Pod is\n%s\nand not %s (%v); -update writes it anew", got, file, err)
	}
}
