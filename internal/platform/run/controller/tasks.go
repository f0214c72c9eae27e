package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
)

const (
	kindTask = "task"
	// taskPause is the longest pause between retries of a task.
	taskPause = 10 * time.Second
)

// Tasks runs the tasks of apps, each in its own instance that ends with
// its command. It is a background.Service.
//
//	store ──active rows──▶ look ──▶ a job for each: start, follow, write the result, remove
//	                        ▲
//	           Kick, timer ─┘
//
// A row is PENDING until its instance exists, and an instance exists before its
// command runs. So the next server starts tasks without an instance and follows
// those with one: no command runs twice. The result is written once, after all
// lines are stored in the app's log, and before the instance is removed.
//
// A task continues when its app is stopped, and is cancelled when its app is
// deleted.
type Tasks struct {
	Config
	part   background.Part
	share  *platform.Share
	kicked chan struct{}
	starts chan struct{} // a token for each start in progress
	missed atomic.Uint64

	mu     sync.Mutex
	jobs   map[string]*job // by task
	looked chan struct{}   // closed after the next pass over the tasks
}

var _ background.Service = (*Tasks)(nil)

// NewTasks returns a Tasks that is not running.
func NewTasks(c Config) *Tasks {
	c = c.withDefaults()
	return &Tasks{
		Config: c, share: platform.NewShare(c.Owner), kicked: make(chan struct{}, 1), starts: make(chan struct{}, c.Starts),
		jobs: map[string]*job{}, looked: make(chan struct{}),
	}
}

// Start resumes existing tasks and starts working.
func (t *Tasks) Start(ctx context.Context) error {
	return t.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { t.loop(work, spawn) })
		return nil
	})
}

// Stop stops working and leaves the tasks running.
func (t *Tasks) Stop() { t.part.Halt(nil) }

// Gained starts to work on the tasks of the apps of shards.
func (t *Tasks) Gained(shards uint64) {
	t.share.Gain(shards)
	t.Kick()
}

// Lost stops the work on the tasks of the apps of shards, and leaves them running. When it
// returns, nothing is written for them any more.
func (t *Tasks) Lost(shards uint64) {
	t.share.Lost(shards, func() (all []*platform.Work) {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, j := range t.jobs {
			all = append(all, j.Work)
		}
		return all
	})
}

// Kick triggers a pass over the tasks. It never blocks.
func (t *Tasks) Kick() { background.Kick(t.kicked) }

func (t *Tasks) loop(ctx context.Context, spawn func(func())) {
	for thorough := true; ; {
		tick := make(chan struct{})
		stop := t.Clock.AfterFunc(t.Interval, func() { close(tick) })
		err := background.Do("look at tasks", func() error { return t.look(ctx, spawn, thorough) })
		if err != nil && ctx.Err() == nil {
			t.Log.Error("reading the tasks failed", "error", err)
		}
		t.tellLooked()
		select {
		case <-ctx.Done():
			stop()
			return
		case <-t.kicked:
			stop()
			thorough = false
		case <-tick:
			thorough = true
		}
	}
}

// afterLook returns a channel that is closed after the next pass.
func (t *Tasks) afterLook() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.looked
}

func (t *Tasks) tellLooked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.looked)
	t.looked = make(chan struct{})
}

// active reads the tasks that are not finished, without their commands, and the
// organization of each app they belong to.
func (t *Tasks) active(ctx context.Context) (tasks []*platform.Task, orgs map[string]string, err error) {
	orgs = map[string]string{}
	err = t.Store.View(ctx, func(tx platform.Tx) error {
		// This runs whenever any app changes, so it must not decrypt the commands of tasks
		// that wait.
		tasks, _, err = tx.Tasks().List(platform.Query{Where: []platform.Cond{platform.ActiveTasks()}, WithoutSecrets: true})
		if err != nil || len(tasks) == 0 {
			return err
		}
		apps, _, err := tx.Apps().List(platform.Query{
			Where: []platform.Cond{platform.InStrings("guid",
				distinct(tasks, func(t *platform.Task) string { return t.AppGUID }))}, WithoutSecrets: true})
		if err != nil {
			return err
		}
		spaces, _, err := tx.Spaces().
			List(platform.Query{Where: []platform.Cond{
				platform.InStrings("guid", distinct(apps, func(a *platform.App) string { return a.SpaceGUID }))}})
		if err != nil {
			return err
		}
		of := map[string]string{}
		for _, s := range spaces {
			of[s.GUID] = s.OrgGUID
		}
		for _, a := range apps {
			orgs[a.GUID] = of[a.SpaceGUID]
		}
		return nil
	})
	return tasks, orgs, err
}

