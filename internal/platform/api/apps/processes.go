package apps

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// processes presents lists, which more users can read: commands are hidden. process presents a
// single one.
var (
	processes = processesShownBy(presentProcesses)
	process   = processesShownBy(presentProcessesWhole)
)

func processesShownBy(
	present func(*rest.Request, []*platform.Process) ([]processBody, error),
) rest.Resource[platform.Process, processBody] {
	return rest.Resource[platform.Process, processBody]{
		Noun: "Process", Repo: platform.Tx.Processes, Present: present,
		List: listing.Params{
			Filters: listing.Filters{
				"types": listing.Text("type"), "app_guids": listing.Text("app_guid"), "space_guids": listing.Text("space_guid"),
				"organization_guids": listing.Text("organization_guid"),
			},
			Embeds: []string{embedInstances},
		},
	}
}

func (a *API) processRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/processes", rest.Read, processes.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/processes", rest.Read, rest.ListerOf(a.Server, processes,
		platform.Tx.Apps, "App", "app_guid"))
	// Every endpoint of a process has two paths: by its guid, and by app and type.
	for _, at := range []string{"/v3/processes/{guid}", "/v3/apps/{guid}/processes/{type}"} {
		g.Handle(http.MethodGet, at, rest.Read, process.GetterBy(a.Server, processOf))
		g.Handle(http.MethodPatch, at, rest.Write, rest.Updater(a.Server, process, a.updateProcess))
		g.Handle(http.MethodPost, at+"/actions/scale", rest.Write, a.scaleProcess)
		g.Handle(http.MethodGet, at+"/stats", rest.Read, a.processStats)
		g.Handle(http.MethodGet, at+"/process_instances", rest.Read,
			rest.Viewer(a.Server, processOf, processInstances))
		g.Handle(http.MethodDelete, at+"/instances/{index}", rest.Write, a.restartInstance)
	}
}

// processOf returns the process of either path.
func processOf(req *rest.Request) (*platform.Process, error) {
	guid, kind := web.Param(req.HTTP, "guid"), web.Param(req.HTTP, "type")
	if kind == "" {
		return rest.Find(req.Caller, req.Tx.Processes(), guid, "Process")
	}
	app, err := rest.Find(req.Caller, req.Tx.Apps(), guid, "App")
	if err != nil {
		return nil, err
	}
	process, err := actions.ProcessOf(req.Tx, app.GUID, kind)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "Process not found")
	}
	return process, err
}

func processFor(req *rest.Request, action platform.Action) (*platform.Process, *platform.App, error) {
	process, err := processOf(req)
	if err != nil {
		return nil, nil, err
	}
	app, err := req.AppNamed(process.AppGUID, action)
	return process, app, err
}

// checkRequest is a health check in a request.
type checkRequest struct {
	Type *platform.CheckType `json:"type"`
	Data *struct {
		Endpoint          *string                        `json:"endpoint"`
		Timeout           rest.Optional[rest.Whole[int]] `json:"timeout"`
		InvocationTimeout rest.Optional[rest.Whole[int]] `json:"invocation_timeout"`
		Interval          rest.Optional[rest.Whole[int]] `json:"interval"`
	} `json:"data"`
}

// apply changes a check. Absent members stay unchanged, null sets the default, and
// members of other types are removed.
func (b *checkRequest) apply(h *platform.HealthCheck) error {
	if b.Type != nil && *b.Type != h.Type {
		h.Type = *b.Type
		if h.Type != platform.CheckHTTP {
			h.Endpoint = ""
		} else if h.Endpoint == "" {
			h.Endpoint = "/"
		}
	}
	if b.Data == nil {
		return nil
	}
	if b.Data.Endpoint != nil {
		if b.Type != nil && h.Type != platform.CheckHTTP {
			return fault.Invalid("Health check type must be \"http\" to set a health check endpoint")
		}
		if !platform.ValidEndpoint(*b.Data.Endpoint) {
			return fault.Invalid("Health check endpoint must be a valid URI path")
		}
		// Without a type it is kept, for when the type becomes http.
		h.Endpoint = *b.Data.Endpoint
	}
	for _, set := range []struct {
		from rest.Optional[rest.Whole[int]]
		to   *int
	}{
		{b.Data.Timeout, &h.Timeout}, {b.Data.InvocationTimeout, &h.InvocationTimeout}, {b.Data.Interval, &h.Interval},
	} {
		if !set.from.Set {
			continue
		}
		if set.from.Given && set.from.Value.Value < 1 {
			return fault.Invalid("Health check timeouts and intervals must be greater than or equal to 1")
		}
		*set.to = set.from.Value.Value
	}
	return nil
}

