//go:build linux

package system

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/agentkeys"
	"ingot/internal/platform/engine/kubernetes/kubetest"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/platformdb"
)

func sleeper(id string) engine.Spec {
	return engine.Spec{
		ID: id, Labels: map[string]string{"kind": "test"}, Limits: engine.Limits{Memory: 64 << 20, Disk: 64 << 20},
		Launch: initproto.Spec{Instance: id, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess},
			Members: []initproto.Member{{
				Name: "web", Source: "APP", Args: []string{"/bin/sleep", "1000"}, Env: []string{"PATH=/bin", "HOME={{home}}"},
				Dir: "{{home}}",
			}}},
	}
}

// TestRotateAgentKeys: after a rotation a server reaches old and new instances, and the
// old keys are deleted when the last old instance is gone. It begins with the keys of a
// version without rotation.
func TestRotateAgentKeys(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t, testkit.Programs(t)+"/ingot-init")
	c := testConfig(t)
	c.Engine, c.Kubernetes.Image, c.Kubernetes.Kubeconfig = "kubernetes", "stack:test", cluster.Kubeconfig(t)
	c.seams.kubernetes = func(o *kubernetes.Options) { o.Home = cluster.Home }
	var r *runtime
	c.seams.runtime = func(opened *runtime) { r, opened.keys.RetireAfter = opened, time.Nanosecond }
	var e *kubernetes.Engine
	c.seams.engine = func(opened engine.Engine) engine.Engine {
		e = opened.(*kubernetes.Engine)
		return engine.Watched(opened, 0, 0)
	}
	if err := RotateAgentKeys(t.Context(), c.DataDir, "", "", discard); err == nil ||
		!strings.Contains(err.Error(), "encryption keys") {
		t.Errorf("without a server: %v, want an error", err)
	}
	s := startSystem(t, c)
	stored := func() (a agentkeys.Stored) {
		t.Helper()
		a, err := agentkeys.Load(t.Context(), r.store)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := stored()
	old := agent.Keys{Key: first.Keys[0].Key}
	if err := e.Start(t.Context(), sleeper("old")); err != nil {
		t.Fatal(err)
	}
	if err := RotateAgentKeys(t.Context(), c.DataDir, "", "", discard); err != nil {
		t.Fatal(err)
	}
	r.keys.Check(t.Context())
	if err := e.Start(t.Context(), sleeper("new")); err != nil {
		t.Fatal(err)
	}
	fresh := agent.Keys{Key: stored().Keys[0].Key}
	for pod, want := range map[string]agent.Keys{"i-old": old, "i-new": fresh} {
		var o struct {
			Metadata struct{ Annotations, Labels map[string]string }
		}
		if err := json.Unmarshal(cluster.Object("pods", pod), &o); err != nil ||
			o.Metadata.Annotations["ingot.dev/keys"] != want.ID() {
			t.Errorf("%s has the keys %q, %v, want %s", pod, o.Metadata.Annotations["ingot.dev/keys"], err, want.ID())
		}
		if got := o.Metadata.Labels["ingot.dev/install"]; got != first.Install {
			t.Errorf("%s belongs to %s, want %s as before", pod, got, first.Install)
		}
	}
	reached := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, err := e.Usage(t.Context(), id); err != nil {
				t.Errorf("instance %s cannot be reached: %v", id, err)
			}
		}
	}
	reached("old", "new")

	// The next start of a server knows both.
	s.Stop()
	startSystem(t, c)
	reached("old", "new")
	r.keys.Check(t.Context())
	if got := len(stored().Keys); got != 2 {
		t.Errorf("%d keys while an old instance runs, want 2", got)
	}
	if err := e.Remove(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the old keys are deleted", func() bool {
		r.keys.Check(t.Context())
		return len(stored().Keys) == 1
	})
	if a := stored(); (agent.Keys{Key: a.Keys[0].Key}).ID() != fresh.ID() || a.Install != first.Install {
		t.Errorf("left are %s of %s, want %s of %s", agent.Keys{Key: a.Keys[0].Key}.ID(), a.Install, fresh.ID(),
			first.Install)
	}
	reached("new")
	if err := e.Remove(t.Context(), "new"); err != nil {
		t.Error(err)
	}
	for range agentkeys.Most - 1 {
		if err := RotateAgentKeys(t.Context(), c.DataDir, "", "", discard); err != nil {
			t.Fatal(err)
		}
	}
	if err := RotateAgentKeys(t.Context(), c.DataDir, "", "", discard); err == nil ||
		!strings.Contains(err.Error(), "restart those apps first") {
		t.Errorf("one rotation too many: %v, want a refusal", err)
	}
}

// TestAgentKeysOfAnEarlierVersion: its authority and key are taken over, and deleted with
// the rotation.
func TestAgentKeysOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	var store *platformdb.Store
	c.seams.runtime = func(r *runtime) { store = r.store }
	startSystem(t, c)
	k, err := agent.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string][]byte{"agent-authority": k.Authority.Bytes(), "install-key": k.Key} {
		if _, _, err := store.Secret(t.Context(), name, func() ([]byte, error) { return value, nil }); err != nil {
			t.Fatal(err)
		}
	}
	a, err := agentkeys.Load(t.Context(), store)
	if err != nil || len(a.Keys) != 1 || (agent.Keys{Key: a.Keys[0].Key}).ID() != k.ID() ||
		a.Install != kubernetes.InstallName(k.Key) {
		t.Errorf("got %+v, %v, want the keys of before", a, err)
	}
}
