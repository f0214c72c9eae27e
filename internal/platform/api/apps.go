package api

import (
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var apps = resource[platform.App, appBody]{
	noun: "App", repo: platform.Tx.Apps, present: each(presentApp), withoutSecrets: true,
	list: listing.Params{
		Filters: listing.Filters{
			"names": listing.Text("name"), "space_guids": listing.Text("space_guid"), "organization_guids": listing.Text("organization_guid"),
			"stacks": listing.Text("stack"), "lifecycle_type": listing.Word("lifecycle_type", "buildpack", "docker", "cnb"),
		},
		Orders: []string{"name", "state"}, Includes: []string{"space", "org", "space.organization"},
	},
	include: includeOfApps,
}

func includeOfApps(req *request, l *listing.Request, items []*platform.App) (map[string]any, error) {
	if len(l.Include) == 0 {
		return nil, nil
	}
	return includePlaces(req, l, guidsOf(items, func(app *platform.App) string { return app.SpaceGUID }))
}

func (a *API) appRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/apps", read, apps.lister(a))
	g.Handle(http.MethodGet, "/v3/app_summaries", read, appSummaries.lister(a))
	g.Handle(http.MethodPost, "/v3/apps", write, a.createApp)
	g.Handle(http.MethodGet, "/v3/apps/{guid}", read, apps.getter(a))
	g.Handle(http.MethodPatch, "/v3/apps/{guid}", write, a.updateApp)
	g.Handle(http.MethodDelete, "/v3/apps/{guid}", write, a.deleteApp)
	g.Storing().Handle(http.MethodPost, "/v3/apps/{guid}/actions/start", write, a.appAction(enabled(a.platform.StartApp)))
	g.Handle(http.MethodPost, "/v3/apps/{guid}/actions/stop", write, a.appAction(a.platform.StopApp))
	g.Storing().Handle(http.MethodPost, "/v3/apps/{guid}/actions/restart", write, a.appAction(enabled(a.platform.RestartApp)))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/environment_variables", read, a.getEnvironment)
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/environment_variables", write, a.setEnvironment)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/permissions", read, a.appPermissions)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/features", read, a.listAppFeatures)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/features/{name}", read, a.getAppFeature)
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/features/{name}", write, a.setAppFeature)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/ssh_enabled", read, a.sshEnabled)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/env", read, a.appEnv)
}

type lifecycleRequest = loose[lifecycleMembers]

type lifecycleMembers struct {
	Type string `json:"type"`
	Data strict[struct {
		Buildpacks optional[[]string] `json:"buildpacks"` // null means detection
		Stack      *string            `json:"stack"`
	}] `json:"data"`
}

func applyLifecycle(l *lifecycleRequest, to *platform.Lifecycle) {
	if l == nil {
		return
	}
	if l.value.Type != "" && l.value.Type != to.Type {
		*to = platform.Lifecycle{Type: l.value.Type} // nothing of another type
	}
	data := l.value.Data.value
	if data.Buildpacks.set {
		to.Buildpacks = data.Buildpacks.value
	}
	if data.Stack != nil {
		to.Stack = *data.Stack
	}
}

