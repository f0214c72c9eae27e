package api

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

var v2Apps = v2Kind[platform.App]{
	noun: "App", path: "/v2/apps", repo: platform.Tx.Apps, base: (*platform.App).Base,
	filters:  map[string]string{"name": "name", "space_guid": "space_guid", "organization_guid": "organization_guid"},
	entities: v2AppEntities,
}

// v2AppEntities presents apps as v2 knew them: an app is its web process. The stack is
// inlined, because the cf CLI cannot do without it.
func v2AppEntities(req *request, items []*platform.App) ([]object, error) {
	guids := guidsOf(items, func(a *platform.App) string { return a.GUID })
	web, err := webProcesses(req.tx, guids)
	if err != nil {
		return nil, err
	}
	droplets, err := byGUID(req.tx.Droplets(), guidsOf(items, func(a *platform.App) string { return a.DropletGUID }), (*platform.Droplet).Base)
	if err != nil {
		return nil, err
	}
	stacks, err := v2StacksByName(req.tx)
	if err != nil {
		return nil, err
	}
	return presentAll(items, func(app *platform.App) object {
		out := object{
			"name": app.Name, "space_guid": app.SpaceGUID, "space_url": "/v2/spaces/" + escape(app.SpaceGUID), "state": string(app.State),
			"enable_ssh": app.HasFeature(platform.FeatureSSH), "buildpack": nil, "detected_buildpack": nil, "package_state": "PENDING",
		}
		if p := web[app.GUID]; p != nil {
			out["instances"], out["memory"], out["disk_quota"] = p.Instances, p.MemoryMB, p.DiskMB
			out["health_check_type"], out["health_check_http_endpoint"], out["health_check_timeout"] = p.Health.Type, p.Health.Endpoint, orNullInt(p.Health.Timeout)
		}
		if len(app.Lifecycle.Buildpacks) > 0 {
			out["buildpack"] = app.Lifecycle.Buildpacks[0]
		}
		if d := droplets[app.DropletGUID]; d != nil {
			out["package_state"], out["package_updated_at"] = "STAGED", timestamp(d.Created)
			if len(d.Buildpacks) > 0 {
				out["detected_buildpack"] = d.Buildpacks[len(d.Buildpacks)-1].Name
			}
		}
		if s := stacks[app.Lifecycle.Stack]; s != nil {
			out["stack_guid"], out["stack_url"] = s.GUID, "/v2/stacks/"+escape(s.GUID)
			out["stack"] = object{"metadata": v2Metadata("/v2/stacks", &s.Resource), "entity": v2StackEntity(s)}
		}
		return out
	}), nil
}

