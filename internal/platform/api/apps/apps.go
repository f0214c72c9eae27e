package apps

import (
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/api/rest"
)

// Apps are the apps; other resources include them.
var Apps = rest.Resource[platform.App, appBody]{
	Noun: "App", Repo: platform.Tx.Apps, Present: rest.Each(presentApp), WithoutSecrets: true,
	List: listing.Params{
		Filters: listing.Filters{
			"names": listing.Text("name"), "space_guids": listing.Text("space_guid"),
			"organization_guids": listing.Text("organization_guid"),
			"stacks":             listing.Text("stack"), "lifecycle_type": listing.Word("lifecycle_type", "buildpack",
				"docker", "cnb"),
		},
		Orders: []string{"name", "state"}, Includes: []string{"space", "org", "space.organization"},
	},
	Include: includeOfApps,
}

func includeOfApps(req *rest.Request, l *listing.Request, items []*platform.App) (map[string]any, error) {
	if len(l.Include) == 0 {
		return nil, nil
	}
	return orgs.IncludePlaces(req, l, rest.GUIDsOf(items, func(app *platform.App) string { return app.SpaceGUID }))
}

func (a *API) appRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/apps", rest.Read, Apps.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/app_summaries", rest.Read, appSummaries.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/apps", rest.Write, a.createApp)
	g.Handle(http.MethodGet, "/v3/apps/{guid}", rest.Read, Apps.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/apps/{guid}", rest.Write, a.updateApp)
	g.Handle(http.MethodDelete, "/v3/apps/{guid}", rest.Write, a.deleteApp)
	g.Storing().Handle(http.MethodPost, "/v3/apps/{guid}/actions/start", rest.Write,
		a.appAction(enabled(a.Platform.StartApp)))
	g.Handle(http.MethodPost, "/v3/apps/{guid}/actions/stop", rest.Write, a.appAction(a.Platform.StopApp))
	g.Storing().Handle(http.MethodPost, "/v3/apps/{guid}/actions/restart", rest.Write,
		a.appAction(enabled(a.Platform.RestartApp)))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/environment_variables", rest.Read, a.getEnvironment)
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/environment_variables", rest.Write, a.setEnvironment)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/permissions", rest.Read, a.appPermissions)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/features", rest.Read, a.listAppFeatures)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/features/{name}", rest.Read, a.getAppFeature)
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/features/{name}", rest.Write, a.setAppFeature)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/ssh_enabled", rest.Read, a.sshEnabled)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/env", rest.Read, a.appEnv)
}

// LifecycleRequest is how an app is to be built, in a request.
type LifecycleRequest = rest.Loose[lifecycleMembers]

type lifecycleMembers struct {
	Type string `json:"type"`
	Data rest.Strict[struct {
		Buildpacks rest.Optional[[]string] `json:"buildpacks"` // null means detection
		Stack      *string                 `json:"stack"`
	}] `json:"data"`
}

// ApplyLifecycle changes a lifecycle; absent members stay unchanged.
func ApplyLifecycle(l *LifecycleRequest, to *platform.Lifecycle) {
	if l == nil {
		return
	}
	if l.Value.Type != "" && l.Value.Type != to.Type {
		*to = platform.Lifecycle{Type: l.Value.Type} // nothing of another type
	}
	data := l.Value.Data.Value
	if data.Buildpacks.Set {
		to.Buildpacks = data.Buildpacks.Value
	}
	if data.Stack != nil {
		to.Stack = *data.Stack
	}
}

