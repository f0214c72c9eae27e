package apps

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

// appEnv shows the environment of an app.
func (a *API) appEnv(req *rest.Request, app *platform.App) (any, error) {
	if err := SeesEnv(req, app); err != nil {
		return nil, err
	}
	body, err := a.envOf(req, app)
	if err != nil {
		return nil, err
	}
	return body, a.Platform.RecordApp(req.Tx, "audit.app.environment.show", req.Caller.Actor(), app, nil)
}

func (a *API) envOf(req *rest.Request, app *platform.App) (any, error) {
	info, err := actions.AppInfoOf(req.Tx, app)
	if err != nil {
		return nil, err
	}
	process, err := actions.ProcessOf(req.Tx, app.GUID, platform.WebProcess)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	memory := 0
	if process != nil {
		memory = process.MemoryMB
	}
	// Only developers see the credentials of services.
	system := map[string]any{"redacted_message": rest.Hidden}
	show, err := req.ShowsSecrets(app.GUID)
	if err != nil {
		return nil, err
	}
	if show {
		services, err := actions.VCAPServices(req.Tx, app)
		if err != nil {
			return nil, err
		}
		system = map[string]any{"VCAP_SERVICES": services}
	}
	groups := map[string]map[string]string{}
	for _, name := range []string{"running", "staging"} {
		g, err := req.Tx.EnvGroup(name)
		if err != nil {
			return nil, err
		}
		groups[name] = rest.NonNil(g.Var)
	}
	return map[string]any{
		"environment_variables": rest.NonNil(app.Env),
		"staging_env_json":      groups["staging"],
		"running_env_json":      groups["running"],
		"system_env_json":       system,
		"application_env_json":  map[string]any{"VCAP_APPLICATION": info.VCAPApplication(req.Base, process, memory)},
	}, nil
}

func (a *API) envGroupRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/environment_variable_groups/{name}", rest.Read,
		rest.Viewer(a.Server, envGroup, getEnvGroup))
	g.Handle(http.MethodPatch, "/v3/environment_variable_groups/{name}", rest.Admin,
		rest.Changer(a.Server, readEnv, envGroup, a.setEnvGroup))
}

func envGroup(req *rest.Request) (*platform.EnvGroup, error) {
	name := req.Param("name")
	if name != "running" && name != "staging" {
		return nil, fault.New(fault.NotFound, "Environment variable group not found")
	}
	group, err := req.Tx.EnvGroup(name)
	return &group, err
}

func getEnvGroup(req *rest.Request, g *platform.EnvGroup) (any, error) {
	var updated *string
	if !g.Updated.IsZero() {
		at := rest.Timestamp(g.Updated)
		updated = &at
	}
	return map[string]any{
		"name": g.Name, "var": rest.NonNil(g.Var), "updated_at": updated,
		"links": rest.Links{"self": req.Link("/environment_variable_groups/", g.Name)},
	}, nil
}

func (a *API) setEnvGroup(req *rest.Request, g *platform.EnvGroup, patch map[string]*string) (any, error) {
	g.Name, g.Var = req.Param("name"), mergeEnv(g.Var, patch)
	if err := a.Platform.SetEnvGroup(req.Tx, g); err != nil {
		return nil, err
	}
	return getEnvGroup(req, g)
}
