package v2

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/rest"
)

var appKind = kind[platform.App]{
	noun: "App", path: "/v2/apps", repo: platform.Tx.Apps, base: (*platform.App).Base,
	filters:  map[string]string{"name": "name", "space_guid": "space_guid", "organization_guid": "organization_guid"},
	entities: appEntities,
}

// appEntities presents apps as v2 knew them: an app is its web process. The stack is
// inlined, because the cf CLI cannot do without it.
func appEntities(req *rest.Request, items []*platform.App) ([]rest.Object, error) {
	guids := rest.GUIDsOf(items, func(a *platform.App) string { return a.GUID })
	web, err := webProcesses(req.Tx, guids)
	if err != nil {
		return nil, err
	}
	droplets, err := rest.ByGUID(req.Tx.Droplets(), items, func(a *platform.App) string { return a.DropletGUID })
	if err != nil {
		return nil, err
	}
	stacks, err := stacksByName(req.Tx)
	if err != nil {
		return nil, err
	}
	return rest.PresentAll(items, func(app *platform.App) rest.Object {
		out := rest.Object{
			"name": app.Name, "space_guid": app.SpaceGUID, "space_url": "/v2/spaces/" + rest.Escape(app.SpaceGUID),
			"state":      string(app.State),
			"enable_ssh": app.HasFeature(platform.FeatureSSH), "buildpack": nil, "detected_buildpack": nil,
			"package_state": "PENDING",
		}
		if p := web[app.GUID]; p != nil {
			out["instances"], out["memory"], out["disk_quota"] = p.Instances, p.MemoryMB, p.DiskMB
			out["health_check_type"], out["health_check_http_endpoint"], out["health_check_timeout"] = p.Health.Type,
				p.Health.Endpoint, orNullInt(p.Health.Timeout)
		}
		if len(app.Lifecycle.Buildpacks) > 0 {
			out["buildpack"] = app.Lifecycle.Buildpacks[0]
		}
		if d := droplets[app.DropletGUID]; d != nil {
			out["package_state"], out["package_updated_at"] = "STAGED", rest.Timestamp(d.Created)
			if len(d.Buildpacks) > 0 {
				out["detected_buildpack"] = d.Buildpacks[len(d.Buildpacks)-1].Name
			}
		}
		if s := stacks[app.Lifecycle.Stack]; s != nil {
			out["stack_guid"], out["stack_url"] = s.GUID, "/v2/stacks/"+rest.Escape(s.GUID)
			out["stack"] = rest.Object{"metadata": metadata("/v2/stacks", &s.Resource), "entity": stackEntity(s)}
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
		Where:          []platform.Cond{platform.InStrings("app_guid", apps), platform.In("type", platform.WebProcess)},
		WithoutSecrets: true,
	})
	out := map[string]*platform.Process{}
	for _, p := range found {
		out[p.AppGUID] = p
	}
	return out, err
}

func stacksByName(tx platform.Tx) (map[string]*platform.Stack, error) {
	all, _, err := tx.Stacks().List(platform.Query{})
	out := map[string]*platform.Stack{}
	for _, s := range all {
		out[s.Name] = s
	}
	return out, err
}

// appSummaries presents apps with their running instances, routes and services, but
// without what only developers see.
func appSummaries(req *rest.Request, items []*platform.App) ([]rest.Object, error) {
	out, err := appEntities(req, items)
	if err != nil {
		return nil, err
	}
	guids := rest.GUIDsOf(items, func(a *platform.App) string { return a.GUID })
	counts, err := apps.Summaries(req, items)
	if err != nil {
		return nil, err
	}
	routes, err := routesOf(req.Tx, guids)
	if err != nil {
		return nil, err
	}
	services, err := servicesOf(req.Tx, guids)
	if err != nil {
		return nil, err
	}
	for i, app := range items {
		one := out[i]
		delete(one, "stack")
		one["guid"], one["running_instances"] = app.GUID, counts[i].Instances.Running
		one["routes"], one["urls"] = []rest.Object{}, []string{}
		for _, route := range routes[app.GUID] {
			one["routes"] = append(one["routes"].([]rest.Object), route.body)
			one["urls"] = append(one["urls"].([]string), route.url)
		}
		one["services"], one["service_names"] = []rest.Object{}, []string{}
		for _, s := range services[app.GUID] {
			one["services"] = append(one["services"].([]rest.Object), rest.Object{"guid": s.GUID, "name": s.Name})
			one["service_names"] = append(one["service_names"].([]string), s.Name)
		}
		one["service_count"] = len(services[app.GUID])
	}
	return out, nil
}

type route struct {
	body rest.Object
	url  string
}

// routesOf returns the routes of apps, by the guid of the app.
func routesOf(tx platform.Tx, apps []string) (map[string][]route, error) {
	mapped, _, err := tx.Destinations().List(platform.Query{Where: []platform.Cond{platform.InStrings("app_guid", apps)}})
	if err != nil {
		return nil, err
	}
	routes, err := rest.ByGUID(tx.Routes(), mapped, func(d *platform.Destination) string { return d.RouteGUID })
	if err != nil {
		return nil, err
	}
	var all []*platform.Route
	for _, r := range routes {
		all = append(all, r)
	}
	domains, err := rest.ByGUID(tx.Domains(), all, func(r *platform.Route) string { return r.DomainGUID })
	if err != nil {
		return nil, err
	}
	out := map[string][]route{}
	seen := map[string]bool{}
	for _, m := range mapped {
		r := routes[m.RouteGUID]
		if r == nil || domains[r.DomainGUID] == nil || seen[m.AppGUID+r.GUID] {
			continue
		}
		seen[m.AppGUID+r.GUID] = true
		d := domains[r.DomainGUID]
		out[m.AppGUID] = append(out[m.AppGUID], route{
			body: rest.Object{"guid": r.GUID, "host": r.Host, "path": r.Path, "port": orNullInt(r.Port),
				"domain": rest.Object{"guid": d.GUID, "name": d.Name}},
			url: platform.RouteURL(r, d),
		})
	}
	return out, nil
}

// servicesOf returns the service instances that apps are bound to, by the guid of the
// app.
func servicesOf(tx platform.Tx, apps []string) (map[string][]*platform.ServiceInstance, error) {
	bindings, _, err := tx.ServiceBindings().List(platform.Query{
		Where:          []platform.Cond{platform.InStrings("app_guid", apps), platform.In("type", platform.BindingApp)},
		WithoutSecrets: true,
	})
	if err != nil {
		return nil, err
	}
	instances, err := rest.ByGUID(tx.ServiceInstances(), bindings,
		func(b *platform.ServiceBinding) string { return b.InstanceGUID })
	out := map[string][]*platform.ServiceInstance{}
	for _, b := range bindings {
		if i := instances[b.InstanceGUID]; i != nil {
			out[b.AppGUID] = append(out[b.AppGUID], i)
		}
	}
	return out, err
}

func appSummary(req *rest.Request, app *platform.App) (any, error) {
	shown, err := appSummaries(req, []*platform.App{app})
	if err != nil {
		return nil, err
	}
	if apps.SeesEnv(req, app) == nil {
		shown[0]["environment_json"] = rest.NonNil(app.Env)
	}
	secret, err := req.ShowsSecrets(app.GUID)
	if err != nil || !secret {
		return shown[0], err
	}
	process, err := actions.ProcessOf(req.Tx, app.GUID, platform.WebProcess)
	if err == nil {
		shown[0]["command"] = rest.OrNull(process.Command)
	}
	return shown[0], rest.IgnoreNotFound(err)
}

// spaceSummary presents the apps and service instances of a space.
func spaceSummary(req *rest.Request, space *platform.Space) (any, error) {
	inSpace := platform.Where("space_guid", space.GUID)
	inSpace.Reader, inSpace.WithoutSecrets = req.Caller.Reader(), true
	items, _, err := req.Tx.Apps().List(inSpace)
	if err != nil {
		return nil, err
	}
	apps, err := appSummaries(req, items)
	if err != nil {
		return nil, err
	}
	services, err := serviceSummaries(req, inSpace)
	return rest.Object{"guid": space.GUID, "name": space.Name, "apps": apps, "services": services}, err
}

func serviceSummaries(req *rest.Request, inSpace platform.Query) ([]rest.Object, error) {
	items, _, err := req.Tx.ServiceInstances().List(inSpace)
	if err != nil {
		return nil, err
	}
	plans, err := rest.ByGUID(req.Tx.ServicePlans(), items, func(i *platform.ServiceInstance) string { return i.PlanGUID })
	if err != nil {
		return nil, err
	}
	var all []*platform.ServicePlan
	for _, p := range plans {
		all = append(all, p)
	}
	offerings, err := rest.ByGUID(req.Tx.ServiceOfferings(), all,
		func(p *platform.ServicePlan) string { return p.OfferingGUID })
	return rest.PresentAll(items, func(i *platform.ServiceInstance) rest.Object {
		out := rest.Object{
			"guid": i.GUID, "name": i.Name,
			"last_operation": rest.Object{"type": i.Last.Type, "state": i.Last.State, "description": i.Last.Description},
		}
		if p := plans[i.PlanGUID]; p != nil {
			plan := rest.Object{"guid": p.GUID, "name": p.Name}
			if o := offerings[p.OfferingGUID]; o != nil {
				plan["service"] = rest.Object{"guid": o.GUID, "label": o.Name, "provider": nil, "version": nil}
			}
			out["service_plan"] = plan
		}
		return out
	}), err
}

// webInstances returns the web process of the app of the path and its instances. As in v2, an
// app that is stopped has none, which is an error that clients expect.
func webInstances(req *rest.Request) (*platform.Process, []*platform.Instance, error) {
	app, err := apps.Apps.Find(req)
	if err != nil {
		return nil, nil, err
	}
	if app.State != platform.AppStarted {
		return nil, nil, fault.New(fault.NoInstances,
			"Instances error: Request failed for app: %s as the app is in stopped state.", app.Name)
	}
	process, err := actions.ProcessOf(req.Tx, app.GUID, platform.WebProcess)
	if err != nil {
		return nil, nil, err
	}
	all, err := actions.InstancesOf(req.Tx, []*platform.Process{process})
	return process, all[process.GUID], err
}

func (a *API) instances(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		process, _, err := webInstances(req)
		if err != nil {
			return nil, err
		}
		rows, err := apps.RunningOf(req, []*platform.Process{process})
		out := rest.Object{}
		for _, row := range rows[process.GUID] {
			out[strconv.Itoa(row.Index)] = rest.Object{"state": row.State, "since": row.Since,
				"uptime": apps.Seconds(time.Unix(row.Since, 0))}
		}
		return out, err
	})
}

func (a *API) stats(w http.ResponseWriter, r *http.Request) error {
	var process *platform.Process
	var rows []*platform.Instance
	err := a.Store.View(r.Context(), func(tx platform.Tx) (err error) {
		process, rows, err = webInstances(rest.NewRequest(tx, r))
		return err
	})
	if err != nil {
		return err
	}
	usage := a.Runtime.Usage(r.Context(), slices.DeleteFunc(slices.Clone(rows),
		func(row *platform.Instance) bool { return row == nil }))
	out := rest.Object{}
	for i, row := range rows {
		stats := rest.Object{"mem_quota": int64(process.MemoryMB) << 20, "disk_quota": int64(process.DiskMB) << 20}
		state := platform.InstanceDown
		if row != nil {
			state = row.State
			stats["uptime"] = apps.Seconds(row.Since)
			if u, ok := usage[row.GUID]; ok {
				stats["usage"] = rest.Object{"time": rest.Timestamp(u.Time), "cpu": u.CPU, "mem": u.Memory, "disk": u.Disk}
			}
		}
		out[strconv.Itoa(i)] = rest.Object{"state": state, "stats": stats}
	}
	return web.Answer(w, http.StatusOK, out, nil)
}
