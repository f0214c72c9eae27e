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

type envCommand struct{ oneApp }

func (c *envCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Getting env variables for app %s", c.Args.App)
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	var e environment
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/env", nil, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

type setEnvCommand struct {
	Args struct {
		App   string `positional-arg-name:"APP" required:"yes"`
		Name  string `positional-arg-name:"NAME" required:"yes"`
		Value string `positional-arg-name:"VALUE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *setEnvCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Setting env variable %s for app %s", c.Args.Name, c.Args.App)
	return changeEnv(ctx, s, c.Args.App, c.Args.Name, &c.Args.Value)
}

type unsetEnvCommand struct {
	Args struct {
		App  string `positional-arg-name:"APP" required:"yes"`
		Name string `positional-arg-name:"NAME" required:"yes"`
	} `positional-args:"yes"`
}

func (c *unsetEnvCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Removing env variable %s from app %s", c.Args.Name, c.Args.App)
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	var now variables
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/environment_variables", nil, &now); err != nil {
		return nil, err
	}
	if _, set := now.Var[c.Args.Name]; !set {
		s.Say("Env variable %s was not set.", c.Args.Name)
		if near := suggest.Closest(c.Args.Name, core.SortedKeys(now.Var)); near != "" {
			s.Say("Did you mean %s?", near)
		}
		s.OK()
		return s.JSONOnly(&now), nil
	}
	return changeEnv(ctx, s, c.Args.App, c.Args.Name, nil)
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
	if _, err := s.API.Patch(ctx, "/v3/apps/"+app.GUID+"/environment_variables", map[string]any{"var": map[string]*string{variable: value}}, &out); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("%s", fmt.Sprintf("TIP: Takes effect after a restart: '%s restart %s' ('restage' if a buildpack reads the variable).", s.Env.Program, app.Name))
	return s.JSONOnly(&variables{out.Var}), nil
}

type variables struct {
	Var map[string]string `json:"var"`
}

func (*variables) Show(*term.Printer) {}
