//go:build linux

package choice

import (
	"context"
	"os"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
)

// TestKubernetes: the engine is remembered, holds instances back while the cluster does not
// work, and its Pods are stopped when another engine is chosen, but not by 'ingot down'.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	c, _ := newTestChooser(t)
	cluster := kubetest.New(t, testkit.Programs(t)+"/ingot-init")
	authority, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	o := kubernetes.Options{Config: kubernetes.DefaultConfig(), Authority: authority, Key: []byte("key"), Server: "test",
		Home: cluster.Home}
	o.Image, o.Kubeconfig, o.PlaceTimeout = "stack:test", cluster.Kubeconfig(t), time.Second
	c.kubernetes = func(context.Context) (kubernetes.Options, error) { return o, nil }

	e := openKind(t, c, pods, pods)
	runOne(t, e, "a")
	closeEngine(t, e)
	if r, err := c.recorded(); err != nil || r.Engine != pods {
		t.Errorf("recorded choice is %+v, %v, want %s", r, err, pods)
	}

	cluster.Set(kubetest.Faults{Unschedulable: "no room"})
	e = openKind(t, c, Auto, pods)
	if e.Describe().Held == "" {
		t.Error("instances are not held back")
	}
	if got := running(t, e); got != "a" {
		t.Errorf("%q run, want a", got)
	}
	cluster.Set(kubetest.Faults{})
	if recheck(t.Context(), e, c.log); e.Describe().Held != "" {
		t.Errorf("held is %q, want that it works again", e.Describe().Held)
	}
	closeEngine(t, e)

	down := *c
	down.kubernetes = nil
	for _, k := range down.kinds() {
		if n, err := k.stop(t.Context()); n != (Stopped{}) || err != nil {
			t.Errorf("%s: stopped %+v, %v, want none", k.name, n, err)
		}
	}
	e = openKind(t, c, processes, processes)
	closeEngine(t, e)
	if left := cluster.Pods(); len(left) > 0 {
		t.Errorf("%v are left, want none", left)
	}
	if _, err := os.Stat(c.process.Root); err != nil {
		t.Error(err)
	}
}
