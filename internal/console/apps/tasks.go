package apps

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

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

// runTask is POST /console/apps/GUID/tasks/run, with the fields command, name and
// memory_in_mb.
func (c *pages) runTask(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	body := map[string]any{"command": strings.TrimSpace(r.PostForm.Get("command"))}
	if name := strings.TrimSpace(r.PostForm.Get("name")); name != "" {
		body["name"] = name
	}
	if text := r.PostForm.Get("memory_in_mb"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fault.New(fault.Unprocessable, "The memory must be a number of MB, not %.50q.", text)
		}
		body["memory_in_mb"] = n
	}
	if err := c.Platform(r, s).Do(http.MethodPost, "/v3/apps/"+url.PathEscape(guid)+"/tasks", body, nil); err != nil {
		return err
	}
	return backTo(w, r, guid, "tasks", "task")
}

// cancelTask is POST /console/apps/GUID/tasks/GUID/cancel.
func (c *pages) cancelTask(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	path := "/v3/tasks/" + url.PathEscape(web.Param(r, "task")) + "/actions/cancel"
	if err := c.Platform(r, s).Do(http.MethodPost, path, nil, nil); err != nil {
		return err
	}
	return backTo(w, r, web.Param(r, "guid"), "tasks", "canceled")
}