type processRequest struct {
	Command   rest.Optional[string]          `json:"command"`
	User      rest.Optional[string]          `json:"user"`
	Health    rest.Loose[checkRequest]       `json:"health_check"`
	Readiness rest.Loose[checkRequest]       `json:"readiness_health_check"`
	OnChange  rest.Optional[string]          `json:"on_credentials"`
	MinHealth rest.Optional[rest.Whole[int]] `json:"min_healthy_time"`
	Metadata  *actions.MetadataPatch         `json:"metadata"`
}

func (a *API) updateProcess(req *rest.Request, body *processRequest) (*platform.Process, error) {
	// A command is code, so space supporters may not set it.
	process, app, err := processFor(req, platform.Develop)
	if err != nil {
		return nil, err
	}
	request := map[string]any{}
	if body.Command.Into(&process.Command) {
		if process.Command == "" && body.Command.Given {
			return nil, fault.Invalid("Command must be between 1 and 4096 characters")
		}
		request["command"] = rest.Hidden
	}
	if body.User.Into(&process.User) {
		request["user"] = process.User
	}
	if body.OnChange.Into(&process.OnCredentials) {
		request["on_credentials"] = process.OnCredentials
	}
	if body.MinHealth.Set {
		process.MinHealthy = nil
		if body.MinHealth.Given {
			process.MinHealthy = &body.MinHealth.Value.Value
		}
		request["min_healthy_time"] = process.MinHealthy
	}
	if err := body.Health.Value.apply(&process.Health); err != nil {
		return nil, err
	}
	if err := body.Readiness.Value.apply(&process.Readiness); err != nil {
		return nil, err
	}
	if err := body.Metadata.Apply(&process.Metadata); err != nil {
		return nil, err
	}
	return process, a.Platform.UpdateProcess(req.Tx, req.Caller.Actor(), app, process, request)
}