func orNullInt(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// webProcesses returns the web processes of apps, by the guid of the app.
func webProcesses(tx platform.Tx, apps []string) (map[string]*platform.Process, error) {
	found, _, err := tx.Processes().List(platform.Query{
		Where: []platform.Cond{platform.InStrings("app_guid", apps), platform.In("type", platform.WebProcess)}, WithoutSecrets: true,
	})
	out := map[string]*platform.Process{}
	for _, p := range found {
		out[p.AppGUID] = p
	}
	return out, err
}

func v2StacksByName(tx platform.Tx) (map[string]*platform.Stack, error) {
	all, _, err := tx.Stacks().List(platform.Query{})
	out := map[string]*platform.Stack{}
	for _, s := range all {
		out[s.Name] = s
	}
	return out, err
}

// v2AppSummaries presents apps with their running instances, routes and services, but
// without what only developers see.
func v2AppSummaries(req *request, items []*platform.App) ([]object, error) {
	out, err := v2AppEntities(req, items)
	if err != nil {
		return nil, err
	}
	guids := guidsOf(items, func(a *platform.App) string { return a.GUID })
	counts, err := presentSummaries(req, items)
	if err != nil {
		return nil, err
	}
	routes, err := v2RoutesOf(req.tx, guids)
	if err != nil {
		return nil, err
	}
	services, err := v2ServicesOf(req.tx, guids)
	if err != nil {
		return nil, err
	}
	for i, app := range items {
		one := out[i]
		delete(one, "stack")
		one["guid"], one["running_instances"] = app.GUID, counts[i].Instances.Running
		one["routes"], one["urls"] = []object{}, []string{}
		for _, route := range routes[app.GUID] {
			one["routes"] = append(one["routes"].([]object), route.object)
			one["urls"] = append(one["urls"].([]string), route.url)
		}
		one["services"], one["service_names"] = []object{}, []string{}
		for _, s := range services[app.GUID] {
			one["services"] = append(one["services"].([]object), object{"guid": s.GUID, "name": s.Name})
			one["service_names"] = append(one["service_names"].([]string), s.Name)
		}
		one["service_count"] = len(services[app.GUID])
	}
	return out, nil
}

type v2Route struct {
	object object
	url    string
}

// v2RoutesOf returns the routes of apps, by the guid of the app.
func v2RoutesOf(tx platform.Tx, apps []string) (map[string][]v2Route, error) {
	mapped, _, err := tx.Destinations().List(platform.Query{Where: []platform.Cond{platform.InStrings("app_guid", apps)}})
	if err != nil {
		return nil, err
	}
	routes, err := byGUID(tx.Routes(), guidsOf(mapped, func(d *platform.Destination) string { return d.RouteGUID }), (*platform.Route).Base)
	if err != nil {
		return nil, err
	}
	var all []*platform.Route
	for _, r := range routes {
		all = append(all, r)
	}
	domains, err := byGUID(tx.Domains(), guidsOf(all, func(r *platform.Route) string { return r.DomainGUID }), (*platform.Domain).Base)
	if err != nil {
		return nil, err
	}
	out := map[string][]v2Route{}
	seen := map[string]bool{}
	for _, m := range mapped {
		r := routes[m.RouteGUID]
		if r == nil || domains[r.DomainGUID] == nil || seen[m.AppGUID+r.GUID] {
			continue
		}
		seen[m.AppGUID+r.GUID] = true
		d := domains[r.DomainGUID]
		out[m.AppGUID] = append(out[m.AppGUID], v2Route{
			object: object{"guid": r.GUID, "host": r.Host, "path": r.Path, "port": orNullInt(r.Port), "domain": object{"guid": d.GUID, "name": d.Name}},
			url:    platform.RouteURL(r, d),
		})
	}
	return out, nil
}

// v2ServicesOf returns the service instances that apps are bound to, by the guid of the
// app.
func v2ServicesOf(tx platform.Tx, apps []string) (map[string][]*platform.ServiceInstance, error) {
	bindings, _, err := tx.ServiceBindings().List(platform.Query{
		Where: []platform.Cond{platform.InStrings("app_guid", apps), platform.In("type", platform.BindingApp)}, WithoutSecrets: true,
	})
	if err != nil {
		return nil, err
	}
	instances, err := byGUID(tx.ServiceInstances(), guidsOf(bindings, func(b *platform.ServiceBinding) string { return b.InstanceGUID }), (*platform.ServiceInstance).Base)
	out := map[string][]*platform.ServiceInstance{}
	for _, b := range bindings {
		if i := instances[b.InstanceGUID]; i != nil {
			out[b.AppGUID] = append(out[b.AppGUID], i)
		}
	}
	return out, err
}

func (a *API) v2AppSummary(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		shown, err := v2AppSummaries(req, []*platform.App{app})
		if err != nil {
			return nil, err
		}
		if seesEnv(req, app) == nil {
			shown[0]["environment_json"] = nonNil(app.Env)
		}
		secret, err := req.showsSecrets(app.GUID)
		if err != nil || !secret {
			return shown[0], err
		}
		process, err := actions.ProcessOf(req.tx, app.GUID, platform.WebProcess)
		if err == nil {
			shown[0]["command"] = orNull(process.Command)
		}
		return shown[0], ignoreNotFound(err)
	})
}