type appRequest struct {
	Name          *string                `json:"name"`
	Environment   map[string]*string     `json:"environment_variables"`
	Lifecycle     *lifecycleRequest      `json:"lifecycle"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships *struct {
		Space relation `json:"space"`
	} `json:"relationships"`
}

func (a *API) createApp(w http.ResponseWriter, r *http.Request) error {
	var body appRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships == nil || body.Relationships.Space.Data == nil {
		return fault.Invalid("Relationships 'relationships' must include 'space'")
	}
	if body.Name == nil {
		return fault.Invalid("Name must be a string")
	}
	return answer(a, w, r, apps, http.StatusCreated, func(req *request) (*platform.App, error) {
		space := body.Relationships.Space.Data.GUID
		if _, err := find(req.caller, req.tx.Spaces(), space, "Space"); err != nil {
			return nil, notAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
		}
		if _, err := req.caller.mayInSpace(req.tx, space, platform.Develop); err != nil {
			return nil, err
		}
		app := &platform.App{Name: *body.Name, SpaceGUID: space, Env: mergeEnv(nil, body.Environment)}
		applyLifecycle(body.Lifecycle, &app.Lifecycle)
		if app.Lifecycle.Type == platform.LifecycleDocker {
			if err := needEnabled(req.tx, flagDocker); err != nil {
				return nil, err
			}
		}
		if err := body.Metadata.Apply(&app.Metadata); err != nil {
			return nil, err
		}
		return app, a.platform.CreateApp(req.tx, req.caller.actor(), app)
	})
}

// mergeEnv sets variables; null removes a variable.
func mergeEnv(env map[string]string, patch map[string]*string) map[string]string {
	out := map[string]string{}
	for k, v := range env {
		out[k] = v
	}
	for k, v := range patch {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

func (a *API) updateApp(w http.ResponseWriter, r *http.Request) error {
	var body appRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Environment != nil || body.Relationships != nil {
		return fault.Invalid("Unknown field(s): only 'name', 'lifecycle' and 'metadata' can be changed here")
	}
	return answer(a, w, r, apps, http.StatusOK, func(req *request) (*platform.App, error) {
		app, err := req.app(platform.Develop)
		if err != nil {
			return nil, err
		}
		request := map[string]any{}
		if body.Name != nil {
			app.Name = *body.Name
			request["name"] = *body.Name
		}
		if body.Lifecycle != nil {
			if body.Lifecycle.value.Type != "" && body.Lifecycle.value.Type != app.Lifecycle.Type {
				return nil, fault.Invalid("Lifecycle type cannot be changed")
			}
			applyLifecycle(body.Lifecycle, &app.Lifecycle)
			if err := a.platform.CheckLifecycle(req.tx, &app.Lifecycle); err != nil {
				return nil, err
			}
			request["lifecycle"] = presentLifecycle(app.Lifecycle)
		}
		if err := body.Metadata.Apply(&app.Metadata); err != nil {
			return nil, err
		}
		return app, a.platform.UpdateApp(req.tx, req.caller.actor(), app, request)
	})
}

func (a *API) deleteApp(w http.ResponseWriter, r *http.Request) error {
	guid := web.Param(r, "guid")
	defer a.signals.AppsChanged(guid)
	return a.conclude(w, r, "app.delete", func(req *request) (*platform.Job, error) {
		app, err := req.app(platform.Develop)
		if err != nil {
			return nil, err
		}
		return a.services.DeleteApp(req.tx, req.caller.actor(), app)
	})
}

// enabled performs an action on apps whose lifecycle is enabled.
func enabled(act func(platform.Tx, actions.Actor, *platform.App) error) func(platform.Tx, actions.Actor, *platform.App) error {
	return func(tx platform.Tx, by actions.Actor, app *platform.App) error {
		if app.Lifecycle.Type == platform.LifecycleDocker {
			if err := needEnabled(tx, flagDocker); err != nil {
				return err
			}
		}
		return act(tx, by, app)
	}
}

func (a *API) appAction(act func(platform.Tx, actions.Actor, *platform.App) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		defer a.signals.AppsChanged(web.Param(r, "guid"))
		return answer(a, w, r, apps, http.StatusOK, func(req *request) (*platform.App, error) {
			app, err := req.app(platform.Operate)
			if err != nil {
				return nil, err
			}
			return app, act(req.tx, req.caller.actor(), app)
		})
	}
}

// seesEnv reports whether the caller may read an app's environment.
func seesEnv(req *request, app *platform.App) error {
	if req.caller.Grants(platform.ReadEnvironment) {
		return nil
	}
	for _, name := range []string{"env_var_visibility", "space_developer_env_var_visibility"} {
		if err := req.needFlag(name); err != nil {
			return err
		}
	}
	_, err := req.caller.mayInSpace(req.tx, app.SpaceGUID, platform.ReadEnvironment)
	return err
}

func (a *API) envBody(req *request, app *platform.App) any {
	env := app.Env
	if env == nil {
		env = map[string]string{}
	}
	self := "/apps/" + escape(app.GUID)
	return map[string]any{"var": env, "links": links{"self": req.v3(self, "/environment_variables"), "app": req.v3(self)}}
}

func (a *API) getEnvironment(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		return a.envBody(req, app), seesEnv(req, app)
	})
}

// readEnv decodes a patch of environment variables; null removes a variable.
func readEnv(r *http.Request) (map[string]*string, error) {
	var body struct {
		Var map[string]*string `json:"var"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return nil, err
	}
	if body.Var == nil {
		return nil, fault.Invalid("Var must be an object")
	}
	return body.Var, nil
}

func (a *API) setEnvironment(w http.ResponseWriter, r *http.Request) error {
	patch, err := readEnv(r)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(patch))
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		app, err := req.app(platform.Operate)
		if err != nil {
			return nil, err
		}
		app.Env = mergeEnv(app.Env, patch)
		// The names are recorded, never the values.
		return a.envBody(req, app), a.platform.UpdateApp(req.tx, req.caller.actor(), app, map[string]any{"environment_variables": names})
	})
}