func (a *API) scaleProcess(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Instances *rest.Whole[int]   `json:"instances"`
		MemoryMB  *rest.Whole[int]   `json:"memory_in_mb"`
		DiskMB    *rest.Whole[int]   `json:"disk_in_mb"`
		LogRate   *rest.Whole[int64] `json:"log_rate_limit_in_bytes_per_second"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return rest.Answer(a.Server, w, r, processes, http.StatusAccepted,
		func(req *rest.Request) (*platform.Process, error) {
			process, app, err := processFor(req, platform.Operate)
			if err != nil {
				return nil, err
			}
			if err := req.NeedFlag("app_scaling"); err != nil {
				return nil, err
			}
			return process, a.Platform.ScaleProcess(req.Tx, req.Caller.Actor(), app, process,
				platform.Scale{Instances: body.Instances.Get(), MemoryMB: body.MemoryMB.Get(), DiskMB: body.DiskMB.Get(),
					LogRate: body.LogRate.Get()}, false)
		})
}

type processBody struct {
	rest.ResourceBody
	Version   string  `json:"version"`
	Type      string  `json:"type"`
	Command   *string `json:"command"`
	Instances int     `json:"instances"`
	settingsBody
	MinHealthy    *int           `json:"min_healthy_time,omitempty"`
	Relationships map[string]any `json:"relationships"`
	Metadata      rest.Metadata  `json:"metadata"`
	Links         rest.Links     `json:"links"`
	Running       *[]runningBody `json:"process_instances,omitempty"`
}

// settingsBody are the settings that a rollback restores, besides the command.
type settingsBody struct {
	User          *string   `json:"user"`
	MemoryMB      int       `json:"memory_in_mb"`
	DiskMB        int       `json:"disk_in_mb"`
	LogRate       int64     `json:"log_rate_limit_in_bytes_per_second"`
	Health        checkBody `json:"health_check"`
	Readiness     checkBody `json:"readiness_health_check"`
	OnCredentials *string   `json:"on_credentials"`
}

func presentSettings(s *platform.ProcessSettings) settingsBody {
	return settingsBody{rest.OrNull(s.User), s.MemoryMB, s.DiskMB, s.LogRate, presentCheck(s.Health, true),
		presentCheck(s.Readiness, false), rest.OrNull(s.OnCredentials)}
}

type checkBody struct {
	Type platform.CheckType `json:"type"`
	Data map[string]any     `json:"data"`
}

func presentCheck(h platform.HealthCheck, startup bool) checkBody {
	number := func(n int) *int {
		if n == 0 {
			return nil
		}
		return &n
	}
	data := map[string]any{"invocation_timeout": number(h.InvocationTimeout), "interval": number(h.Interval)}
	if startup {
		data["timeout"] = number(h.Timeout)
	}
	if h.Type == platform.CheckHTTP {
		data["endpoint"] = h.Endpoint
	}
	return checkBody{h.Type, data}
}

// presentProcesses presents lists.
func presentProcesses(req *rest.Request, items []*platform.Process) ([]processBody, error) {
	out, err := presentProcessesBare(req, items)
	for i := range out {
		if items[i].Command != "" {
			out[i].Command = rest.OrNull(rest.HiddenInLists)
		}
	}
	return out, err
}

// presentProcessesBare omits the commands. It embeds what the request asks for.
func presentProcessesBare(req *rest.Request, items []*platform.Process) ([]processBody, error) {
	apps, err := appsOf(req, items)
	if err != nil {
		return nil, err
	}
	out := rest.PresentAll(items, func(process *platform.Process) processBody {
		return presentProcess(req, process, apps[process.AppGUID].SpaceGUID)
	})
	if req.HTTP.Method != http.MethodGet || !slices.Contains(listing.SplitValues(req.HTTP.URL.Query().Get("embed")),
		embedInstances) {
		return out, nil
	}
	running, err := RunningOf(req, items)
	for i := range out {
		rows := running[items[i].GUID]
		if rows == nil {
			rows = []runningBody{}
		}
		out[i].Running = &rows
	}
	return out, err
}

// embedInstances is the value of embed that adds the instances of a process.
const embedInstances = "process_instances"

// presentProcessesWhole shows commands; if the user has set none, that of the
// droplet.
func presentProcessesWhole(req *rest.Request, items []*platform.Process) ([]processBody, error) {
	out, err := presentProcessesBare(req, items)
	if err != nil {
		return nil, err
	}
	for i, process := range items {
		command, err := commandOf(req.Tx, process)
		if err != nil {
			return nil, err
		}
		show, err := req.ShowsSecrets(process.AppGUID)
		if err != nil {
			return nil, err
		}
		if command != "" && !show {
			command = rest.Hidden
		}
		out[i].Command = rest.OrNull(command)
	}
	return out, nil
}

// commandOf returns the command of a process.
func commandOf(tx platform.Tx, process *platform.Process) (string, error) {
	if process.Command != "" {
		return process.Command, nil
	}
	app, err := tx.Apps().Get(process.AppGUID)
	if err != nil || app.DropletGUID == "" {
		return "", rest.IgnoreNotFound(err)
	}
	d, err := tx.Droplets().Get(app.DropletGUID)
	if err != nil {
		return "", rest.IgnoreNotFound(err)
	}
	return d.ProcessTypes[process.Type], nil
}

// appsOf returns the apps of processes by guid, without secrets. Apps that do not exist are zero.
func appsOf(req *rest.Request, items []*platform.Process) (map[string]platform.App, error) {
	apps, _, err := req.Tx.Apps().List(platform.Query{WithoutSecrets: true, Where: []platform.Cond{
		platform.InStrings("guid", rest.GUIDsOf(items, func(p *platform.Process) string { return p.AppGUID }))}})
	out := map[string]platform.App{}
	for _, app := range apps {
		out[app.GUID] = *app
	}
	return out, err
}

// revisionOf is the relationship of a process to the revision that it runs.
func revisionOf(process *platform.Process) any {
	if process.RevisionGUID == "" {
		return nil
	}
	return rest.ToOne(process.RevisionGUID)
}

func presentProcess(req *rest.Request, process *platform.Process, space string) processBody {
	self := "/processes/" + rest.Escape(process.GUID)
	return processBody{
		ResourceBody: rest.PresentResource(&process.Resource), Version: process.Version, Type: process.Type,
		Instances: process.Instances, settingsBody: presentSettings(&process.ProcessSettings),
		MinHealthy:    process.MinHealthy,
		Relationships: map[string]any{"app": rest.ToOne(process.AppGUID), "revision": revisionOf(process)},
		Metadata:      rest.PresentMetadata(&process.Metadata),
		Links: rest.Links{
			"self": req.Link(self), "scale": {Href: req.Link(self, "/actions/scale").Href, Method: http.MethodPost},
			"app": req.Link("/apps/", rest.Escape(process.AppGUID)), "space": req.Link("/spaces/", rest.Escape(space)),
			"stats":             req.Link(self, "/stats"),
			"process_instances": req.Link(self, "/process_instances"),
		},
	}
}
