package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// beginTasks starts what runs tasks, after the one before was stopped.
func (w *world) beginTasks(change ...func(*Config)) *Tasks {
	w.Helper()
	c := w.config()
	for _, f := range change {
		f(&c)
	}
	t := NewTasks(c)
	w.Cleanup(t.Stop)
	if err := t.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	return t
}

// task stores one as the API does, and kicks.
func (w *world) task(t *Tasks, task platform.Task) string {
	w.Helper()
	if task.Name == "" {
		task.Name = "job"
	}
	if task.Command == "" {
		task.Command = "work"
	}
	task.MemoryMB, task.DiskMB, task.LogRate = 256, 512, -1
	w.update(func(tx platform.Tx) error {
		task.Resource = platform.Resource{}
		app, err := tx.Apps().Get("app")
		if err != nil {
			return err
		}
		return w.platform.CreateTask(tx, actions.Actor{GUID: "u", Type: "user", Name: "u"}, app, &task)
	})
	if t != nil {
		t.Kick()
	}
	return task.GUID
}

func (w *world) taskRow(guid string) *platform.Task {
	w.Helper()
	var row *platform.Task
	err := w.store.View(context.Background(), func(tx platform.Tx) (err error) {
		row, err = tx.Tasks().Get(guid)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return row
}

func (w *world) cancelTask(t *Tasks, guid string) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		app, err := tx.Apps().Get("app")
		if err != nil {
			return err
		}
		task, err := tx.Tasks().Get(guid)
		if err != nil {
			return err
		}
		return w.platform.CancelTask(tx, actions.Actor{}, app, task)
	})
	t.Kick()
}

// awaitTask waits until something is so about tasks.
func (w *world) awaitTask(t *Tasks, what string, so func() bool) {
	w.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		looked := t.afterLook()
		if so() {
			return
		}
		select {
		case <-looked:
		case <-tick.C:
		case <-deadline.C:
			w.Fatalf("never: %s", what)
		}
	}
}

// awaitState waits for a state, and returns the row.
func (w *world) awaitState(t *Tasks, guid string, state platform.TaskState) *platform.Task {
	w.Helper()
	var row *platform.Task
	w.awaitTask(t, string(state), func() bool {
		row = w.taskRow(guid)
		return row.State == state
	})
	return row
}

// awaitIdle waits until no job is left.
func (w *world) awaitIdle(t *Tasks) {
	w.Helper()
	w.awaitTask(t, "idle", func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return len(t.jobs) == 0
	})
}

// finishTask has the instance of a task end by itself.
func (e *fakeEngine) finishTask(guid string, status int) {
	e.t.Helper()
	e.do(guid, func(in *fakeInstance) {
		reason := ""
		if status != 0 {
			reason = fmt.Sprintf("%s: Exited with status %d", in.spec.Launch.Members[0].Source, status)
		}
		in.event(initproto.EventBody{Event: initproto.EventExited, Status: status})
		in.event(initproto.EventBody{Event: initproto.EventEnded, Status: status, Reason: reason})
	})
}

func (e *fakeEngine) has(id string) bool {
	_, err := e.Get(context.Background(), id)
	return err == nil
}

func TestTaskSucceeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	tasks := w.beginTasks()
	guid := w.task(tasks, platform.Task{Name: "migrate", Command: "echo {{home}}"})
	w.awaitState(tasks, guid, platform.TaskRunning)
	spec := w.fake.specOf(guid)
	w.fake.write(guid, "one", "two")
	w.fake.finishTask(guid, 0)
	row := w.awaitState(tasks, guid, platform.TaskSucceeded)
	if row.Reason != "" {
		t.Errorf("the reason of a success is %q", row.Reason)
	}
	// All lines are there before the result is.
	if got := w.logs.of(""); !slices.Equal(got, []string{"APP/TASK/migrate/0 one", "APP/TASK/migrate/0 two"}) {
		t.Errorf("the log has %q", got)
	}
	w.awaitIdle(tasks)
	if w.fake.has(guid) {
		t.Error("its instance is still there")
	}

	if len(spec.Launch.Members) != 1 || len(spec.Ports) > 0 || !spec.Launch.OneOff ||
		spec.Launch.Health.Kind != initproto.CheckNone {
		t.Errorf("the instance is %+v", spec)
	}
	if spec.Limits.Memory != 256<<20 || spec.Limits.Disk != 512<<20 {
		t.Errorf("the limits are %+v", spec.Limits)
	}
	member := spec.Launch.Members[0]
	if command := member.Args[len(member.Args)-1]; command != engine.Escape("echo {{home}}") {
		t.Errorf("the command is %q", command)
	}
	env := strings.Join(member.Env, "\n") + "\n"
	for _, want := range []string{"COLOUR=green\n", "MEMORY_LIMIT=256m\n", "CF_INSTANCE_GUID=" + guid + "\n",
		"HOME={{home}}/app\n", "VCAP_SERVICES={}\n",
		"CF_INSTANCE_IP={{host}}\n", "CF_INSTANCE_INTERNAL_IP={{ip}}\n", "CF_INSTANCE_ADDR=\n", "CF_INSTANCE_PORT=\n",
		"CF_INSTANCE_PORTS=[]\n", `"mem":256`, `"disk":512`, `"application_name":"shop"`} {
		if !strings.Contains(env, want) {
			t.Errorf("the environment lacks %q:\n%s", want, env)
		}
	}
	if strings.Contains(env, "\nPORT=") || strings.Contains(env, "VCAP_APP_PORT=") {
		t.Errorf("a task has no port:\n%s", env)
	}
}

func TestTaskFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		status     int // of the command, if it comes to that
		before     func(w *world)
		vanish     bool
	}{
		{name: "Status", status: 3, want: "APP/TASK/job: Exited with status 3"},
		{
			name: "ChildOutOfMemory", status: 1, want: "APP/TASK/job: Exited with status 1 (out of memory)",
			before: func(w *world) { w.fake.usage = func(string) *engine.Usage { return &engine.Usage{OOMKills: 1} } },
		},
		{name: "Vanished", vanish: true, want: reasonVanished},
		{
			name: "Refused", want: "too large for this machine",
			before: func(w *world) {
				w.fake.refuse = func(engine.Spec) error { return fault.New(fault.Unprocessable, "too large for this machine") }
			},
		},
		{
			name: "Broken", want: "the instance could not be started: the platform's log says why",
			before: func(w *world) { w.fake.refuse = func(engine.Spec) error { return errors.New("secret detail") } },
		},
		{
			name: "NoDroplet", want: "the droplet of this task no longer exists: push or restage the app and run the task again",
			before: func(w *world) { w.update(func(tx platform.Tx) error { return tx.Droplets().Delete("droplet") }) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			w.fake.manual = true
			guid := w.task(nil, platform.Task{})
			if test.before != nil {
				test.before(w)
			}
			tasks := w.beginTasks()
			if test.status != 0 || test.vanish {
				w.awaitState(tasks, guid, platform.TaskRunning)
			}
			if test.status != 0 {
				w.fake.finishTask(guid, test.status)
			}
			if test.vanish {
				if err := w.fake.Remove(t.Context(), guid); err != nil {
					t.Fatal(err)
				}
			}
			if row := w.awaitState(tasks, guid, platform.TaskFailed); row.Reason != test.want {
				t.Errorf("the reason is %q, want %q", row.Reason, test.want)
			}
			w.awaitIdle(tasks)
			if w.fake.has(guid) {
				t.Error("its instance is still there")
			}
		})
	}
}

func TestTaskIsCancelled(t *testing.T) {
	t.Parallel()
	t.Run("Running", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		w.cancelTask(tasks, guid)
		if row := w.awaitState(tasks, guid, platform.TaskFailed); row.Reason != reasonCancelled {
			t.Errorf("the reason is %q", row.Reason)
		}
		w.awaitIdle(tasks)
		if w.fake.called("signal "+guid) != 1 || w.fake.has(guid) {
			t.Errorf("calls: %v", w.fake.calls)
		}
	})
	t.Run("Stubborn", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual, w.fake.stubborn = true, true
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		w.cancelTask(tasks, guid)
		w.awaitTask(tasks, "signalled", func() bool { return w.fake.called("signal") > 0 })
		w.awaitTask(tasks, "ended", func() bool {
			w.clock.Advance(tasks.Grace + stopSlack)
			return w.taskRow(guid).State == platform.TaskFailed
		})
		if row := w.taskRow(guid); row.Reason != reasonCancelled {
			t.Errorf("the reason is %q", row.Reason)
		}
	})
	t.Run("WhileItStarts", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.hold = make(chan struct{})
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitTask(tasks, "starting", func() bool { return len(tasks.starts) == 1 })
		w.cancelTask(tasks, guid)
		if row := w.awaitState(tasks, guid, platform.TaskFailed); row.Reason != reasonCancelled {
			t.Errorf("the reason is %q", row.Reason)
		}
	})
	t.Run("DoneBefore", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		tasks.Stop()
		w.fake.finishTask(guid, 0)
		tasks = NewTasks(w.config())
		w.cancelTask(tasks, guid)
		w.Cleanup(tasks.Stop)
		if err := tasks.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.awaitState(tasks, guid, platform.TaskSucceeded)
	})
}

