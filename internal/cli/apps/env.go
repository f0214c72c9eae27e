package apps

import (
	"context"
	"encoding/json"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/suggest"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// environment is the environment of an app, by source.
type environment struct {
	System      map[string]json.RawMessage `json:"system_env_json"`
	Application map[string]json.RawMessage `json:"application_env_json"`
	Own         map[string]string          `json:"environment_variables"`
	Running     map[string]string          `json:"running_env_json"`
	Staging     map[string]string          `json:"staging_env_json"`
}

func (e *environment) Show(p *term.Printer) {
	for _, group := range []struct {
		title string
		vars  map[string]json.RawMessage
	}{{"System-Provided:", e.System}, {"", e.Application}} {
		if group.title != "" {
			p.Println(p.Bold(group.title))
		}
		for _, name := range core.SortedKeys(group.vars) {
			var value any
			_ = json.Unmarshal(group.vars[name], &value) // part of valid JSON
			pretty, _ := json.MarshalIndent(value, "", "  ")
			p.Printf("%s: %s", name, pretty)
		}
		p.Println("")
	}
	for _, group := range []struct {
		title, none string
		vars        map[string]string
	}{
		{"User-Provided:", "No user-provided variables have been set", e.Own},
		{"Running Environment Variable Groups:", "No running variables have been set", e.Running},
		{"Staging Environment Variable Groups:", "No staging variables have been set", e.Staging},
	} {
		if len(group.vars) == 0 {
			p.Println(group.none)
		} else {
			p.Println(p.Bold(group.title))
		}
		for _, name := range core.SortedKeys(group.vars) {
			p.Printf("%s:   %s", name, group.vars[name])
		}
		p.Println("")
	}
}

func showEnv(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	var e environment
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/env", nil, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

func setEnv(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Setting env variable %s for app %s", w["NAME"], w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if name := w["NAME"]; strings.HasPrefix(name, "VCAP_") || name == "PORT" {
		return nil, &core.Problem{What: name + " cannot be set.", Why: "it is reserved for the platform"}
	}
	return changeEnv(ctx, s, app, map[string]any{w["NAME"]: w["VALUE"]})
}

func unsetEnv(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Removing env variable %s from app %s", w["NAME"], w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	var now variables
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/environment_variables", nil, &now); err != nil {
		return nil, err
	}
	if _, set := now.Var[w["NAME"]]; !set {
		s.Say("Env variable %s was not set.", w["NAME"])
		if near := suggest.Closest(w["NAME"], core.SortedKeys(now.Var)); near != "" {
			s.Say("Did you mean %s?", near)
		}
		s.OK()
		return s.JSONOnly(&now), nil
	}
	return changeEnv(ctx, s, app, map[string]any{w["NAME"]: nil})
}

func changeEnv(ctx context.Context, s *core.Session, app cfapi.App, change map[string]any) (core.Result, error) {
	var out variables
	body := map[string]any{"var": change}
	if _, err := s.API.Patch(ctx, "/v3/apps/"+app.GUID+"/environment_variables", body, &out); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("TIP: Takes effect after a restart: '%s restart %s' ('restage' if a buildpack reads the variable).",
		s.Env.Program, app.Name)
	return s.JSONOnly(&out), nil
}

type variables struct {
	Var map[string]string `json:"var"`
}

func (*variables) Show(*term.Printer) {}

func envCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("env", "APP", "Show an app's environment variables", core.NeedsSpace,
			core.OnApp("Getting env variables for app %s", showEnv), "my-app").Alias("e"),
		core.Entry("set-env", "APP NAME VALUE", "Set an environment variable of an app", core.NeedsSpace, setEnv,
			"my-app GREETING 'good morning'").Alias("se"),
		core.Entry("unset-env", "APP NAME", "Remove an environment variable of an app", core.NeedsSpace, unsetEnv,
			"my-app GREETING").Alias("ue"),
	)
}
