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
func (a *API) appEnv(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		app, err := Apps.Find(req)
		if err != nil {
			return nil, err
		}
		if err := SeesEnv(req, app); err != nil {
			return nil, err
		}
		body, err := a.envOf(req, app)
		if err != nil {
			return nil, err
		}
		return body, a.Platform.RecordApp(req.Tx, "audit.app.environment.show", req.Caller.Actor(), app, nil)
	})
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
	g.Handle(http.MethodGet, "/v3/environment_variable_groups/{name}", rest.Read, a.getEnvGroup)
	g.Handle(http.MethodPatch, "/v3/environment_variable_groups/{name}", rest.Admin, a.setEnvGroup)
}

func envGroup(req *rest.Request) (platform.EnvGroup, error) {
	name := web.Param(req.HTTP, "name")
	if name != "running" && name != "staging" {
		return platform.EnvGroup{}, fault.New(fault.NotFound, "Environment variable group not found")
	}
	return req.Tx.EnvGroup(name)
}

func presentEnvGroup(req *rest.Request, g platform.EnvGroup) any {
	var updated *string
	if !g.Updated.IsZero() {
		at := rest.Timestamp(g.Updated)
		updated = &at
	}
	return map[string]any{
		"name": g.Name, "var": rest.NonNil(g.Var), "updated_at": updated,
		"links": rest.Links{"self": req.Link("/environment_variable_groups/", g.Name)},
	}
}

func (a *API) getEnvGroup(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		g, err := envGroup(req)
		return presentEnvGroup(req, g), err
	})
}

func (a *API) setEnvGroup(w http.ResponseWriter, r *http.Request) error {
	patch, err := readEnv(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		g, err := envGroup(req)
		if err != nil {
			return nil, err
		}
		g.Name, g.Var = web.Param(r, "name"), mergeEnv(g.Var, patch)
		err = a.Platform.SetEnvGroup(req.Tx, &g)
		return presentEnvGroup(req, g), err
	})
}
