package apps

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type taskRow struct {
	ID      int       `json:"id"`
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Start   time.Time `json:"start_time"`
	Command string    `json:"command"`
}

func rowOfTask(k cfapi.Task) taskRow {
	return taskRow{k.Sequence, k.Name, strings.ToLower(k.State), k.CreatedAt, k.Command}
}

// shownCommand returns the command, or a note that the platform hides it.
func (r taskRow) shownCommand() string {
	if r.Command == "" {
		return "[hidden]"
	}
	return r.Command
}

// oneTask is a task with all its fields.
type oneTask struct {
	taskRow
	MemoryMB int    `json:"memory_in_mb"`
	DiskMB   int    `json:"disk_in_mb"`
	Reason   string `json:"failure_reason"`
}

func taskOf(k cfapi.Task) *oneTask {
	return &oneTask{rowOfTask(k), k.MemoryMB, k.DiskMB, k.Result.Failure}
}

func (k *oneTask) Show(p *term.Printer) {
	pairs := [][2]string{
		{"id", strconv.Itoa(k.ID)}, {"name", k.Name}, {"state", p.State(k.State)}, {"start time", core.Date(k.Start)},
		{"command", k.shownCommand()},
		{"memory", fmt.Sprintf("%dM", k.MemoryMB)}, {"disk", fmt.Sprintf("%dM", k.DiskMB)},
	}
	if k.Reason != "" {
		pairs = append(pairs, [2]string{"failure reason", k.Reason})
	}
	p.Println("")
	p.Pairs(pairs...)
}

func listTasks(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	tasks, err := client.List[cfapi.Task](ctx, s.API, "/v3/apps/"+app.GUID+"/tasks",
		url.Values{"order_by": {"-created_at"}})
	if err != nil {
		return nil, noTasks(s, err)
	}
	list := &core.Listing[taskRow]{
		Key: "tasks", Heading: []string{"id", "name", "state", "start time", "command"},
		Paint: []core.Paint{nil, nil, core.State},
		Cells: func(k taskRow) []string {
			return []string{strconv.Itoa(k.ID), k.Name, k.State, core.Date(k.Start), k.shownCommand()}
		},
	}
	for _, k := range tasks {
		list.Rows = append(list.Rows, rowOfTask(k))
	}
	return list, nil
}

// noTasks explains the responses of platforms without tasks.
func noTasks(s *core.Session, err error) error {
	if status := client.Status(err); status == 404 || status == 405 || status == 501 {
		return &core.Problem{
			What: "This platform does not support tasks.", Why: fmt.Sprintf("the API at %s (version %s) has no task endpoints",
				s.Config.API, s.Config.APIVersion),
			Try: "run the command as a separate process in the manifest", Err: err,
		}
	}
	return err
}

// taskOfApp are the positional arguments of commands that take one task.
type taskOfApp struct {
	Args struct {
		App string `positional-arg-name:"APP" required:"yes"`
		ID  int    `positional-arg-name:"ID" required:"yes"`
	} `positional-args:"yes"`
}

func (c *taskOfApp) find(ctx context.Context, s *core.Session) (cfapi.Task, error) {
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return cfapi.Task{}, err
	}
	found, err := client.List[cfapi.Task](ctx, s.API, "/v3/apps/"+app.GUID+"/tasks", url.Values{
		"sequence_ids": {strconv.Itoa(c.Args.ID)}, "page": {"1"}, "per_page": {"1"},
	})
	if err != nil {
		return cfapi.Task{}, noTasks(s, err)
	}
	if len(found) == 0 {
		return cfapi.Task{}, &core.Problem{
			What: fmt.Sprintf("App %s has no task %d.", app.Name, c.Args.ID),
			Why:  "the id is wrong, or the task is old and was deleted",
			Try:  fmt.Sprintf("'%s tasks %s' lists the tasks", s.Env.Program, app.Name),
		}
	}
	return found[0], nil
}

func showTask(ctx context.Context, s *core.Session, _ core.Words, f *taskOfApp) (core.Result, error) {
	s.Doing("Getting task %s of app %s", strconv.Itoa(f.Args.ID), f.Args.App)
	task, err := f.find(ctx, s)
	if err != nil {
		return nil, err
	}
	return taskOf(task), nil
}

