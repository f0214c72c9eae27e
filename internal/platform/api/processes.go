package api

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

func (a *API) processes() resource[platform.Process, processBody] {
	return resource[platform.Process, processBody]{
		noun: "Process", repo: platform.Tx.Processes, present: a.presentProcesses,
		list: listing.Params{
			Filters: listing.Filters{
				"types": listing.Text("type"), "app_guids": listing.Text("app_guid"), "space_guids": listing.Text("space_guid"),
				"organization_guids": listing.Text("organization_guid"),
			},
			Embeds: []string{embedInstances},
		},
	}
}

func (a *API) processRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	single := a.processes()
	single.present = a.presentProcessesWhole
	g.Handle(http.MethodGet, "/v3/processes", read, a.processes().lister(a))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/processes", read, listerOf(a, a.processes(), platform.Tx.Apps, "App", "app_guid"))
	// Every endpoint of a process has two paths: by its guid, and by app and type.
	for _, at := range []string{"/v3/processes/{guid}", "/v3/apps/{guid}/processes/{type}"} {
		g.Handle(http.MethodGet, at, read, single.getterBy(a, a.processOf))
		g.Handle(http.MethodPatch, at, write, a.updateProcess)
		g.Handle(http.MethodPost, at+"/actions/scale", write, a.scaleProcess)
		g.Handle(http.MethodGet, at+"/stats", read, a.processStats)
		g.Handle(http.MethodGet, at+"/process_instances", read, a.processInstances)
		g.Handle(http.MethodDelete, at+"/instances/{index}", write, a.restartInstance)
	}
}

// processOf returns the process of either path.
func (a *API) processOf(req *request) (*platform.Process, error) {
	guid, kind := web.Param(req.r, "guid"), web.Param(req.r, "type")
	if kind == "" {
		return find(req.caller, req.tx.Processes(), guid, "Process")
	}
	app, err := find(req.caller, req.tx.Apps(), guid, "App")
	if err != nil {
		return nil, err
	}
	process, err := actions.ProcessOf(req.tx, app.GUID, kind)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "Process not found")
	}
	return process, err
}

func (a *API) processFor(req *request, action platform.Action) (*platform.Process, *platform.App, error) {
	process, err := a.processOf(req)
	if err != nil {
		return nil, nil, err
	}
	app, err := req.appNamed(process.AppGUID, action)
	return process, app, err
}

// checkRequest is a health check in a request.
type checkRequest struct {
	Type *platform.CheckType `json:"type"`
	Data *struct {
		Endpoint          *string              `json:"endpoint"`
		Timeout           optional[whole[int]] `json:"timeout"`
		InvocationTimeout optional[whole[int]] `json:"invocation_timeout"`
		Interval          optional[whole[int]] `json:"interval"`
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
		from optional[whole[int]]
		to   *int
	}{
		{b.Data.Timeout, &h.Timeout}, {b.Data.InvocationTimeout, &h.InvocationTimeout}, {b.Data.Interval, &h.Interval},
	} {
		if !set.from.set {
			continue
		}
		if set.from.given && set.from.value.value < 1 {
			return fault.Invalid("Health check timeouts and intervals must be greater than or equal to 1")
		}
		*set.to = set.from.value.value
	}
	return nil
}

func (a *API) updateProcess(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Command   optional[string]       `json:"command"`
		User      optional[string]       `json:"user"`
		Health    loose[checkRequest]    `json:"health_check"`
		Readiness loose[checkRequest]    `json:"readiness_health_check"`
		OnChange  optional[string]       `json:"on_credentials"`
		MinHealth optional[whole[int]]   `json:"min_healthy_time"`
		Metadata  *actions.MetadataPatch `json:"metadata"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	single := a.processes()
	single.present = a.presentProcessesWhole
	return answer(a, w, r, single, http.StatusOK, func(req *request) (*platform.Process, error) {
		// A command is code, so space supporters may not set it.
		process, app, err := a.processFor(req, platform.Develop)
		if err != nil {
			return nil, err
		}
		request := map[string]any{}
		if body.Command.set {
			if body.Command.value == "" && body.Command.given {
				return nil, fault.Invalid("Command must be between 1 and 4096 characters")
			}
			process.Command = body.Command.value
			request["command"] = hidden
		}
		if body.User.set {
			process.User = body.User.value
			request["user"] = body.User.value
		}
		if body.OnChange.set {
			process.OnCredentials = body.OnChange.value
			request["on_credentials"] = body.OnChange.value
		}
		if body.MinHealth.set {
			process.MinHealthy = nil
			if body.MinHealth.given {
				process.MinHealthy = &body.MinHealth.value.value
			}
			request["min_healthy_time"] = process.MinHealthy
		}
		if err := body.Health.value.apply(&process.Health); err != nil {
			return nil, err
		}
		if err := body.Readiness.value.apply(&process.Readiness); err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&process.Metadata); err != nil {
			return nil, err
		}
		return process, a.platform.UpdateProcess(req.tx, req.caller.actor(), app, process, request)
	})
}

func (a *API) scaleProcess(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Instances *whole[int]   `json:"instances"`
		MemoryMB  *whole[int]   `json:"memory_in_mb"`
		DiskMB    *whole[int]   `json:"disk_in_mb"`
		LogRate   *whole[int64] `json:"log_rate_limit_in_bytes_per_second"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	var appGUID string
	err := answer(a, w, r, a.processes(), http.StatusAccepted, func(req *request) (*platform.Process, error) {
		process, app, err := a.processFor(req, platform.Operate)
		if err != nil {
			return nil, err
		}
		if err := req.needFlag("app_scaling"); err != nil {
			return nil, err
		}
		appGUID = app.GUID
		return process, a.platform.ScaleProcess(req.tx, req.caller.actor(), app, process,
			platform.Scale{Instances: body.Instances.get(), MemoryMB: body.MemoryMB.get(), DiskMB: body.DiskMB.get(), LogRate: body.LogRate.get()}, false)
	})
	if err == nil {
		a.signals.AppsChanged(appGUID)
	}
	return err
}

