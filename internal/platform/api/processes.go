package api

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

func (a *API) processes() resource[platform.Process, processBody] {
	return resource[platform.Process, processBody]{
		noun: "Process", repo: platform.Tx.Processes, present: a.presentProcesses,
		list: listing{
			filters: map[string]filter{
				"types": byText("type"), "app_guids": byText("app_guid"), "space_guids": byText("space_guid"),
				"organization_guids": byText("organization_guid"),
			},
			embeds: []string{embedInstances},
		},
	}
}

func (a *API) processRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	single := a.processes()
	single.present = a.presentProcessesWhole
	g.Handle(http.MethodGet, "/v3/processes", read, a.processes().lister(a))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/processes", read, listerOf(a, a.processes(), platform.Tx.Apps, "App", "app_guid"))
	// Every endpoint of a process is reached by its guid, and by the app and
	// the type.
	for _, at := range []string{"/v3/processes/{guid}", "/v3/apps/{guid}/processes/{type}"} {
		g.Handle(http.MethodGet, at, read, single.getterBy(a, a.processOf))
		g.Handle(http.MethodPatch, at, write, a.updateProcess)
		g.Handle(http.MethodPost, at+"/actions/scale", write, a.scaleProcess)
		g.Handle(http.MethodGet, at+"/stats", read, a.processStats)
		g.Handle(http.MethodGet, at+"/process_instances", read, a.processInstances)
		g.Handle(http.MethodDelete, at+"/instances/{index}", write, a.restartInstance)
	}
}

// processOf is the process of the path, by either way.
func (a *API) processOf(p *presenter) (*platform.Process, error) {
	guid, kind := web.Param(p.r, "guid"), web.Param(p.r, "type")
	if kind == "" {
		return find(p.caller, p.tx.Processes(), guid, "Process")
	}
	app, err := find(p.caller, p.tx.Apps(), guid, "App")
	if err != nil {
		return nil, err
	}
	process, err := p.tx.Processes().First(platform.Where("app_guid", app.GUID).And(platform.In("type", kind)))
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "Process not found")
	}
	return process, err
}

func (a *API) processFor(p *presenter, action platform.Action) (*platform.Process, *platform.App, error) {
	process, err := a.processOf(p)
	if err != nil {
		return nil, nil, err
	}
	app, err := a.appNamed(p, process.AppGUID, action)
	return process, app, err
}

// checkRequest is a health check of a request.
type checkRequest struct {
	Type *platform.CheckType `json:"type"`
	Data *struct {
		Endpoint          *string              `json:"endpoint"`
		Timeout           optional[whole[int]] `json:"timeout"`
		InvocationTimeout optional[whole[int]] `json:"invocation_timeout"`
		Interval          optional[whole[int]] `json:"interval"`
	} `json:"data"`
}