// What waits has its turn in order of creation, and can be cancelled.
func TestTasksWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	tasks := w.beginTasks(func(c *Config) { c.Tasks = 3 }) // of which an organization may hold two
	var all []string
	for range 5 {
		all = append(all, w.task(tasks, platform.Task{}))
	}
	states := func() string {
		var s []string
		for _, guid := range all {
			s = append(s, string(w.taskRow(guid).State)[:1])
		}
		return strings.Join(s, "")
	}
	await := func(want string) {
		t.Helper()
		w.awaitTask(tasks, want, func() bool { return states() == want })
	}
	await("RRPPP")
	w.cancelTask(tasks, all[2])
	await("RRFPP")
	w.fake.finishTask(all[1], 0)
	await("RSFRP")
	w.fake.finishTask(all[0], 0)
	await("SSFRR")
}

// Tasks end with their app, but not when it stops.
func TestTasksAndTheirApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.fake.manual = true
	w.begin()
	tasks := w.beginTasks()
	guid := w.task(tasks, platform.Task{})
	w.awaitState(tasks, guid, platform.TaskRunning)
	w.setState(platform.AppStopped)
	if err := w.c.Reconcile(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	if row := w.taskRow(guid); row.State != platform.TaskRunning || !w.fake.has(guid) {
		t.Errorf("the task is %s after its app stopped", row.State)
	}
	w.update(func(tx platform.Tx) error {
		app, err := tx.Apps().Get("app")
		if err != nil {
			return err
		}
		return w.platform.DeleteApp(tx, actions.Actor{}, app)
	})
	tasks.Kick()
	w.awaitTask(tasks, "removed", func() bool { return !w.fake.has(guid) })
	if w.fake.called("signal "+guid) != 1 {
		t.Errorf("it was not told to go: %v", w.fake.calls)
	}
}