// distinct returns the distinct keys of rows.
func distinct[T any](rows []*T, key func(*T) string) []string {
	all := make([]string, 0, len(rows))
	for _, r := range rows {
		all = append(all, key(r))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// look makes sure that every unfinished task has a job, within the limits for all tasks and
// for its organization, and that jobs learn of cancelled tasks. With thorough it also stops
// instances that have no task.
func (t *Tasks) look(ctx context.Context, spawn func(func()), thorough bool) error {
	var found []engine.Instance
	if thorough {
		// List before the rows are read: an instance has a row before it exists.
		list, err := t.Engine.List(ctx, func(labels map[string]string) bool { return labels[labelKind] == kindTask })
		if err != nil {
			return err
		}
		found = list
	}
	active, orgs, err := t.active(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[string]bool{}
	for _, task := range active {
		known[task.GUID] = true
	}
	active = slices.DeleteFunc(active, func(task *platform.Task) bool { return !t.share.Works(task.AppGUID) })
	for _, task := range active {
		j := t.jobs[task.GUID]
		switch {
		case j != nil && task.State == platform.TaskCanceling:
			j.end()
		case j == nil && task.State != platform.TaskPending:
			t.begin(ctx, spawn, task.GUID, task.AppGUID, orgs[task.AppGUID])
		}
	}
	// Waiting tasks start after all that run have been counted.
	t.beginPending(ctx, spawn, active, orgs)
	for guid, j := range t.jobs {
		if !known[guid] && t.share.Works(j.App) {
			j.end() // deleted with its app, or just finished
		}
	}
	for _, in := range found {
		if !known[in.ID] && t.jobs[in.ID] == nil && t.share.Works(in.Labels[LabelApp]) {
			t.begin(ctx, spawn, in.ID, in.Labels[LabelApp], "") // the job finds that it has no row
		}
	}
	return nil
}

// beginPending starts jobs for waiting tasks, in order. A task whose organization has
// reached its limit is skipped. The lock must be held.
func (t *Tasks) beginPending(ctx context.Context, spawn func(func()), active []*platform.Task, orgs map[string]string) {
	held, share := map[string]int{}, actions.TaskShare(t.Config.Tasks)
	for _, j := range t.jobs {
		held[j.org]++
	}
	for _, task := range active {
		if len(t.jobs) >= t.Config.Tasks {
			return
		}
		org := orgs[task.AppGUID]
		if task.State != platform.TaskPending || t.jobs[task.GUID] != nil || held[org] >= share {
			continue
		}
		held[org]++
		t.begin(ctx, spawn, task.GUID, task.AppGUID, org)
	}
}

// begin starts a job. The lock must be held.
func (t *Tasks) begin(ctx context.Context, spawn func(func()), guid, app, org string) {
	j := &job{Tasks: t, guid: guid, org: org, unwanted: make(chan struct{}), moved: make(chan struct{})}
	ctx, j.Work = t.share.Begin(ctx, app)
	t.jobs[guid] = j
	spawn(func() {
		defer j.End()
		defer func() {
			t.mu.Lock()
			delete(t.jobs, guid)
			t.mu.Unlock()
			t.Kick() // there is room for another
		}()
		background.Safely("task", func() { j.run(ctx) })
	})
}

// job runs one task until it is finished.
type job struct {
	*Tasks
	*platform.Work
	guid     string
	org      string // organization whose limit it counts for; empty if unknown
	once     sync.Once
	unwanted chan struct{} // closed when the task should stop
	leaving  sync.Once
	moved    chan struct{} // closed when its machine is taken away
	why      string        // once moved is closed
	gone     atomic.Bool   // its app was deleted: do not log
}

func (j *job) end() { j.once.Do(func() { close(j.unwanted) }) }

// displaced notes that the machine of the task is taken away.
func (j *job) displaced(why string) {
	j.leaving.Do(func() {
		j.why = why
		close(j.moved)
	})
}

// Displaced is told that an instance has to leave its machine, or that the machine was lost.
// A task that began is not run again: what it did is not known. It fails, unless it ends
// well before its machine stops it.
func (t *Tasks) Displaced(id, why string) {
	t.mu.Lock()
	j := t.jobs[id]
	t.mu.Unlock()
	if j != nil {
		j.displaced(why)
	}
}

// pauseAfter returns the pause before the retry after so many failures.
func pauseAfter(failures int) time.Duration { return min(pumpPause<<min(failures, 8), taskPause) }

// run retries until the result of the task is stored.
func (j *job) run(ctx context.Context) {
	for failures := 0; ; failures++ {
		err := background.Do("task", func() error { return j.carryOut(ctx) })
		if err == nil || ctx.Err() != nil {
			return
		}
		again := pauseAfter(failures)
		j.Log.Error("running a task failed", "task", j.guid, "again", again, "error", err)
		if !background.Sleep(ctx, again) {
			return
		}
	}
}

// carryOut continues the task from its current state to its end. An error means that the
// caller should retry.
func (j *job) carryOut(ctx context.Context) error {
	task, err := j.row(ctx, nil)
	if err != nil {
		return err
	}
	if task == nil || task.State.Over() {
		return j.cleanUp(ctx)
	}
	in, err := j.Engine.Get(ctx, j.guid)
	if err == nil && task.State == platform.TaskPending && neverRan(in) {
		// The server died before the command was started.
		if err := j.Engine.Remove(ctx, j.guid); err != nil {
			return err
		}
		err = engine.ErrNotFound
	}
	switch {
	case errors.Is(err, engine.ErrNotFound) && task.State == platform.TaskPending:
		if reason, err := j.start(ctx, task); err != nil || reason != "" {
			return j.conclude(ctx, err, failed(reason))
		}
	case errors.Is(err, engine.ErrNotFound):
		return j.conclude(ctx, nil, failed(reasonVanished))
	case err != nil:
		return err
	case in.Displaced:
		j.displaced(movedAway)
	}
	task, err = j.row(ctx, func(task *platform.Task) bool {
		begun := task.State == platform.TaskPending
		if begun {
			task.State = platform.TaskRunning
		}
		return begun
	})
	switch {
	case err != nil:
		return err
	case task == nil || task.State.Over():
		return j.cleanUp(ctx)
	case task.State == platform.TaskCanceling:
		j.end()
	}
	exit, err := j.follow(ctx, task)
	return j.conclude(ctx, err, j.resultOf(exit))
}

// conclude writes the result, unless there was an error.
func (j *job) conclude(ctx context.Context, err error, result func(*platform.Task)) error {
	if err != nil {
		return err
	}
	if _, err := j.row(ctx, func(task *platform.Task) bool {
		if task.State.Over() {
			return false
		}
		result(task)
		return true
	}); err != nil {
		return err
	}
	return j.cleanUp(ctx)
}
