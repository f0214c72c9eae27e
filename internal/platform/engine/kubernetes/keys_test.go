//go:build linux

package kubernetes_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
)

// TestKeys: a server that does not know of a rotation yet reaches the instances that
// another one has started with the new keys. Keys that no longer exist reach nothing.
func TestKeys(t *testing.T) {
	t.Parallel()
	c := kubetest.New(t, enginetest.InitPath())
	o := options(t, c)
	first := agent.Keys{Authority: o.Authority, Key: o.Key}
	o.Install = kubernetes.InstallName(o.Key)
	second, err := agent.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	var stored atomic.Pointer[[]agent.Keys]
	stored.Store(&[]agent.Keys{first})
	o.Reload = func(context.Context) ([]agent.Keys, error) {
		if all := *stored.Load(); len(all) > 0 {
			return all, nil
		}
		return nil, errors.New("the database is away")
	}
	one, two := open(t, o), open(t, o)
	start := func(e *kubernetes.Engine, id string) {
		t.Helper()
		if err := e.Start(t.Context(), specOf(id, "sleep 1000")); err != nil {
			t.Fatal(err)
		}
	}
	reaches := func(e *kubernetes.Engine, id string, want bool) {
		t.Helper()
		if _, err := e.Usage(t.Context(), id); (err == nil) != want {
			t.Errorf("instance %s: %v, want that it is reached: %v", id, err, want)
		}
	}
	start(one, "old")
	stored.Store(&[]agent.Keys{second, first})
	if err := one.Rekey(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	start(one, "new")
	for _, id := range []string{"old", "new"} {
		reaches(one, id, true)
		reaches(two, id, true)
	}
	start(two, "third") // it has read the keys
	used, err := two.KeysInUse(t.Context())
	if err != nil || len(used) != 2 || !used[first.ID()] || !used[second.ID()] {
		t.Errorf("in use are %v, %v, want both", used, err)
	}

	o.Authority, o.Key = second.Authority, second.Key
	stored.Store(&[]agent.Keys{second})
	three := open(t, o)
	reaches(three, "new", true)
	reaches(three, "third", true)
	reaches(three, "old", false)
	stored.Store(&[]agent.Keys{})
	if err := three.Rekey(t.Context(), 0); err == nil {
		t.Error("no error while the keys cannot be read")
	}
	reaches(three, "new", true)
	for _, id := range []string{"old", "new", "third"} {
		if err := two.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}
