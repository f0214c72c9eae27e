package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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

func showEnv(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting env variables for app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	var e environment
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/env", nil, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

type setEnvFlags struct {
	Args struct {
		App   string `positional-arg-name:"APP" required:"yes"`
		Name  string `positional-arg-name:"NAME" required:"yes"`
		Value string `positional-arg-name:"VALUE" required:"yes"`
	} `positional-args:"yes"`
}

func setEnv(ctx context.Context, s *core.Session, _ core.Words, f *setEnvFlags) (core.Result, error) {
	s.Doing("Setting env variable %s for app %s", f.Args.Name, f.Args.App)
	return changeEnv(ctx, s, f.Args.App, f.Args.Name, &f.Args.Value)
}

type unsetEnvFlags struct {
	Args struct {
		App  string `positional-arg-name:"APP" required:"yes"`
		Name string `positional-arg-name:"NAME" required:"yes"`
	} `positional-args:"yes"`
}

func unsetEnv(ctx context.Context, s *core.Session, _ core.Words, f *unsetEnvFlags) (core.Result, error) {
	s.Doing("Removing env variable %s from app %s", f.Args.Name, f.Args.App)
	app, err := s.App(ctx, f.Args.App)
	if err != nil {
		return nil, err
	}
	var now variables
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/environment_variables", nil, &now); err != nil {
		return nil, err
	}
	if _, set := now.Var[f.Args.Name]; !set {
		s.Say("Env variable %s was not set.", f.Args.Name)
		if near := suggest.Closest(f.Args.Name, core.SortedKeys(now.Var)); near != "" {
			s.Say("Did you mean %s?", near)
		}
		s.OK()
		return s.JSONOnly(&now), nil
	}
	return changeEnv(ctx, s, f.Args.App, f.Args.Name, nil)
}

func changeEnv(ctx context.Context, s *core.Session, name, variable string, value *string) (core.Result, error) {
	app, err := s.App(ctx, name)
	if err != nil {
		return nil, err
	}
	if value != nil && (strings.HasPrefix(variable, "VCAP_") || variable == "PORT") {
		return nil, &core.Problem{What: variable + " cannot be set.", Why: "it is reserved for the platform"}
	}
	var out struct {
		Var map[string]string `json:"var"`
	}
	if _, err := s.API.Patch(ctx, "/v3/apps/"+app.GUID+"/environment_variables",
		map[string]any{"var": map[string]*string{variable: value}}, &out); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("%s", fmt.Sprintf("TIP: Takes effect after a restart: '%s restart %s' ('restage' if a buildpack reads the "+
		"variable).", s.Env.Program, app.Name))
	return s.JSONOnly(&variables{out.Var}), nil
}

type variables struct {
	Var map[string]string `json:"var"`
}

func (*variables) Show(*term.Printer) {}

func envCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("env", "APP", "Show an app's environment variables", core.NeedsSpace, showEnv, "my-app").Alias("e"),
		core.Entry("set-env", "APP NAME VALUE", "Set an environment variable of an app", core.NeedsSpace, setEnv,
			"my-app GREETING 'good morning'").Alias("se"),
		core.Entry("unset-env", "APP NAME", "Remove an environment variable of an app", core.NeedsSpace, unsetEnv,
			"my-app GREETING").Alias("ue"),
	)
}
