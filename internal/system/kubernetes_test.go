//go:build linux

package system

import (
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
	"ingot/internal/platform/instance/initproto"
)

// TestKubernetes: a server with --engine kubernetes starts, and the next one on the same
// database has the authority and the key with which it reaches the instances.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t, testkit.Programs(t)+"/ingot-init")
	c := testConfig(t)
	c.Engine, c.Kubernetes.Image, c.Kubernetes.Kubeconfig = "kubernetes", "stack:test", cluster.Kubeconfig(t)
	c.seams.kubernetes = func(o *kubernetes.Options) { o.Home = cluster.Home }
	var e engine.Engine
	c.seams.engine = func(opened engine.Engine) engine.Engine {
		e = opened
		return engine.Watched(opened, 0, 0)
	}
	s := startSystem(t, c)
	if d := e.Describe(); d.Name != "kubernetes" || d.Held != "" {
		t.Fatalf("engine is %+v, want kubernetes", d)
	}
	err := e.Start(t.Context(), engine.Spec{
		ID: "a", Labels: map[string]string{"kind": "test"}, Limits: engine.Limits{Memory: 64 << 20, Disk: 64 << 20},
		Launch: initproto.Spec{Instance: "a", LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess},
			Members: []initproto.Member{{
				Name: "web", Source: "APP", Args: []string{"/bin/sleep", "1000"}, Env: []string{"PATH=/bin", "HOME={{home}}"},
				Dir: "{{home}}",
			}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	startSystem(t, c)
	deadline := time.Now().Add(time.Minute)
	for {
		in, err := e.Get(t.Context(), "a")
		if err == nil && in.Running && in.State.Phase == initproto.Running {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the instance is %+v, %v, want it running", in, err)
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := e.Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	// The trial of the second start may still run.
	testkit.Eventually(t, "no Pods are left", func() bool { return len(cluster.Pods()) == 0 })
}
