package controller

import (
	"slices"
	"sync"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// TestRollingRestart restarts instances in the middle of a deployment: where the
// new version is, it stays, and where only the old one works, that comes again.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.begin()
	before := w.awaitRunning(2)
	w.fake.set(func() {
		w.fake.refuse = func(s engine.Spec) error {
			if s.Labels[labelIndex] == "1" {
				return refuseNew(s)
			}
			return nil
		}
	})
	d := w.deploy(nil)
	replaced := func(index int, than string) (string, bool) {
		for _, b := range w.c.Backends("app", "web") {
			if b.Index == index && b.InstanceGUID != than {
				return b.InstanceGUID, true
			}
		}
		return "", false
	}
	versionOf := func(id string) string { return w.fake.specOf(id).Labels[labelVersion] }
	w.await("the first one is replaced and the second fails", func() bool {
		_, ok := replaced(0, before[0])
		list, _ := w.fake.List(t.Context())
		return ok && len(list) == 2 && w.deployment(d).Error != ""
	})
	fresh, _ := replaced(0, "")
	var mu sync.Mutex
	var again []string
	w.fake.set(func() {
		refuse := w.fake.refuse
		w.fake.refuse = func(s engine.Spec) error {
			mu.Lock()
			defer mu.Unlock()
			if s.Labels[labelIndex] == "0" {
				again = append(again, s.Labels[labelVersion])
			}
			return refuse(s)
		}
	})
	for index, was := range []string{fresh, before[1]} {
		version := versionOf(was)
		if err := w.restartInstance(index); err != nil {
			t.Fatal(err)
		}
		w.await("it is there again", func() bool { _, ok := replaced(index, was); return ok })
		if id, _ := replaced(index, was); versionOf(id) != version {
			t.Errorf("instance %d was of version %s and is of %s", index, version, versionOf(id))
		}
	}
	w.settled()
	mu.Lock()
	if !slices.Equal(again, []string{w.process.Version}) {
		t.Errorf("%q were started in the first place, want %s", again, w.process.Version)
	}
	mu.Unlock()
	if now := w.deployment(d); now.Status != platform.DeploymentActive || now.Reason != platform.ReasonDeploying {
		t.Errorf("deployment is %+v, want active and reason %s", now, platform.ReasonDeploying)
	}
	w.fake.set(func() { w.fake.refuse = nil })
	w.turn(d, w.platform.CancelDeployment)
	w.awaitReason(d, platform.ReasonCanceled)
	for _, id := range w.awaitRunning(2) {
		if versionOf(id) != "v1" {
			t.Errorf("%s is of version %s", id, versionOf(id))
		}
	}
}