type appRequest struct {
	Name          *string                `json:"name"`
	Environment   map[string]*string     `json:"environment_variables"`
	Lifecycle     *LifecycleRequest      `json:"lifecycle"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships *struct {
		Space rest.Relation `json:"space"`
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
	return rest.Answer(a.Server, w, r, Apps, http.StatusCreated, func(req *rest.Request) (*platform.App, error) {
		space := body.Relationships.Space.Data.GUID
		if _, err := rest.Find(req.Caller, req.Tx.Spaces(), space, "Space"); err != nil {
			return nil, rest.NotAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
		}
		if _, err := req.Caller.MayInSpace(req.Tx, space, platform.Develop); err != nil {
			return nil, err
		}
		app := &platform.App{Name: *body.Name, SpaceGUID: space, Env: mergeEnv(nil, body.Environment)}
		ApplyLifecycle(body.Lifecycle, &app.Lifecycle)
		if app.Lifecycle.Type == platform.LifecycleDocker {
			if err := rest.NeedEnabled(req.Tx, rest.FlagDocker); err != nil {
				return nil, err
			}
		}
		if err := body.Metadata.Apply(&app.Metadata); err != nil {
			return nil, err
		}
		return app, a.Platform.CreateApp(req.Tx, req.Caller.Actor(), app)
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
	return rest.Answer(a.Server, w, r, Apps, http.StatusOK, func(req *rest.Request) (*platform.App, error) {
		app, err := req.App(platform.Develop)
		if err != nil {
			return nil, err
		}
		request := map[string]any{}
		if body.Name != nil {
			app.Name = *body.Name
			request["name"] = *body.Name
		}
		if body.Lifecycle != nil {
			if body.Lifecycle.Value.Type != "" && body.Lifecycle.Value.Type != app.Lifecycle.Type {
				return nil, fault.Invalid("Lifecycle type cannot be changed")
			}
			ApplyLifecycle(body.Lifecycle, &app.Lifecycle)
			if err := a.Platform.CheckLifecycle(req.Tx, &app.Lifecycle); err != nil {
				return nil, err
			}
			request["lifecycle"] = PresentLifecycle(app.Lifecycle)
		}
		if err := body.Metadata.Apply(&app.Metadata); err != nil {
			return nil, err
		}
		return app, a.Platform.UpdateApp(req.Tx, req.Caller.Actor(), app, request)
	})
}

func (a *API) deleteApp(w http.ResponseWriter, r *http.Request) error {
	guid := web.Param(r, "guid")
	defer a.Signals.AppsChanged(guid)
	return a.Conclude(w, r, "app.delete", func(req *rest.Request) (*platform.Job, error) {
		app, err := req.App(platform.Develop)
		if err != nil {
			return nil, err
		}
		return a.Services.DeleteApp(req.Tx, req.Caller.Actor(), app)
	})
}

// enabled performs an action on apps whose lifecycle is enabled.
func enabled(act func(platform.Tx, actions.Actor, *platform.App) error) func(platform.Tx, actions.Actor,
	*platform.App) error {
	return func(tx platform.Tx, by actions.Actor, app *platform.App) error {
		if app.Lifecycle.Type == platform.LifecycleDocker {
			if err := rest.NeedEnabled(tx, rest.FlagDocker); err != nil {
				return err
			}
		}
		return act(tx, by, app)
	}
}

func (a *API) appAction(act func(platform.Tx, actions.Actor, *platform.App) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		defer a.Signals.AppsChanged(web.Param(r, "guid"))
		return rest.Answer(a.Server, w, r, Apps, http.StatusOK, func(req *rest.Request) (*platform.App, error) {
			app, err := req.App(platform.Operate)
			if err != nil {
				return nil, err
			}
			return app, act(req.Tx, req.Caller.Actor(), app)
		})
	}
}

// SeesEnv reports whether the caller may read an app's environment.
func SeesEnv(req *rest.Request, app *platform.App) error {
	if req.Caller.Grants(platform.ReadEnvironment) {
		return nil
	}
	for _, name := range []string{"env_var_visibility", "space_developer_env_var_visibility"} {
		if err := req.NeedFlag(name); err != nil {
			return err
		}
	}
	_, err := req.Caller.MayInSpace(req.Tx, app.SpaceGUID, platform.ReadEnvironment)
	return err
}

func (a *API) envBody(req *rest.Request, app *platform.App) any {
	env := app.Env
	if env == nil {
		env = map[string]string{}
	}
	self := "/apps/" + rest.Escape(app.GUID)
	return map[string]any{"var": env, "links": rest.Links{"self": req.Link(self, "/environment_variables"),
		"app": req.Link(self)}}
}

func (a *API) getEnvironment(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		app, err := Apps.Find(req)
		if err != nil {
			return nil, err
		}
		return a.envBody(req, app), SeesEnv(req, app)
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
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		app, err := req.App(platform.Operate)
		if err != nil {
			return nil, err
		}
		app.Env = mergeEnv(app.Env, patch)
		// The names are recorded, never the values.
		return a.envBody(req, app), a.Platform.UpdateApp(req.Tx, req.Caller.Actor(), app,
			map[string]any{"environment_variables": names})
	})
}

func (a *API) appPermissions(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		app, err := Apps.Find(req)
		if err != nil {
			return nil, err
		}
		secrets, err := req.ShowsSecrets(app.GUID)
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

func appFeature(app *platform.App, name string) (rest.Feature, error) {
	for _, f := range appFeatures {
		if f.name == name {
			return rest.Feature{Name: f.name, Description: f.description, Enabled: app.HasFeature(name)}, nil
		}
	}
	return rest.Feature{}, fault.New(fault.NotFound, "Feature not found")
}

func (a *API) listAppFeatures(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		app, err := Apps.Find(req)
		if err != nil {
			return nil, err
		}
		all := []rest.Feature{}
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
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		app, err := Apps.Find(req)
		if err != nil {
			return nil, err
		}
		return appFeature(app, web.Param(r, "name"))
	})
}

func (a *API) setAppFeature(w http.ResponseWriter, r *http.Request) error {
	enabled, err := rest.ReadFeature(r)
	if err != nil {
		return err
	}
	name := web.Param(r, "name")
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		app, err := req.App(platform.Develop)
		if err != nil {
			return nil, err
		}
		if _, err := appFeature(app, name); err != nil {
			return nil, err
		}
		if app.Features == nil {
			app.Features = map[string]bool{}
		}
		app.Features[name] = enabled
		if err := a.Platform.UpdateApp(req.Tx, req.Caller.Actor(), app, map[string]any{"feature": name,
			"enabled": enabled}); err != nil {
			return nil, err
		}
		return appFeature(app, name)
	})
}

func (a *API) sshEnabled(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		app, err := Apps.Find(req)
		if err != nil {
			return nil, err
		}
		space, err := req.Tx.Spaces().Get(app.SpaceGUID)
		if err != nil {
			return nil, err
		}
		reason := ""
		switch {
		case !a.SSH:
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
	rest.ResourceBody
	Name          string            `json:"name"`
	State         platform.AppState `json:"state"`
	Lifecycle     LifecycleBody     `json:"lifecycle"`
	Relationships map[string]any    `json:"relationships"`
	Metadata      rest.Metadata     `json:"metadata"`
	Links         rest.Links        `json:"links"`
}

// LifecycleBody is how an app is built, in a response.
type LifecycleBody struct {
	Type string         `json:"type"`
	Data map[string]any `json:"data"`
}

// PresentLifecycle presents a lifecycle, without passwords in URLs of buildpacks.
func PresentLifecycle(l platform.Lifecycle) LifecycleBody {
	if l.Type != platform.LifecycleBuildpack {
		return LifecycleBody{l.Type, map[string]any{}}
	}
	return LifecycleBody{l.Type, map[string]any{"buildpacks": platform.WithoutPasswords(l.Buildpacks), "stack": l.Stack}}
}

func presentApp(req *rest.Request, app *platform.App) appBody {
	self := "/apps/" + rest.Escape(app.GUID)
	post := func(action string) *rest.Link {
		return &rest.Link{Href: req.Link(self, "/actions/", action).Href, Method: http.MethodPost}
	}
	return appBody{
		ResourceBody: rest.PresentResource(&app.Resource), Name: app.Name, State: app.State,
		Lifecycle:     PresentLifecycle(app.Lifecycle),
		Metadata:      rest.PresentMetadata(&app.Metadata),
		Relationships: map[string]any{"space": rest.ToOne(app.SpaceGUID), "current_droplet": rest.ToOne(app.DropletGUID)},
		Links: rest.Links{
			"self": req.Link(self), "space": req.Link("/spaces/", rest.Escape(app.SpaceGUID)),
			"processes": req.Link(self, "/processes"),
			"packages":  req.Link(self, "/packages"), "tasks": req.Link(self, "/tasks"),
			"environment_variables": req.Link(self, "/environment_variables"),
			"current_droplet":       req.Link(self, "/droplets/current"), "droplets": req.Link(self, "/droplets"),
			"features":  req.Link(self, "/features"),
			"revisions": req.Link(self, "/revisions"), "deployed_revisions": req.Link(self, "/revisions/deployed"),
			"start": post("start"), "stop": post("stop"),
		},
	}
}
