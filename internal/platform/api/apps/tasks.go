package apps

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// tasks are presented without commands: the list of all tasks crosses spaces, and
// commands may contain secrets.
var tasks = rest.Resource[platform.Task, taskBody]{
	Noun: "Task", Repo: platform.Tx.Tasks, Present: rest.Each(presentTask),
	List: listing.Params{Filters: listing.Filters{
		"names": listing.Text("name"), "states": listing.Text("state"), "sequence_ids": listing.Number("sequence_id"),
		"app_guids":   listing.Text("app_guid"),
		"space_guids": listing.Text("space_guid"), "organization_guids": listing.Text("organization_guid"),
	}},
}

// tasksWhole are presented with commands to callers that may see them.
var tasksWhole = rest.Resource[platform.Task, taskBody]{Noun: "Task", Repo: platform.Tx.Tasks,
	Present: presentTasksWhole}

// tasksOfApp are the tasks of one app, so they need fewer filters.
var tasksOfApp = rest.Resource[platform.Task, taskBody]{
	Noun: "Task", Repo: platform.Tx.Tasks, Present: presentTasksWhole,
	List: listing.Params{Filters: listing.Filters{"names": listing.Text("name"), "states": listing.Text("state"),
		"sequence_ids": listing.Number("sequence_id")}},
}

func (a *API) taskRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/tasks", rest.Read, tasks.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/tasks/{guid}", rest.Read, tasksWhole.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/tasks/{guid}", rest.Write, rest.MetadataPatcher(a.Server, tasksWhole,
		rest.Only(taskFor(platform.Develop))))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/tasks", rest.Read, rest.ListerOf(a.Server, tasksOfApp, platform.Tx.Apps,
		"App", "app_guid"))
	g.Storing().Handle(http.MethodPost, "/v3/apps/{guid}/tasks", rest.Write, a.createTask)
	g.Handle(http.MethodPost, "/v3/tasks/{guid}/actions/cancel", rest.Write, a.cancelTask)
	// Current clients use the older paths.
	g.Handle(http.MethodPut, "/v3/tasks/{guid}/actions/cancel", rest.Write, a.cancelTask)
	g.Handle(http.MethodPut, "/v3/tasks/{guid}/cancel", rest.Write, a.cancelTask)
}

type taskRequest struct {
	Command  *string            `json:"command"`
	Name     *string            `json:"name"`
	MemoryMB *rest.Whole[int]   `json:"memory_in_mb"`
	DiskMB   *rest.Whole[int]   `json:"disk_in_mb"`
	LogRate  *rest.Whole[int64] `json:"log_rate_limit_in_bytes_per_second"`
	Droplet  string             `json:"droplet_guid"`
	Template *struct {
		Process *rest.RelationData `json:"process"`
	} `json:"template"`
	Metadata *actions.MetadataPatch `json:"metadata"`
}

// sequenceTries is the number of attempts to get a sequence number that no concurrent
// request has taken.
const sequenceTries = 10

func (a *API) createTask(w http.ResponseWriter, r *http.Request) error {
	var body taskRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Template != nil && (body.Template.Process == nil || body.Template.Process.GUID == "") {
		return fault.Invalid("Template must have a process with a guid")
	}
	name, err := taskName(body.Name)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := rest.Answer(a.Server, w, r, tasksWhole, http.StatusAccepted, func(req *rest.Request) (*platform.Task, error) {
			// A command is code, so space supporters may not set it.
			app, err := req.App(platform.Develop)
			if err != nil {
				return nil, err
			}
			if err := req.NeedFlag("task_creation"); err != nil {
				return nil, err
			}
			task, err := a.taskOf(req, app, &body)
			if err != nil {
				return nil, err
			}
			task.Name = name
			return task, a.Platform.CreateTask(req.Tx, req.Caller.Actor(), app, task)
		})
		if fault.Is(err, fault.Conflict) && try < sequenceTries {
			continue // the number was taken meanwhile
		}
		return err
	}
}

// taskName returns the requested name, or a generated one.
func taskName(asked *string) (string, error) {
	if asked != nil {
		return *asked, nil
	}
	random := make([]byte, 4)
	_, err := rand.Read(random)
	return hex.EncodeToString(random), err
}