// apply changes a check; what is not given stays, null is the default, and what
// belongs to another type goes.
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
		if !actions.ValidEndpoint(*b.Data.Endpoint) {
			return fault.Invalid("Health check endpoint must be a valid URI path")
		}
		// Without a type it is kept for the day on which the check is one of http.
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
		Metadata  *actions.MetadataPatch `json:"metadata"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	single := a.processes()
	single.present = a.presentProcessesWhole
	return answer(a, w, r, single, http.StatusOK, func(p *presenter) (*platform.Process, error) {
		// Not those who merely operate it: a command is code.
		process, app, err := a.processFor(p, platform.Develop)
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
		if err := body.Health.value.apply(&process.Health); err != nil {
			return nil, err
		}
		if err := body.Readiness.value.apply(&process.Readiness); err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&process.Metadata); err != nil {
			return nil, err
		}
		return process, a.platform.UpdateProcess(p.tx, p.caller.actor(), app, process, request)
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
	err := answer(a, w, r, a.processes(), http.StatusAccepted, func(p *presenter) (*platform.Process, error) {
		process, app, err := a.processFor(p, platform.Operate)
		if err != nil {
			return nil, err
		}
		if err := a.needFlag(p, "app_scaling"); err != nil {
			return nil, err
		}
		appGUID = app.GUID
		return process, a.platform.ScaleProcess(p.tx, p.caller.actor(), app, process,
			actions.Scale{Instances: body.Instances.get(), MemoryMB: body.MemoryMB.get(), DiskMB: body.DiskMB.get(), LogRate: body.LogRate.get()}, false)
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

// hidden stands for what only developers may see; hiddenInLists for commands in
// lists, which more people read.
const (
	hidden        = "[PRIVATE DATA HIDDEN]"
	hiddenInLists = "[PRIVATE DATA HIDDEN IN LISTS]"
)

// presentProcesses is for lists.
func (a *API) presentProcesses(p *presenter, items []*platform.Process) ([]processBody, error) {
	out, err := a.presentProcessesBare(p, items)
	for i := range out {
		if items[i].Command != "" {
			out[i].Command = orNull(hiddenInLists)
		}
	}
	return out, err
}

// presentProcessesBare leaves out the commands. It embeds what the request asks
// for.
func (a *API) presentProcessesBare(p *presenter, items []*platform.Process) ([]processBody, error) {
	spaces, err := spacesOf(p, items)
	if err != nil {
		return nil, err
	}
	out := presentAll(items, func(process *platform.Process) processBody {
		return presentProcess(p, process, spaces[process.AppGUID])
	})
	if p.r.Method != http.MethodGet || !slices.Contains(splitValues(p.r.URL.Query().Get("embed")), embedInstances) {
		return out, nil
	}
	running, err := runningOf(p, items)
	for i := range out {
		rows := running[items[i].GUID]
		if rows == nil {
			rows = []runningBody{}
		}
		out[i].Running = &rows
	}
	return out, err
}

// embedInstances is what can be embedded into a process.
const embedInstances = "process_instances"

// presentProcessesWhole shows commands, those of the droplet where the user
// set none.
func (a *API) presentProcessesWhole(p *presenter, items []*platform.Process) ([]processBody, error) {
	out, err := a.presentProcessesBare(p, items)
	if err != nil {
		return nil, err
	}
	for i, process := range items {
		command, err := commandOf(p.tx, process)
		if err != nil {
			return nil, err
		}
		show, err := p.showsSecrets(process.AppGUID)
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

// commandOf is what a process runs.
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

func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// spacesOf are the spaces of a page of processes, by their apps.
func spacesOf(p *presenter, items []*platform.Process) (map[string]string, error) {
	apps, _, err := p.tx.Apps().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guidsOf(items, func(p *platform.Process) string { return p.AppGUID }))}})
	out := map[string]string{}
	for _, app := range apps {
		out[app.GUID] = app.SpaceGUID
	}
	return out, err
}

func presentProcess(p *presenter, process *platform.Process, space string) processBody {
	self := "/processes/" + escape(process.GUID)
	return processBody{
		resourceBody: presentResource(&process.Resource), Version: process.Version, Type: process.Type, User: orNull(process.User),
		Instances: process.Instances, MemoryMB: process.MemoryMB, DiskMB: process.DiskMB, LogRate: process.LogRate,
		Health: presentCheck(process.Health, true), Readiness: presentCheck(process.Readiness, false),
		Relationships: map[string]any{"app": toOne(process.AppGUID), "revision": nil}, Metadata: presentMetadata(&process.Metadata),
		Links: links{
			"self": p.v3(self), "scale": {Href: p.v3(self, "/actions/scale").Href, Method: http.MethodPost},
			"app": p.v3("/apps/", escape(process.AppGUID)), "space": p.v3("/spaces/", escape(space)), "stats": p.v3(self, "/stats"),
			"process_instances": p.v3(self, "/process_instances"),
		},
	}
}
