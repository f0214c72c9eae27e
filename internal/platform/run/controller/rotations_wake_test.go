package controller

import (
	"context"
	"testing"
	"time"

	"ingot/internal/platform"
)

// waitsFor stores a rotation that waits for an instance or task of the app, with its job.
func (w *world) waitsFor(guid string) (job *platform.Job) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		row := &platform.CredentialRotation{AppGUID: "app", SpaceGUID: "space", State: platform.RotationApplying,
			Method: platform.ByNothing, Waits: []string{guid}}
		if err := tx.CredentialRotations().Insert(row); err != nil {
			return err
		}
		job = &platform.Job{Operation: "service_bindings.revoke", State: platform.JobProcessing,
			ResourceType: "credential_rotation", ResourceGUID: row.GUID, Due: noon.Add(24 * time.Hour)}
		return tx.Jobs().Insert(job)
	})
	return job
}

func (w *world) isDue(job *platform.Job) bool {
	w.Helper()
	var now *platform.Job
	err := w.store.View(context.Background(), func(tx platform.Tx) (err error) {
		now, err = tx.Jobs().Get(job.GUID)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return now.Due.IsZero()
}

// TestStoppedInstancesWakeRotations stops an instance, has another one crash until it waits, and
// a task end: the rotations that wait for them go on, and no others.
func TestStoppedInstancesWakeRotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.begin()
	w.awaitRunning(2)
	byID := map[int]string{}
	for _, row := range w.rows() {
		byID[row.Index] = row.GUID
	}
	first, second, other := w.waitsFor(byID[0]), w.waitsFor(byID[1]), w.waitsFor("of another time")
	w.scale(1)
	w.await("the rotation of the stopped instance goes on", func() bool { return w.isDue(second) })
	if w.isDue(first) {
		t.Error("a rotation goes on although its instance runs")
	}
	w.fake.crash(byID[0], 1)
	w.await("the rotation of the crashed instance goes on", func() bool { return w.isDue(first) })
	replaced := func(crashes int) string {
		w.await("the crashed instance is replaced", func() bool {
			r := w.rows()
			return len(r) == 1 &&
				r[0].Crashes == crashes
		})
		return w.awaitRunning(1)[0]
	}
	w.fake.crash(replaced(1), 1)
	w.fake.crash(replaced(2), 1)
	last := replaced(3) // the next one is not replaced at once
	crashed := w.waitsFor(last)
	w.fake.crash(last, 1)
	w.await("it is not replaced", func() bool { return w.states() == "0CRASHED" })
	if now := w.rows()[0].GUID; now != last || !w.isDue(crashed) {
		t.Errorf("the instance that crashed is %s, its row %s; the rotation that waits for it is due: %t", last, now,
			w.isDue(crashed))
	}

	tasks := w.beginTasks()
	task := w.task(tasks, platform.Task{})
	w.awaitState(tasks, task, platform.TaskRunning)
	third := w.waitsFor(task)
	w.fake.finishTask(task, 0)
	w.awaitState(tasks, task, platform.TaskSucceeded)
	if !w.isDue(third) || w.isDue(other) {
		t.Errorf("after the task: its rotation is due: %t; another is due: %t", w.isDue(third), w.isDue(other))
	}
}
