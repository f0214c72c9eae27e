package controller

import (
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
	// one returns the instance of a process that accepts requests, and is another than was.
	one := func(process, was string) string {
		for _, b := range w.c.Backends("app", "web") {
			if b.ProcessGUID == process && b.InstanceGUID != was {
				return b.InstanceGUID
			}
		}
		return ""
	}
	w.await("the last old one is replaced and the second new one fails", func() bool {
		list, _ := w.fake.List(t.Context(), nil)
		return one(d.WebGUID, "") != "" && len(list) == 2 && w.deployment(d).Error != ""
	})
	for process, was := range map[string]string{d.WebGUID: one(d.WebGUID, ""), "app": before[0]} {
		version := w.fake.specOf(was).Labels[labelVersion]
		if err := w.restartInstance(process, 0); err != nil {
			t.Fatal(err)
		}
		w.await("it is there again", func() bool { return one(process, was) != "" })
		if now := w.fake.specOf(one(process, was)).Labels[labelVersion]; now != version {
			t.Errorf("an instance of %s was of version %s and is of %s", process, version, now)
		}
	}
	w.settled()
	if now := w.deployment(d); now.Status != platform.DeploymentActive || now.Reason != platform.ReasonDeploying {
		t.Errorf("deployment is %+v, want active and reason %s", now, platform.ReasonDeploying)
	}
	w.fake.set(func() { w.fake.refuse = nil })
	w.turn(d, w.platform.CancelDeployment)
	w.awaitReason(d, platform.ReasonCanceled)
	for _, id := range w.awaitRunning(2) {
		if version := w.fake.specOf(id).Labels[labelVersion]; version != "v1" {
			t.Errorf("%s is of version %s, want v1", id, version)
		}
	}
}
