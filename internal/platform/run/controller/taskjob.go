package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// Failure reasons of tasks other than the command.
const (
	reasonCancelled = "task was cancelled"
	reasonStopped   = "the task was stopped by the platform before it ended; run it again"
	reasonMoved     = "the task did not end before the platform lost its machine: %s; look at the app's log before you " +
		"run it again"
	reasonVanished = "the instance of the task was lost before the task ended, so its result is not known; look at the " +
		"app's log before you run it again"
)

// row reads the task, and writes it if change returns true. It returns nil if the task does
// not exist any more.
func (j *job) row(ctx context.Context, change func(*platform.Task) bool) (*platform.Task, error) {
	var task *platform.Task
	do := j.Store.View
	if change != nil {
		do = j.Store.Update
	}
	err := do(ctx, func(tx platform.Tx) (err error) {
		task, err = tx.Tasks().Get(j.guid)
		if err == nil && change != nil && change(task) {
			if err = tx.Tasks().Update(task); err == nil && task.State.Over() {
				err = actions.CredentialsReleased(tx, task.AppGUID, task.GUID)
			}
		}
		return err
	})
	if fault.Is(err, fault.NotFound) {
		j.gone.Store(true)
		return nil, nil
	}
	return task, err
}

// neverRan reports whether the first process of an instance wrote no record: it writes one
// before it starts the command.
func neverRan(in engine.Instance) bool {
	return !in.Running && in.State.Phase == initproto.Starting && in.State.PID == 0
}

// failed returns the result of a failed task. A task that is being cancelled fails as
// cancelled.
func failed(reason string) func(*platform.Task) {
	return func(task *platform.Task) {
		if task.State == platform.TaskCanceling {
			reason = reasonCancelled
		}
		task.State, task.Reason = platform.TaskFailed, reason
	}
}

// resultOf returns the result for an exit. What the machine stopped says why.
func (j *job) resultOf(exit *initproto.Exit) func(*platform.Task) {
	select {
	case <-j.moved:
		if exit == nil || exit.Stopped {
			return failed(fmt.Sprintf(reasonMoved, j.why))
		}
	default:
	}
	return resultOf(exit)
}

// resultOf returns the result for an exit. A task that finished before it could be stopped
// has succeeded.
func resultOf(exit *initproto.Exit) func(*platform.Task) {
	switch {
	case exit == nil:
		return failed(reasonVanished)
	case exit.Status == 0 && !exit.Stopped:
		return func(task *platform.Task) { task.State, task.Reason = platform.TaskSucceeded, "" }
	case exit.Description != "":
		return failed(exit.Description)
	case exit.Stopped:
		return failed(reasonStopped)
	}
	return failed(fmt.Sprintf("Exited with status %d", exit.Status))
}

// start starts the instance when a start token is free. reason is the failure for the user;
// an error means that the caller should retry.
func (j *job) start(ctx context.Context, task *platform.Task) (reason string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer j.when(ctx, j.unwanted, func(context.Context) { cancel() })()
	select {
	case j.starts <- struct{}{}:
		defer releaser(j.starts)()
	case <-ctx.Done():
		return j.notStarted(ctx, task, ctx.Err())
	}
	// The time limit does not include the wait for the token.
	ctx, late := context.WithTimeout(ctx, startLimit)
	defer late()
	var spec engine.Spec
	err = background.Do("task", func() (err error) {
		spec, err = j.specOf(ctx, task)
		return err
	})
	if err != nil {
		var known *fault.Error
		if ctx.Err() == nil && !errors.As(err, &known) {
			return "", err
		}
		return j.notStarted(ctx, task, err)
	}
	if err := background.Do("task", func() error { return j.Engine.Start(ctx, spec) }); err != nil {
		return j.notStarted(ctx, task, err)
	}
	return "", nil
}

func (j *job) notStarted(ctx context.Context, task *platform.Task, err error) (string, error) {
	select {
	case <-j.unwanted:
		return reasonCancelled, nil
	default:
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return "", ctx.Err() // the server stops: the next one continues
	}
	var refused *engine.PlacementError
	if errors.As(err, &refused) && refused.Displaced {
		return "", err // nothing ran: it is started again
	}
	j.Log.Warn("starting a task failed", "app", task.AppGUID, "task", j.guid, "error", err)
	return failureOf(err), nil
}

// when calls f when a channel is closed, unless ctx ends or stop is called before. stop
// cancels the context of f and waits for it.
func (j *job) when(ctx context.Context, closed <-chan struct{}, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	background.Go("task", func() {
		defer close(done)
		select {
		case <-closed:
			f(ctx)
		case <-ctx.Done():
		}
	})
	return func() {
		cancel()
		<-done
	}
}

