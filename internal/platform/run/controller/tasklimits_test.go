package controller

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/instance/initproto"
)

// neighbour stores an app of another organization, and a task of it that waits.
func (w *world) neighbour() string {
	w.Helper()
	task := &platform.Task{AppGUID: "other", Sequence: 1, Name: "job", Command: "work", DropletGUID: "other",
		State: platform.TaskPending, MemoryMB: 64, DiskMB: 64, LogRate: -1}
	w.droplets.of["other"] = tarOf(nil)
	w.update(func(tx platform.Tx) error {
		id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
		return errors.Join(
			tx.Organizations().Insert(&platform.Organization{Resource: id("other"), Name: "other"}),
			tx.Spaces().Insert(&platform.Space{Resource: id("other"), Name: "other", OrgGUID: "other"}),
			tx.Apps().Insert(&platform.App{Resource: id("other"), Name: "other", SpaceGUID: "other", DropletGUID: "other"}),
			tx.Droplets().Insert(&platform.Droplet{Resource: id("other"), AppGUID: "other", State: platform.DropletStaged}),
			tx.Tasks().Insert(task),
		)
	})
	return task.GUID
}

// begun reports whether a task has a job after the next look.
func (t *Tasks) begun(guid string) bool {
	looked := t.afterLook()
	t.Kick()
	<-looked
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.jobs[guid] != nil
}

// An organization cannot use the whole limit: what waits of it is passed over, also
// by the next server, and has its turn when one of its own is over.
func TestTasksOfAnOrganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	small := func(c *Config) { c.Tasks = 4 }
	var own []string
	for range 5 {
		own = append(own, w.task(nil, platform.Task{}))
	}
	other := w.neighbour() // behind them
	tasks := w.beginTasks(small)
	await := func(states ...platform.TaskState) {
		t.Helper()
		for i, state := range states {
			w.awaitState(tasks, own[i], state)
		}
		w.awaitState(tasks, other, platform.TaskRunning)
	}
	await(platform.TaskRunning, platform.TaskRunning, platform.TaskRunning)
	if tasks.begun(own[3]) {
		t.Error("the fourth was begun")
	}
	tasks.Stop()
	tasks = w.beginTasks(small)
	if tasks.begun(own[3]) {
		t.Error("the fourth was begun by the next server")
	}
	w.fake.finishTask(own[0], 0)
	await(platform.TaskSucceeded, platform.TaskRunning, platform.TaskRunning, platform.TaskRunning, platform.TaskPending)
}

// The next server counts what runs before it begins what waits, although that
// was there before.
func TestTasksThatRunAreCountedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	first, second := w.task(nil, platform.Task{}), w.task(nil, platform.Task{})
	tasks := w.beginTasks(func(c *Config) { c.Tasks = 1 })
	w.awaitState(tasks, first, platform.TaskRunning)
	tasks.Stop()
	// The younger one runs now, and the older one waits.
	w.update(func(tx platform.Tx) error {
		row, err := tx.Tasks().Get(first)
		if err != nil {
			return err
		}
		row.Created = w.taskRow(second).Created.Add(time.Hour)
		return tx.Tasks().Update(row)
	})
	tasks = w.beginTasks(func(c *Config) { c.Tasks = 1 })
	if tasks.begun(second) {
		t.Error("two run at a time, want one")
	}
}

// A command that cannot be decrypted is the trouble of one task.
func TestTaskCommandIsReadWhenItBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	broken, whole := w.task(nil, platform.Task{}), w.task(nil, platform.Task{})
	err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE platform_tasks SET command = ? WHERE guid = ?", "not sealed", broken)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tasks := w.beginTasks()
	w.awaitTask(tasks, "started", func() bool { return w.fake.has(whole) })
	w.awaitState(tasks, whole, platform.TaskRunning)
}

// What does not go is removed in the end, although that fails at first.
func TestStubbornTaskIsRemovedAtLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual, w.fake.stubborn = true, true
	tries := 0
	w.fake.noRemove = func() error {
		if tries++; tries <= 2 {
			return errors.New("busy")
		}
		return nil
	}
	tasks := w.beginTasks()
	guid := w.task(tasks, platform.Task{})
	w.awaitState(tasks, guid, platform.TaskRunning)
	w.cancelTask(tasks, guid)
	w.awaitTask(tasks, "ended", func() bool {
		w.clock.Advance(tasks.Grace + stopSlack)
		return w.taskRow(guid).State == platform.TaskFailed
	})
	if row := w.taskRow(guid); row.Reason != reasonCancelled {
		t.Errorf("the reason is %q", row.Reason)
	}
	w.awaitIdle(tasks)
	if w.fake.has(guid) {
		t.Error("its instance is still there")
	}
}

// An engine that does not answer at once is asked again how a task ended.
func TestTaskEndIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	tasks := w.beginTasks()
	guid := w.task(tasks, platform.Task{})
	w.awaitState(tasks, guid, platform.TaskRunning)
	tries := 0
	w.fake.set(func() {
		w.fake.noGet = func() error {
			if tries++; tries <= 2 {
				return errors.New("busy")
			}
			return nil
		}
	})
	// Its last record does not say how it ended.
	w.fake.do(guid, func(in *fakeInstance) {
		in.Running, in.State.Exit = false, &initproto.Exit{}
		in.changed()
	})
	w.awaitTask(tasks, "over", func() bool { return w.taskRow(guid).State.Over() })
	if row := w.taskRow(guid); row.State != platform.TaskSucceeded {
		t.Errorf("it is %s: %s", row.State, row.Reason)
	}
}

// askedContext tells when something begins to wait for it.
type askedContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *askedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

// The time that the engine has begins when it is the task's turn.
func TestTaskWaitsForItsTurnWithoutLosingTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var deadline time.Time
	w.fake.onStart = func(ctx context.Context) { deadline, _ = ctx.Deadline() }
	guid := w.task(nil, platform.Task{})
	tasks := NewTasks(w.config())
	for range cap(tasks.starts) {
		tasks.starts <- struct{}{} // others
	}
	ctx := &askedContext{Context: t.Context(), asked: make(chan struct{})}
	j := &job{Tasks: tasks, guid: guid, unwanted: make(chan struct{}), moved: make(chan struct{})}
	done := make(chan error, 1)
	row := w.taskRow(guid)
	go func() {
		reason, err := j.start(ctx, row)
		if reason != "" {
			err = errors.New(reason)
		}
		done <- err
	}()
	<-ctx.asked
	turn := time.Now()
	<-tasks.starts
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if left := deadline.Sub(turn); left < startLimit {
		t.Errorf("the engine had %v, want %v", left, startLimit)
	}
}