// taskOf returns the task of a request. Absent members come from the template, if
// there is one, or are defaults.
func (a *API) taskOf(req *rest.Request, app *platform.App, body *taskRequest) (*platform.Task, error) {
	memory, err := a.Platform.DefaultMemory(req.Tx, app)
	if err != nil {
		return nil, err
	}
	task := &platform.Task{DropletGUID: body.Droplet, MemoryMB: memory, DiskMB: a.Platform.DiskMB,
		LogRate: platform.DefaultLogRate}
	if body.Template != nil {
		process, err := rest.Lookup(req.Tx.Processes(), body.Template.Process.GUID, "Process")
		if err != nil {
			return nil, err
		}
		if process.AppGUID != app.GUID {
			return nil, fault.New(fault.NotFound, "Process not found")
		}
		if task.Command, err = commandOf(req.Tx, process); err != nil {
			return nil, err
		}
		task.MemoryMB, task.DiskMB, task.LogRate = process.MemoryMB, process.DiskMB, process.LogRate
	}
	web.Set(&task.Command, body.Command)
	web.Set(&task.MemoryMB, body.MemoryMB.Get())
	web.Set(&task.DiskMB, body.DiskMB.Get())
	web.Set(&task.LogRate, body.LogRate.Get())
	err = body.Metadata.Apply(&task.Metadata)
	return task, err
}

// taskFor returns the task of the path and its app if the caller may perform the
// action.
func taskFor(action platform.Action) func(*rest.Request) (*platform.Task, *platform.App, error) {
	return rest.OfApp(tasks, func(task *platform.Task) string { return task.AppGUID }, action)
}

func (a *API) cancelTask(w http.ResponseWriter, r *http.Request) error {
	return rest.Answer(a.Server, w, r, tasksWhole, http.StatusAccepted,
		rest.Acted(taskFor(platform.Operate), a.Platform.CancelTask))
}

type taskBody struct {
	rest.ResourceBody
	Sequence int    `json:"sequence_id"`
	Name     string `json:"name"`
	// Command is absent if the caller may not see it.
	Command       *string            `json:"command,omitempty"`
	User          *string            `json:"user"`
	State         platform.TaskState `json:"state"`
	MemoryMB      int                `json:"memory_in_mb"`
	DiskMB        int                `json:"disk_in_mb"`
	LogRate       int64              `json:"log_rate_limit_in_bytes_per_second"`
	Result        map[string]any     `json:"result"`
	Droplet       string             `json:"droplet_guid"`
	Relationships map[string]any     `json:"relationships"`
	Metadata      rest.Metadata      `json:"metadata"`
	Links         rest.Links         `json:"links"`
}

func presentTask(req *rest.Request, t *platform.Task) taskBody {
	self := "/tasks/" + rest.Escape(t.GUID)
	return taskBody{
		ResourceBody: rest.PresentResource(&t.Resource), Sequence: t.Sequence, Name: t.Name, State: t.State,
		MemoryMB: t.MemoryMB, DiskMB: t.DiskMB, LogRate: t.LogRate,
		Result: map[string]any{"failure_reason": rest.OrNull(t.Reason)}, Droplet: t.DropletGUID,
		Relationships: map[string]any{"app": rest.ToOne(t.AppGUID)}, Metadata: rest.PresentMetadata(&t.Metadata),
		Links: rest.Links{
			"self": req.Link(self), "app": req.Link("/apps/", rest.Escape(t.AppGUID)),
			"droplet": req.Link("/droplets/", rest.Escape(t.DropletGUID)),
			"cancel":  {Href: req.Link(self, "/actions/cancel").Href, Method: http.MethodPost},
		},
	}
}

// presentTasksWhole shows commands to callers that may see them.
func presentTasksWhole(req *rest.Request, items []*platform.Task) ([]taskBody, error) {
	shows := map[string]bool{} // by app
	for _, guid := range rest.GUIDsOf(items, func(t *platform.Task) string { return t.AppGUID }) {
		show, err := req.ShowsSecrets(guid)
		if err != nil {
			return nil, err
		}
		shows[guid] = show
	}
	return rest.PresentAll(items, func(t *platform.Task) taskBody {
		b := presentTask(req, t)
		if shows[t.AppGUID] {
			b.Command = &t.Command
		}
		return b
	}), nil
}
