package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// appEnv shows the environment of an app.
func (a *API) appEnv(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		app, err := find(req.caller, req.tx.Apps(), web.Param(r, "guid"), "App")
		if err != nil {
			return nil, err
		}
		if err := seesEnv(req, app); err != nil {
			return nil, err
		}
		body, err := a.envOf(req, app)
		if err != nil {
			return nil, err
		}
		return body, a.platform.RecordApp(req.tx, "audit.app.environment.show", req.caller.actor(), app, nil)
	})
}

func (a *API) envOf(req *request, app *platform.App) (any, error) {
	info, err := actions.AppInfoOf(req.tx, app)
	if err != nil {
		return nil, err
	}
	process, err := actions.ProcessOf(req.tx, app.GUID, platform.WebProcess)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	memory := 0
	if process != nil {
		memory = process.MemoryMB
	}
	// Only developers see the credentials of services.
	system := map[string]any{"redacted_message": hidden}
	show, err := req.showsSecrets(app.GUID)
	if err != nil {
		return nil, err
	}
	if show {
		services, err := actions.VCAPServices(req.tx, app)
		if err != nil {
			return nil, err
		}
		system = map[string]any{"VCAP_SERVICES": services}
	}
	groups := map[string]map[string]string{}
	for _, name := range []string{"running", "staging"} {
		g, err := req.tx.EnvGroup(name)
		if err != nil {
			return nil, err
		}
		groups[name] = nonNil(g.Var)
	}
	return map[string]any{
		"environment_variables": nonNil(app.Env),
		"staging_env_json":      groups["staging"],
		"running_env_json":      groups["running"],
		"system_env_json":       system,
		"application_env_json":  map[string]any{"VCAP_APPLICATION": info.VCAPApplication(req.base, process, memory)},
	}, nil
}

func (a *API) envGroupRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/environment_variable_groups/{name}", web.Scope(readers...), a.getEnvGroup)
	g.Handle(http.MethodPatch, "/v3/environment_variable_groups/{name}", web.Scope(scopeAdmin), a.setEnvGroup)
}

func envGroup(req *request) (platform.EnvGroup, error) {
	name := web.Param(req.r, "name")
	if name != "running" && name != "staging" {
		return platform.EnvGroup{}, fault.New(fault.NotFound, "Environment variable group not found")
	}
	return req.tx.EnvGroup(name)
}

func presentEnvGroup(req *request, g platform.EnvGroup) any {
	var updated *string
	if !g.Updated.IsZero() {
		at := timestamp(g.Updated)
		updated = &at
	}
	return map[string]any{
		"name": g.Name, "var": nonNil(g.Var), "updated_at": updated,
		"links": links{"self": req.v3("/environment_variable_groups/", g.Name)},
	}
}

func (a *API) getEnvGroup(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		g, err := envGroup(req)
		return presentEnvGroup(req, g), err
	})
}

func (a *API) setEnvGroup(w http.ResponseWriter, r *http.Request) error {
	patch, err := readEnv(r)
	if err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		g, err := envGroup(req)
		if err != nil {
			return nil, err
		}
		g.Name, g.Var = web.Param(r, "name"), mergeEnv(g.Var, patch)
		err = a.platform.SetEnvGroup(req.tx, &g)
		return presentEnvGroup(req, g), err
	})
}
