package apps

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
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