// specOf returns the engine's spec for the task.
func (j *job) specOf(ctx context.Context, task *platform.Task) (engine.Spec, error) {
	p, err := j.planOf(ctx, task)
	if err != nil {
		return engine.Spec{}, err
	}
	app, droplet, where := p.app, p.droplet, p.where
	members, err := j.members(p)
	if err != nil {
		return engine.Spec{}, err
	}
	launch := initproto.Spec{
		Instance: task.GUID, OneOff: true, Members: members, User: j.User, Group: j.Group, Grace: j.Grace,
		LogRate: task.LogRate,
	}
	if err := launch.Validate(); err != nil {
		return engine.Spec{}, fault.Wrap(err, fault.Unprocessable, "the task cannot be started: %v", err)
	}
	reach, err := j.reach(ctx, app.GUID)
	if err != nil {
		return engine.Spec{}, err
	}
	return engine.Spec{
		ID:      task.GUID,
		Reach:   reach,
		Segment: where.Segment,
		Zone:    engine.Zone{Space: app.SpaceGUID},
		App:     app.GUID,
		FilesAt: j.credentials(task.GUID, where),
		Labels: map[string]string{labelKind: kindTask, LabelApp: app.GUID,
			labelSources: strings.Join(sourcesOf(launch), "\n")},
		Files:  j.filesOf(ctx, droplet, p.files),
		Image:  j.imageOf(droplet),
		Launch: launch,
		Limits: engine.Limits{
			Memory: int64(task.MemoryMB) << 20, Disk: int64(task.DiskMB) << 20,
			CPU: cpuShares(task.MemoryMB), PIDs: j.PIDs, Files: actions.DefaultFiles,
		},
	}, nil
}

// follow reads the records of the instance to their end, and stops it when the task is
// cancelled. A nil exit means that its end is unknown.
func (j *job) follow(ctx context.Context, task *platform.Task) (*initproto.Exit, error) {
	stop := j.when(ctx, j.unwanted, j.terminate)
	given := j.when(ctx, j.moved, j.giveUp)
	var written atomic.Int64
	p := pump{
		Config: &j.Config, app: task.AppGUID, id: j.guid, index: "0", sources: j.sources(ctx, task),
		last: j.Logs.Position(j.guid),
		gone: &j.gone, wrote: &written, missed: &j.missed, happened: func([]event) {},
	}
	_, ended := p.run(ctx)
	stop()
	given()
	if !ended {
		return nil, ctx.Err()
	}
	exit := p.exit
	if exit != nil && exit.Status != 0 && !exit.OOM && exit.Description != "" {
		// A child of the command may have been killed instead.
		if u, err := j.Engine.Usage(ctx, j.guid); err == nil && u.OOMKills > 0 {
			exit.Description += " (out of memory)"
		}
	}
	return exit, nil
}

// terminate asks the instance to stop, and removes it if it does not.
func (j *job) terminate(ctx context.Context) {
	if _, err := j.row(ctx, nil); err != nil && ctx.Err() == nil { // learns whether the app is gone
		j.Log.Warn("reading a task failed", "task", j.guid, "error", err)
	}
	if err := j.Engine.Signal(ctx, j.guid); err != nil && !errors.Is(err, engine.ErrNotFound) && ctx.Err() == nil {
		j.Log.Warn("stopping a task failed", "task", j.guid, "error", err)
	}
	j.removeAfter(ctx, j.Grace+stopSlack)
}

// giveUp removes an instance whose machine is taken away, if it does not end by itself. A
// machine that was lost does not say so.
func (j *job) giveUp(ctx context.Context) { j.removeAfter(ctx, leaveTime) }

// leaveTime is how long the machine of a task may take to stop it, longer than the grace
// period of a Pod.
const leaveTime = 45 * time.Second

func (j *job) removeAfter(ctx context.Context, d time.Duration) {
	late := make(chan struct{})
	defer j.Clock.AfterFunc(d, func() { close(late) })()
	select {
	case <-late:
	case <-ctx.Done():
		return
	}
	for failures := 0; ; failures++ {
		err := j.Engine.Remove(ctx, j.guid)
		if err == nil || ctx.Err() != nil {
			return
		}
		again := pauseAfter(failures)
		j.Log.Error("removing a task that does not stop failed", "task", j.guid, "again", again, "error", err)
		if !background.Sleep(ctx, again) {
			return
		}
	}
}

// cleanUp removes the instance. If it still runs, because its app was deleted, it is
// stopped first.
func (j *job) cleanUp(ctx context.Context) error {
	in, err := j.Engine.Get(ctx, j.guid)
	if err == nil && in.Running && j.Engine.Signal(ctx, j.guid) == nil {
		j.awaitEnd(ctx, j.guid)
	}
	if err := j.Engine.Remove(ctx, j.guid); err != nil {
		return err
	}
	j.Logs.Forget(j.guid)
	return nil
}
