package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"ingot/internal/base/suggest"
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

func (e *environment) show(p *term.Printer) {
	for _, group := range []struct {
		title string
		vars  map[string]json.RawMessage
	}{{"System-Provided:", e.System}, {"", e.Application}} {
		if group.title != "" {
			p.Println(p.Bold(group.title))
		}
		for _, name := range sortedKeys(group.vars) {
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
		for _, name := range sortedKeys(group.vars) {
			p.Printf("%s:   %s", name, group.vars[name])
		}
		p.Println("")
	}
}

type envCommand struct{ oneApp }

func (c *envCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Getting env variables for app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	var e environment
	if err := s.api.Get(ctx, "/v3/apps/"+app.GUID+"/env", nil, &e); err != nil {
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

func (c *setEnvCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Setting env variable %s for app %s", c.Args.Name, c.Args.App)
	return s.changeEnv(ctx, c.Args.App, c.Args.Name, &c.Args.Value)
}

type unsetEnvCommand struct {
	Args struct {
		App  string `positional-arg-name:"APP" required:"yes"`
		Name string `positional-arg-name:"NAME" required:"yes"`
	} `positional-args:"yes"`
}

func (c *unsetEnvCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Removing env variable %s from app %s", c.Args.Name, c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	var now variables
	if err := s.api.Get(ctx, "/v3/apps/"+app.GUID+"/environment_variables", nil, &now); err != nil {
		return nil, err
	}
	if _, set := now.Var[c.Args.Name]; !set {
		s.say("Env variable %s was not set.", c.Args.Name)
		if near := suggest.Closest(c.Args.Name, sortedKeys(now.Var)); near != "" {
			s.say("Did you mean %s?", near)
		}
		s.ok()
		return s.jsonOnly(&now), nil
	}
	return s.changeEnv(ctx, c.Args.App, c.Args.Name, nil)
}

func (s *session) changeEnv(ctx context.Context, name, variable string, value *string) (result, error) {
	app, err := s.app(ctx, name)
	if err != nil {
		return nil, err
	}
	if value != nil && (strings.HasPrefix(variable, "VCAP_") || variable == "PORT") {
		return nil, &problem{What: variable + " cannot be set.", Why: "it is reserved for the platform"}
	}
	var out struct {
		Var map[string]string `json:"var"`
	}
	if _, err := s.api.Patch(ctx, "/v3/apps/"+app.GUID+"/environment_variables", map[string]any{"var": map[string]*string{variable: value}}, &out); err != nil {
		return nil, err
	}
	s.ok()
	s.say("%s", fmt.Sprintf("TIP: Takes effect after a restart: '%s restart %s' ('restage' if a buildpack reads the variable).", s.w.Program, app.Name))
	return s.jsonOnly(&variables{out.Var}), nil
}

type variables struct {
	Var map[string]string `json:"var"`
}

func (*variables) show(*term.Printer) {}