func terminateTask(ctx context.Context, s *core.Session, _ core.Words, f *taskOfApp) (core.Result, error) {
	s.Doing("Terminating task %s of app %s", strconv.Itoa(f.Args.ID), f.Args.App)
	task, err := f.find(ctx, s)
	if err != nil {
		return nil, err
	}
	var ending cfapi.Task
	if _, err := s.API.Post(ctx, "/v3/tasks/"+task.GUID+"/actions/cancel", nil, &ending); err != nil {
		return nil, err
	}
	s.OK()
	return taskOf(ending), nil
}

type runTaskFlags struct {
	Command string `short:"c" long:"command" value-name:"COMMAND" description:"Command to run (default: the command of --process)"`
	Name    string `long:"name" value-name:"NAME" description:"Task name (default: generated)"`
	Memory  string `short:"m" value-name:"SIZE" description:"Memory, such as 256M or 1G"`
	Disk    string `short:"k" value-name:"SIZE" description:"Disk, such as 512M or 2G"`
	Process string `long:"process" value-name:"TYPE" description:"Process type whose command, memory and disk are the defaults"`
	Wait    bool   `short:"w" long:"wait" description:"Follow the output, wait for the task to complete, and exit with 1 if it fails"`
}

func runTask(ctx context.Context, s *core.Session, w core.Words, f *runTaskFlags) (core.Result, error) {
	if f.Command == "" && f.Process == "" {
		return nil, core.UsageError("--command or --process is required")
	}
	request := map[string]any{}
	if f.Command != "" {
		request["command"] = f.Command
	}
	if f.Name != "" {
		request["name"] = f.Name
	}
	if err := core.Sizes(request, f.Memory, f.Disk); err != nil {
		return nil, err
	}
	s.Doing("Creating a task for app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if f.Process != "" {
		var process cfapi.Process
		if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/processes/"+url.PathEscape(f.Process), nil, &process); err != nil {
			return nil, err
		}
		request["template"] = map[string]any{"process": map[string]string{"guid": process.GUID}}
	}
	var task cfapi.Task
	if _, err := s.API.Post(ctx, "/v3/apps/"+app.GUID+"/tasks", request, &task); err != nil {
		return nil, noTasks(s, err)
	}
	s.Say("Created task %s (%s).", s.Out.Bold(strconv.Itoa(task.Sequence)), s.Out.Bold(task.Name))
	if !f.Wait {
		s.OK()
		return taskOf(task), nil
	}
	s.Progress.Step("Running task "+task.Name, 0)
	source := "APP/TASK/" + task.Name
	stopLog := followSource(ctx, s, app, source, task.CreatedAt)
	err = client.Poll(ctx, func() (bool, error) {
		if task.State == "SUCCEEDED" || task.State == "FAILED" {
			return true, nil
		}
		return false, s.API.Get(ctx, "/v3/tasks/"+task.GUID, nil, &task)
	})
	stopLog()
	if err != nil {
		return nil, err
	}
	if task.State == "FAILED" {
		failed := &core.Problem{What: fmt.Sprintf("Task %s of %s failed.", task.Name, app.Name), Why: task.Result.Failure}
		if Streams(s) {
			return taskOf(task), failed // its output was just shown
		}
		failed.Try = fmt.Sprintf("'%s logs %s --recent' shows its output, with the source %s", s.Env.Program,
			app.Name, source)
		return taskOf(task), WithLog(ctx, s, app, source, failed)
	}
	s.OK()
	return taskOf(task), nil
}

func tasksCommands() []*core.Command {
	return slices.Concat(core.InGroup(core.GroupApps,
		core.Entry("run-task", "APP --command COMMAND [--name NAME] [--wait]",
			"Run a one-off command in an app's environment", core.NeedsSpace, runTask,
			"my-app --command './migrate --all' --name migrate --wait", "my-app --process worker -m 512M").Alias("rt").Slow().
			Explained("A task runs in its own instance, which stops when the command exits. Its output is in the app's logs "+
				"with the source APP/TASK/NAME."),
		core.Entry("terminate-task", "APP ID", "Cancel a running task", core.NeedsSpace, terminateTask, "my-app 3"),
	), core.InGroup(core.GroupInspect,
		core.Entry("tasks", "APP", "List an app's tasks", core.NeedsSpace, core.OnApp("Getting tasks for app %s",
			listTasks), "my-app"),
		core.Entry("task", "APP ID", "Show a task of an app", core.NeedsSpace, showTask, "my-app 3"),
	))
}