// Whenever a server dies, the next one goes on: nothing is run twice, no line is
// lost or there twice, and the end is written once.
func TestTasksAreAdopted(t *testing.T) {
	t.Parallel()
	t.Run("BeforeItStarted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual, w.fake.hold = true, make(chan struct{})
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitTask(tasks, "starting", func() bool { return len(tasks.starts) == 1 })
		tasks.Stop()
		if row := w.taskRow(guid); row.State != platform.TaskPending {
			t.Fatalf("it is %s", row.State)
		}
		w.fake.set(func() { w.fake.hold = nil })
		tasks = w.beginTasks()
		w.awaitState(tasks, guid, platform.TaskRunning)
		w.fake.finishTask(guid, 0)
		w.awaitState(tasks, guid, platform.TaskSucceeded)
	})
	t.Run("BeforeItRan", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		guid := w.task(nil, platform.Task{})
		if err := w.fake.Start(t.Context(),
			engine.Spec{ID: guid, Labels: map[string]string{labelKind: kindTask}}); err != nil {
			t.Fatal(err)
		}
		w.fake.do(guid, func(in *fakeInstance) { in.Running = false })
		tasks := w.beginTasks()
		w.awaitState(tasks, guid, platform.TaskRunning)
		w.fake.finishTask(guid, 0)
		w.awaitState(tasks, guid, platform.TaskSucceeded)
		if n := w.fake.called("start"); n != 2 {
			t.Errorf("started %d times", n)
		}
	})
	t.Run("BeforeItWasSaid", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		tasks := w.beginTasks()
		w.store.set(errors.New("the disk is gone"))
		guid := w.task(tasks, platform.Task{})
		w.awaitTask(tasks, "started", func() bool { return w.fake.has(guid) })
		tasks.Stop()
		w.fake.write(guid, "one")
		w.fake.finishTask(guid, 0)
		w.store.set(nil)
		if row := w.taskRow(guid); row.State != platform.TaskPending {
			t.Fatalf("it is %s", row.State)
		}
		tasks = w.beginTasks()
		w.awaitState(tasks, guid, platform.TaskSucceeded)
		if n := w.fake.called("start"); n != 1 {
			t.Errorf("started %d times", n)
		}
		if got := w.logs.of("APP/TASK/job"); !slices.Equal(got, []string{"one"}) {
			t.Errorf("the log has %q", got)
		}
	})
	t.Run("WhileItRan", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		w.fake.write(guid, "one")
		w.awaitTask(tasks, "a line", func() bool { return len(w.logs.of("APP/TASK/job")) == 1 })
		tasks.Stop()
		w.fake.write(guid, "two")
		tasks = w.beginTasks()
		w.fake.write(guid, "three")
		w.awaitTask(tasks, "lines", func() bool { return len(w.logs.of("APP/TASK/job")) == 3 })
		tasks.Stop()
		w.fake.finishTask(guid, 4)
		tasks = w.beginTasks()
		w.awaitState(tasks, guid, platform.TaskFailed)
		if got := w.logs.of("APP/TASK/job"); !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("the log has %q", got)
		}
		if n := w.fake.called("start"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
	t.Run("WhileItWasCancelled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		tasks.Stop()
		w.cancelTask(tasks, guid)
		tasks = w.beginTasks()
		if row := w.awaitState(tasks, guid, platform.TaskFailed); row.Reason != reasonCancelled {
			t.Errorf("the reason is %q", row.Reason)
		}
	})
	t.Run("BeforeTheEndWasSaid", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		w.store.set(errors.New("the disk is gone"))
		w.fake.write(guid, "one")
		w.fake.finishTask(guid, 0)
		w.awaitTask(tasks, "a line", func() bool { return len(w.logs.of("APP/TASK/job")) == 1 })
		tasks.Stop()
		w.store.set(nil)
		tasks = w.beginTasks()
		w.awaitState(tasks, guid, platform.TaskSucceeded)
		if got := w.logs.of("APP/TASK/job"); !slices.Equal(got, []string{"one"}) {
			t.Errorf("the log has %q", got)
		}
	})
	t.Run("BeforeItWasRemoved", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		w.fake.noRemove = func() error { return errors.New("busy") }
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		w.fake.finishTask(guid, 2)
		before := w.awaitState(tasks, guid, platform.TaskFailed)
		tasks.Stop()
		w.fake.set(func() { w.fake.noRemove = nil })
		tasks = w.beginTasks()
		w.awaitTask(tasks, "removed", func() bool { return !w.fake.has(guid) })
		if after := w.taskRow(guid); !after.Updated.Equal(before.Updated) {
			t.Error("the end was written twice")
		}
	})
	t.Run("Vanished", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.fake.manual = true
		tasks := w.beginTasks()
		guid := w.task(tasks, platform.Task{})
		w.awaitState(tasks, guid, platform.TaskRunning)
		tasks.Stop()
		if err := w.fake.Remove(t.Context(), guid); err != nil {
			t.Fatal(err)
		}
		tasks = w.beginTasks()
		if row := w.awaitState(tasks, guid, platform.TaskFailed); row.Reason != reasonVanished {
			t.Errorf("the reason is %q", row.Reason)
		}
		if n := w.fake.called("start"); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
	t.Run("Orphan", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		if err := w.fake.Start(t.Context(),
			engine.Spec{ID: "lonely", Labels: map[string]string{labelKind: kindTask}}); err != nil {
			t.Fatal(err)
		}
		tasks := w.beginTasks()
		w.awaitTask(tasks, "removed", func() bool { return !w.fake.has("lonely") })
		if w.fake.called("signal lonely") != 1 {
			t.Errorf("it was not told to go: %v", w.fake.calls)
		}
	})
}

func TestTasksStress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for range 3 {
		w.task(nil, platform.Task{})
	}
	backgroundtest.Stress(t, func(*testing.T) background.Service { return NewTasks(w.config()) })
}