type processBody struct {
	resourceBody
	Version       string         `json:"version"`
	Type          string         `json:"type"`
	Command       *string        `json:"command"`
	User          *string        `json:"user"`
	Instances     int            `json:"instances"`
	MemoryMB      int            `json:"memory_in_mb"`
	DiskMB        int            `json:"disk_in_mb"`
	LogRate       int64          `json:"log_rate_limit_in_bytes_per_second"`
	Health        checkBody      `json:"health_check"`
	Readiness     checkBody      `json:"readiness_health_check"`
	OnCredentials string         `json:"on_credentials,omitempty"`
	MinHealthy    *int           `json:"min_healthy_time,omitempty"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
	Running       *[]runningBody `json:"process_instances,omitempty"`
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
func (a *API) presentProcesses(req *request, items []*platform.Process) ([]processBody, error) {
	out, err := a.presentProcessesBare(req, items)
	for i := range out {
		if items[i].Command != "" {
			out[i].Command = orNull(hiddenInLists)
		}
	}
	return out, err
}

// presentProcessesBare omits the commands. It embeds what the request asks for.
func (a *API) presentProcessesBare(req *request, items []*platform.Process) ([]processBody, error) {
	spaces, err := spacesOf(req, items)
	if err != nil {
		return nil, err
	}
	out := presentAll(items, func(process *platform.Process) processBody {
		return presentProcess(req, process, spaces[process.AppGUID])
	})
	if req.r.Method != http.MethodGet || !slices.Contains(listing.SplitValues(req.r.URL.Query().Get("embed")), embedInstances) {
		return out, nil
	}
	running, err := runningOf(req, items)
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
func (a *API) presentProcessesWhole(req *request, items []*platform.Process) ([]processBody, error) {
	out, err := a.presentProcessesBare(req, items)
	if err != nil {
		return nil, err
	}
	for i, process := range items {
		command, err := commandOf(req.tx, process)
		if err != nil {
			return nil, err
		}
		show, err := req.showsSecrets(process.AppGUID)
		if err != nil {
			return nil, err
		}
		if command != "" && !show {
			command = hidden
		}
		out[i].Command = orNull(command)
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
		return "", ignoreNotFound(err)
	}
	d, err := tx.Droplets().Get(app.DropletGUID)
	if err != nil {
		return "", ignoreNotFound(err)
	}
	return d.ProcessTypes[process.Type], nil
}

// spacesOf returns the spaces of a page of processes by app.
func spacesOf(req *request, items []*platform.Process) (map[string]string, error) {
	apps, _, err := req.tx.Apps().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guidsOf(items, func(p *platform.Process) string { return p.AppGUID }))}, WithoutSecrets: true})
	out := map[string]string{}
	for _, app := range apps {
		out[app.GUID] = app.SpaceGUID
	}
	return out, err
}

// revisionOf is the relationship of a process to the revision that it runs.
func revisionOf(process *platform.Process) any {
	if process.RevisionGUID == "" {
		return nil
	}
	return toOne(process.RevisionGUID)
}

func presentProcess(req *request, process *platform.Process, space string) processBody {
	self := "/processes/" + escape(process.GUID)
	return processBody{
		resourceBody: presentResource(&process.Resource), Version: process.Version, Type: process.Type, User: orNull(process.User),
		Instances: process.Instances, MemoryMB: process.MemoryMB, DiskMB: process.DiskMB, LogRate: process.LogRate,
		Health: presentCheck(process.Health, true), Readiness: presentCheck(process.Readiness, false), OnCredentials: process.OnCredentials,
		MinHealthy:    process.MinHealthy,
		Relationships: map[string]any{"app": toOne(process.AppGUID), "revision": revisionOf(process)}, Metadata: presentMetadata(&process.Metadata),
		Links: links{
			"self": req.v3(self), "scale": {Href: req.v3(self, "/actions/scale").Href, Method: http.MethodPost},
			"app": req.v3("/apps/", escape(process.AppGUID)), "space": req.v3("/spaces/", escape(space)), "stats": req.v3(self, "/stats"),
			"process_instances": req.v3(self, "/process_instances"),
		},
	}
}
