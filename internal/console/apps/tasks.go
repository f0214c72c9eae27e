package apps

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

type task struct {
	cfapi.Task
	Terminate string `json:"-"` // the command that cancels it
}

type tasksData struct {
	Tasks    []task
	Newest   int // how many are listed, if there may be more
	Run, All string
}

// tasksShown is how many tasks a page lists.
const tasksShown = 50

// loadTasks is GET /console/apps/GUID/tasks.
func loadTasks(_ *http.Request, call *page.Caller, d *Data) (any, error) {
	data := &tasksData{Run: page.Command("cf", "run-task", d.App.Name, "--command", "COMMAND"),
		All: page.Command("cf", "tasks", d.App.Name)}
	var err error
	data.Tasks, err = page.All[task](call, "/v3/apps/"+d.App.GUID+"/tasks", url.Values{"order_by": {"-created_at"},
		"per_page": {strconv.Itoa(tasksShown)}})
	if len(data.Tasks) == tasksShown {
		data.Newest = tasksShown
	}
	for i := range data.Tasks {
		data.Tasks[i].Terminate = page.Command("cf", "terminate-task", d.App.Name, strconv.Itoa(data.Tasks[i].Sequence))
	}
	return data, err
}

// runTask is POST /console/apps/GUID/tasks/run: it starts a task and leads to its page.
func (c *pages) runTask(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	body, err := taskOf(r.PostForm)
	if err != nil {
		return err
	}
	var created cfapi.Task
	if err := c.Platform(r, s).Do(http.MethodPost, "/v3/apps/"+url.PathEscape(guid)+"/tasks", body, &created); err != nil {
		return err
	}
	return backTo(w, r, guid, taskTab+url.PathEscape(created.GUID), "task")
}

// taskTab begins the name of the page of a task; its guid follows.
const taskTab = "tasks/"

// taskLines is how many of the newest lines the page of a task reads.
const taskLines = "1000"

type taskData struct {
	task
	Took  time.Duration // of a finished task
	Lines []line
	Log   string // the address of all its lines
}

// Done reports whether the task has its result.
func (d *taskData) Done() bool { return d.State == "SUCCEEDED" || d.State == "FAILED" }

// task is GET /console/apps/GUID/tasks/GUID: a task with its lines, live until it has its result.
func (c *pages) task(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid, of := web.Param(r, "guid"), web.Param(r, "task")
	data, err := loadTab(c.Console, r, s, guid, "task", loadTask(of))
	if err != nil {
		return err
	}
	at := "apps/" + url.PathEscape(guid)
	p := page.Page{Title: "Task of " + data.App.Name, Section: "apps", Data: data, Live: at + "/" + taskTab +
		url.PathEscape(of),
		Crumbs: append(data.crumbs(), page.Crumb{Name: data.App.Name, Link: page.Path + "/" + at})}
	return c.Show(w, r, s, http.StatusOK, "task.html", p)
}

// loadTask returns the loader of the page of a task.
func loadTask(of string) tabLoader {
	return func(_ *http.Request, call *page.Caller, d *Data) (any, error) {
		var found struct {
			cfapi.Task
			Updated       time.Time `json:"updated_at"`
			Relationships struct {
				App cfapi.To `json:"app"`
			} `json:"relationships"`
		}
		if err := call.Get(&found, "/v3/tasks/"+url.PathEscape(of), nil); err != nil && !page.Gone(err) {
			return nil, err
		}
		if found.GUID == "" || found.Relationships.App.GUID() != d.App.GUID {
			return nil, fault.New(fault.NotFound, "The app has no such task. Finished tasks are kept for a while only.")
		}
		data := &taskData{task: task{Task: found.Task}}
		if data.Done() {
			data.Took = found.Updated.Sub(found.CreatedAt)
		}
		data.Terminate = page.Command("cf", "terminate-task", d.App.Name, strconv.Itoa(found.Sequence))
		source := taskSource + found.Name
		data.Log = page.Path + "/apps/" + url.PathEscape(d.App.GUID) + "/logs?" + url.Values{"source": {source}}.Encode()
		if !d.MayReadLogs {
			return data, nil
		}
		// Times of the API are whole seconds.
		q := url.Values{"start_time": {strconv.FormatInt(found.CreatedAt.UnixNano(), 10)}, "limit": {taskLines},
			"descending": {"true"}}
		if data.Done() {
			q.Set("end_time", strconv.FormatInt(found.Updated.Add(2*time.Second).UnixNano(), 10))
		}
		lines, err := readLines(call, d.App.GUID, q)
		data.Lines = slices.DeleteFunc(lines, func(l line) bool { return l.Source != source })
		return data, err
	}
}

// taskSource begins the source of a task's lines.
const taskSource = "APP/TASK/"

// taskOf reads the form of a task: the fields command, name and memory_in_mb.
func taskOf(form url.Values) (any, error) {
	body := map[string]any{"command": strings.TrimSpace(form.Get("command"))}
	cfapi.Add(body, "name", strings.TrimSpace(form.Get("name")))
	if text := form.Get("memory_in_mb"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fault.New(fault.Unprocessable, "The memory must be a number of MB, not %.50q.", text)
		}
		body["memory_in_mb"] = n
	}
	return body, nil
}
