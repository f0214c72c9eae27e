package actions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

const (
	// maxWaiting is how many tasks may wait for their turn, of all apps
	// together.
	maxWaiting = 1000
	// tasksKept is how long finished tasks are kept.
	tasksKept = 31 * 24 * time.Hour
)

// TaskShare is how many of the places for tasks one organization may hold: three
// quarters, so that none can keep all others out.
func TaskShare(places int) int { return max(1, places*3/4) }

// taskRoom refuses a task of an app when too many wait already, of all
// organizations or of its own.
func taskRoom(tx platform.Tx, app *platform.App) error {
	pending := platform.Where("state", string(platform.TaskPending))
	waiting, err := tx.Tasks().Count(pending)
	if err != nil {
		return err
	}
	if waiting >= maxWaiting {
		return fault.New(fault.TaskWorkersUnavailable,
			"Task workers are unavailable: %d tasks wait for their turn already. Try again later, or terminate tasks that are "+
				"not needed.", waiting).After(time.Minute)
	}
	share := TaskShare(maxWaiting)
	if waiting < share {
		return nil
	}
	space, err := tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return err
	}
	own, err := tx.Tasks().Count(pending.And(platform.In("organization_guid", space.OrgGUID)))
	if err != nil {
		return err
	}
	if own >= share {
		return fault.New(fault.TaskWorkersUnavailable,
			"Task workers are unavailable: %d tasks of this organization wait for their turn already, and its share is %d of "+
				"the %d that may wait. "+
				"Try again later, or terminate tasks that are not needed.", own, share, maxWaiting).After(time.Minute)
	}
	return nil
}

// CreateTask stores a task that is to be run. Its droplet is the app's unless it
// names one.
func (p *Platform) CreateTask(tx platform.Tx, by Actor, app *platform.App, t *platform.Task) error {
	tx.Announce(platform.Changes{Tasks: true})
	if err := platform.CheckTask(t); err != nil {
		return err
	}
	if err := taskDroplet(tx, app, t); err != nil {
		return err
	}
	if _, err := TaskSidecars(tx, app, t); err != nil {
		return err
	}
	if err := taskRoom(tx, app); err != nil {
		return err
	}
	var err error
	if t.Sequence, err = nextSequence(tx, app.GUID); err != nil {
		return err
	}
	t.AppGUID, t.State = app.GUID, platform.TaskPending
	if err := tx.Tasks().Insert(t); err != nil {
		return err
	}
	if err := taskFits(tx, app, t); err != nil {
		return err
	}
	// Not the command: it may hold secrets.
	return p.RecordApp(tx, "audit.app.task.create", by, app, map[string]any{"task_guid": t.GUID, "request": map[string]any{
		"name": t.Name, "memory_in_mb": t.MemoryMB, "disk_in_mb": t.DiskMB,
	}})
}

func taskDroplet(tx platform.Tx, app *platform.App, t *platform.Task) error {
	named := t.DropletGUID != ""
	if !named {
		t.DropletGUID = app.DropletGUID
	}
	if t.DropletGUID == "" {
		return fault.Invalid("Task must have a droplet. Specify droplet or assign current droplet to app.")
	}
	d, err := tx.Droplets().Get(t.DropletGUID)
	switch {
	case fault.Is(err, fault.NotFound) && !named:
		return fault.Wrap(err, fault.Unprocessable,
			"The current droplet of the app no longer exists: push or restage the app.")
	case fault.Is(err, fault.NotFound), err == nil && (d.AppGUID != app.GUID || d.State != platform.DropletStaged):
		return fault.Wrap(err, fault.Unprocessable,
			"Unable to use the droplet. Ensure that it exists, is staged, and belongs to this app.")
	}
	return err
}

// nextSequence is the number of the next task of an app. Tasks are only deleted
// with their app, or when there is a newer one, so no number comes twice.
func nextSequence(tx platform.Tx, appGUID string) (int, error) {
	q := platform.Where("app_guid", appGUID)
	q.Order, q.Desc, q.WithoutSecrets = "sequence_id", true, true
	last, err := tx.Tasks().First(q)
	if fault.Is(err, fault.NotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	return last.Sequence + 1, nil
}

// CancelTask wants a task to end. Once is enough; one that is over cannot be.
func (p *Platform) CancelTask(tx platform.Tx, by Actor, app *platform.App, t *platform.Task) error {
	tx.Announce(platform.Changes{Tasks: true})
	if t.State.Over() {
		return fault.New(fault.Unprocessable, "Task state is %s and therefore cannot be canceled", t.State)
	}
	if t.State == platform.TaskCanceling {
		return nil
	}
	t.State = platform.TaskCanceling
	if err := tx.Tasks().Update(t); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.task.cancel", by, app, map[string]any{"task_guid": t.GUID,
		"request": map[string]any{"name": t.Name}})
}

// TaskEnvironment is the environment of a member of a task: that of a process of
// the app, with the sizes of the task.
func (p *Platform) TaskEnvironment(tx platform.Tx, info *AppInfo, t *platform.Task, memoryMB int,
	api string) (map[string]string, error) {
	application := info.VCAPApplication(api, nil, 0)
	application["limits"] = map[string]any{"fds": DefaultFiles, "mem": memoryMB, "disk": t.DiskMB}
	return p.runEnvironment(tx, info, application, memoryMB)
}

// TaskSidecars returns the sidecars that accompany a task of an app. It refuses
// sidecars that leave the command no memory, as those of a process are refused.
func TaskSidecars(tx platform.Tx, app *platform.App, t *platform.Task) ([]*platform.Sidecar, error) {
	all, _, err := tx.Sidecars().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s *platform.Sidecar) bool { return !s.RunsInTasks() })
	if used := sidecarMemory(all); used > 0 && used >= t.MemoryMB {
		var names []string
		for _, s := range all {
			if s.MemoryMB > 0 {
				names = append(names, fmt.Sprintf("%s (%d MB)", s.Name, s.MemoryMB))
			}
		}
		return nil,
			fault.Invalid(fmt.Sprintf("The requested memory allocation is not large enough to run all of your sidecar "+
				"processes: "+
				"the task has %d MB, and its sidecars need %s. Give the task more memory, or the sidecars less.", t.MemoryMB,
				strings.Join(names, ", ")))
	}
	return all, nil
}

// PurgeTasks deletes tasks that have been over for long, but never the newest of
// an app: from it the next one has its number.
func (p *Platform) PurgeTasks(tx platform.Tx) error {
	q := platform.Where("state", string(platform.TaskSucceeded), string(platform.TaskFailed)).
		And(platform.In("superseded", true))
	_, err := tx.Tasks().DeleteAll(q.And(platform.Cond{Field: "updated_at", Op: platform.OpLess,
		Values: []any{p.Now().Add(-tasksKept)}}))
	return err
}