// v2SpaceSummary presents the apps and service instances of a space.
func (a *API) v2SpaceSummary(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		space, err := find(req.caller, req.tx.Spaces(), web.Param(r, "guid"), "Space")
		if err != nil {
			return nil, err
		}
		inSpace := platform.Where("space_guid", space.GUID)
		inSpace.Reader, inSpace.WithoutSecrets = req.caller.Reader(), true
		items, _, err := req.tx.Apps().List(inSpace)
		if err != nil {
			return nil, err
		}
		apps, err := v2AppSummaries(req, items)
		if err != nil {
			return nil, err
		}
		services, err := v2ServiceSummaries(req, inSpace)
		return object{"guid": space.GUID, "name": space.Name, "apps": apps, "services": services}, err
	})
}

func v2ServiceSummaries(req *request, inSpace platform.Query) ([]object, error) {
	items, _, err := req.tx.ServiceInstances().List(inSpace)
	if err != nil {
		return nil, err
	}
	plans, err := byGUID(req.tx.ServicePlans(), guidsOf(items, func(i *platform.ServiceInstance) string { return i.PlanGUID }), (*platform.ServicePlan).Base)
	if err != nil {
		return nil, err
	}
	var all []*platform.ServicePlan
	for _, p := range plans {
		all = append(all, p)
	}
	offerings, err := byGUID(req.tx.ServiceOfferings(), guidsOf(all, func(p *platform.ServicePlan) string { return p.OfferingGUID }), (*platform.ServiceOffering).Base)
	return presentAll(items, func(i *platform.ServiceInstance) object {
		out := object{
			"guid": i.GUID, "name": i.Name,
			"last_operation": object{"type": i.Last.Type, "state": i.Last.State, "description": i.Last.Description},
		}
		if p := plans[i.PlanGUID]; p != nil {
			plan := object{"guid": p.GUID, "name": p.Name}
			if o := offerings[p.OfferingGUID]; o != nil {
				plan["service"] = object{"guid": o.GUID, "label": o.Name, "provider": nil, "version": nil}
			}
			out["service_plan"] = plan
		}
		return out
	}), err
}

// v2Rows returns the web process of the app of the path and its instances. As in v2, an
// app that is stopped has none, which is an error that clients expect.
func v2Rows(req *request) (*platform.Process, []*platform.Instance, error) {
	app, err := find(req.caller, req.tx.Apps(), web.Param(req.r, "guid"), "App")
	if err != nil {
		return nil, nil, err
	}
	if app.State != platform.AppStarted {
		return nil, nil, fault.New(fault.NoInstances, "Instances error: Request failed for app: %s as the app is in stopped state.", app.Name)
	}
	process, err := actions.ProcessOf(req.tx, app.GUID, platform.WebProcess)
	if err != nil {
		return nil, nil, err
	}
	all, err := actions.InstancesOf(req.tx, []*platform.Process{process})
	return process, all[process.GUID], err
}

func (a *API) v2Instances(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		process, _, err := v2Rows(req)
		if err != nil {
			return nil, err
		}
		rows, err := runningOf(req, []*platform.Process{process})
		out := object{}
		for _, row := range rows[process.GUID] {
			out[strconv.Itoa(row.Index)] = object{"state": row.State, "since": row.Since, "uptime": seconds(a.now(), time.Unix(row.Since, 0))}
		}
		return out, err
	})
}

func (a *API) v2Stats(w http.ResponseWriter, r *http.Request) error {
	var process *platform.Process
	var rows []*platform.Instance
	err := a.store.View(r.Context(), func(tx platform.Tx) (err error) {
		process, rows, err = v2Rows(newRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	usage := a.runtime.Usage(r.Context(), slices.DeleteFunc(slices.Clone(rows), func(row *platform.Instance) bool { return row == nil }))
	out := object{}
	for i, row := range rows {
		stats := object{"mem_quota": int64(process.MemoryMB) << 20, "disk_quota": int64(process.DiskMB) << 20}
		state := platform.InstanceDown
		if row != nil {
			state = row.State
			stats["uptime"] = seconds(a.now(), row.Since)
			if u, ok := usage[row.GUID]; ok {
				stats["usage"] = object{"time": timestamp(u.Time), "cpu": u.CPU, "mem": u.Memory, "disk": u.Disk}
			}
		}
		out[strconv.Itoa(i)] = object{"state": state, "stats": stats}
	}
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}
