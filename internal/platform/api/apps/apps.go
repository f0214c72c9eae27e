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
	Include: rest.IncludeBy(orgs.Places(func(app *platform.App) string { return app.SpaceGUID })),
}

func (a *API) appRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/apps", rest.Read, Apps.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/app_summaries", rest.Read, appSummaries.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/apps", rest.Write, rest.Creator(a.Server, Apps, a.createApp))
	g.Handle(http.MethodGet, "/v3/apps/{guid}", rest.Read, Apps.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/apps/{guid}", rest.Write, rest.Updater(a.Server, Apps, a.updateApp))
	g.Handle(http.MethodDelete, "/v3/apps/{guid}", rest.Write,
		rest.JobDeleter(a.Server, "app.delete", rest.AppFor(platform.Develop), a.Services.DeleteApp))
	g.Storing().Handle(http.MethodPost, "/v3/apps/{guid}/actions/start", rest.Write,
		a.appAction(enabled(a.Platform.StartApp)))
	g.Handle(http.MethodPost, "/v3/apps/{guid}/actions/stop", rest.Write, a.appAction(a.Platform.StopApp))
	g.Storing().Handle(http.MethodPost, "/v3/apps/{guid}/actions/restart", rest.Write,
		a.appAction(enabled(a.Platform.RestartApp)))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/environment_variables", rest.Read,
		rest.Viewer(a.Server, Apps.Find, getEnvironment))
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/environment_variables", rest.Write,
		rest.Changer(a.Server, readEnv, rest.AppFor(platform.Operate), a.setEnvironment))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/permissions", rest.Read, rest.Viewer(a.Server, Apps.Find, appPermissions))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/features", rest.Read, rest.Viewer(a.Server, Apps.Find, listAppFeatures))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/features/{name}", rest.Read,
		rest.Viewer(a.Server, Apps.Find, getAppFeature))
	g.Handle(http.MethodPatch, "/v3/apps/{guid}/features/{name}", rest.Write,
		rest.Changer(a.Server, rest.ReadFeature, rest.AppFor(platform.Develop), a.setAppFeature))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/ssh_enabled", rest.Read, rest.Viewer(a.Server, Apps.Find, a.sshEnabled))
	g.Handle(http.MethodGet, "/v3/apps/{guid}/env", rest.Read, rest.AuditedViewer(a.Server, Apps.Find, a.appEnv))
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
	web.Set(&to.Stack, data.Stack)
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

func (a *API) createApp(req *rest.Request, body *appRequest) (*platform.App, error) {
	if body.Relationships == nil || body.Relationships.Space.Data == nil {
		return nil, fault.Invalid("Relationships 'relationships' must include 'space'")
	}
	if body.Name == nil {
		return nil, fault.Invalid("Name must be a string")
	}
	space := body.Relationships.Space.Data.GUID
	if _, err := req.SpaceNamed(space, platform.Develop); err != nil {
		return nil, err
	}
	app := &platform.App{Name: *body.Name, SpaceGUID: space, Env: mergeEnv(nil, body.Environment)}
	ApplyLifecycle(body.Lifecycle, &app.Lifecycle)
	if err := usable(req.Tx, app); err != nil {
		return nil, err
	}
	if err := body.Metadata.Apply(&app.Metadata); err != nil {
		return nil, err
	}
	return app, a.Platform.CreateApp(req.Tx, req.Caller.Actor(), app)
}

// usable returns an error if the lifecycle of an app is disabled.
func usable(tx platform.Tx, app *platform.App) error {
	if app.Lifecycle.Type != platform.LifecycleDocker {
		return nil
	}
	return rest.NeedEnabled(tx, rest.FlagDocker)
}

// mergeEnv sets variables; null removes a variable.
func mergeEnv(env map[string]string, patch map[string]*string) map[string]string {
	out := rest.NonNil(maps.Clone(env))
	for k, v := range patch {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

func (a *API) updateApp(req *rest.Request, body *appRequest) (*platform.App, error) {
	if body.Environment != nil || body.Relationships != nil {
		return nil, fault.Invalid("Unknown field(s): only 'name', 'lifecycle' and 'metadata' can be changed here")
	}
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
}

// enabled performs an action on apps whose lifecycle is enabled.
func enabled(act func(platform.Tx, actions.Actor, *platform.App) error) func(platform.Tx, actions.Actor,
	*platform.App) error {
	return func(tx platform.Tx, by actions.Actor, app *platform.App) error {
		if err := usable(tx, app); err != nil {
			return err
		}
		return act(tx, by, app)
	}
}

func (a *API) appAction(act func(platform.Tx, actions.Actor, *platform.App) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
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

func presentEnv(req *rest.Request, app *platform.App) any {
	self := "/apps/" + rest.Escape(app.GUID)
	return map[string]any{"var": rest.NonNil(app.Env),
		"links": rest.Links{"self": req.Link(self, "/environment_variables"), "app": req.Link(self)}}
}

func getEnvironment(req *rest.Request, app *platform.App) (any, error) {
	return presentEnv(req, app), SeesEnv(req, app)
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

func (a *API) setEnvironment(req *rest.Request, app *platform.App, patch map[string]*string) (any, error) {
	app.Env = mergeEnv(app.Env, patch)
	// The names are recorded, never the values.
	return presentEnv(req, app), a.Platform.UpdateApp(req.Tx, req.Caller.Actor(), app,
		map[string]any{"environment_variables": slices.Sorted(maps.Keys(patch))})
}

func appPermissions(req *rest.Request, app *platform.App) (any, error) {
	secrets, err := req.ShowsSecrets(app.GUID)
	return map[string]bool{"read_basic_data": true, "read_sensitive_data": secrets}, err
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

func listAppFeatures(_ *rest.Request, app *platform.App) (any, error) {
	all := []rest.Feature{}
	for _, f := range appFeatures {
		all = append(all, rest.Feature{Name: f.name, Description: f.description, Enabled: app.HasFeature(f.name)})
	}
	return map[string]any{"resources": all, "pagination": listing.Pagination{TotalResults: len(all), TotalPages: 1}}, nil
}

func getAppFeature(req *rest.Request, app *platform.App) (any, error) {
	return appFeature(app, req.Param("name"))
}

func (a *API) setAppFeature(req *rest.Request, app *platform.App, enabled bool) (any, error) {
	name := req.Param("name")
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
}

func (a *API) sshEnabled(req *rest.Request, app *platform.App) (any, error) {
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