func (a *API) appPermissions(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		secrets, err := req.showsSecrets(app.GUID)
		return map[string]bool{"read_basic_data": true, "read_sensitive_data": secrets}, err
	})
}

// appFeatures are the features of apps.
var appFeatures = []struct{ name, description string }{
	{platform.FeatureSSH, "Enable SSHing into the app."},
	{platform.FeatureRevisions, "Enable versioning of an application"},
	{platform.FeatureServiceBindingK8s, "Enable k8s service bindings for the app"},
	{platform.FeatureFileBasedVCAP, "Enable file-based VCAP service bindings for the app"},
}

func appFeature(app *platform.App, name string) (featureBody, error) {
	for _, f := range appFeatures {
		if f.name == name {
			return featureBody{f.name, f.description, app.HasFeature(name)}, nil
		}
	}
	return featureBody{}, fault.New(fault.NotFound, "Feature not found")
}

func (a *API) listAppFeatures(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		all := []featureBody{}
		for _, f := range appFeatures {
			one, err := appFeature(app, f.name)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return map[string]any{"resources": all, "pagination": listing.Pagination{TotalResults: len(all), TotalPages: 1}}, nil
	})
}

func (a *API) getAppFeature(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		return appFeature(app, web.Param(r, "name"))
	})
}

func (a *API) setAppFeature(w http.ResponseWriter, r *http.Request) error {
	var body featureRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	name := web.Param(r, "name")
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		app, err := req.app(platform.Develop)
		if err != nil {
			return nil, err
		}
		if _, err := appFeature(app, name); err != nil {
			return nil, err
		}
		if app.Features == nil {
			app.Features = map[string]bool{}
		}
		app.Features[name] = *body.Enabled
		if err := a.platform.UpdateApp(req.tx, req.caller.actor(), app, map[string]any{"feature": name, "enabled": *body.Enabled}); err != nil {
			return nil, err
		}
		return appFeature(app, name)
	})
}

func (a *API) sshEnabled(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		space, err := req.tx.Spaces().Get(app.SpaceGUID)
		if err != nil {
			return nil, err
		}
		reason := ""
		switch {
		case a.sshAddress == "":
			reason = "Disabled globally"
		case !space.SSHAllowed:
			reason = "Disabled for space " + space.Name
		case !app.HasFeature(platform.FeatureSSH):
			reason = "Disabled for app"
		}
		return map[string]any{"enabled": reason == "", "reason": reason}, err
	})
}

type appBody struct {
	resourceBody
	Name          string            `json:"name"`
	State         platform.AppState `json:"state"`
	Lifecycle     lifecycleBody     `json:"lifecycle"`
	Relationships map[string]any    `json:"relationships"`
	Metadata      metadata          `json:"metadata"`
	Links         links             `json:"links"`
}

type lifecycleBody struct {
	Type string         `json:"type"`
	Data map[string]any `json:"data"`
}

func presentLifecycle(l platform.Lifecycle) lifecycleBody {
	if l.Type != platform.LifecycleBuildpack {
		return lifecycleBody{l.Type, map[string]any{}}
	}
	return lifecycleBody{l.Type, map[string]any{"buildpacks": platform.WithoutPasswords(l.Buildpacks), "stack": l.Stack}}
}

func presentApp(req *request, app *platform.App) appBody {
	self := "/apps/" + escape(app.GUID)
	post := func(action string) *link {
		return &link{Href: req.v3(self, "/actions/", action).Href, Method: http.MethodPost}
	}
	return appBody{
		resourceBody: presentResource(&app.Resource), Name: app.Name, State: app.State, Lifecycle: presentLifecycle(app.Lifecycle),
		Metadata:      presentMetadata(&app.Metadata),
		Relationships: map[string]any{"space": toOne(app.SpaceGUID), "current_droplet": toOne(app.DropletGUID)},
		Links: links{
			"self": req.v3(self), "space": req.v3("/spaces/", escape(app.SpaceGUID)), "processes": req.v3(self, "/processes"),
			"packages": req.v3(self, "/packages"), "tasks": req.v3(self, "/tasks"), "environment_variables": req.v3(self, "/environment_variables"),
			"current_droplet": req.v3(self, "/droplets/current"), "droplets": req.v3(self, "/droplets"), "features": req.v3(self, "/features"),
			"revisions": req.v3(self, "/revisions"), "deployed_revisions": req.v3(self, "/revisions/deployed"),
			"start": post("start"), "stop": post("stop"),
		},
	}
}
