package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/cli/client"
)

type stackRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type stacksCommand struct{}

func (c *stacksCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting stacks as %s...", s.out.Bold(s.api.User().Name()))
	rows, err := client.List[stackRow](ctx, s.api, "/v3/stacks", nil)
	if err != nil {
		return nil, err
	}
	return &listing[stackRow]{
		key: "stacks", rows: rows, heading: []string{"name", "description"},
		cells: func(r stackRow) []string { return []string{r.Name, r.Description} },
	}, nil
}

// Commands for settings of the whole platform.

type variableRow struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type variableSet struct {
	Var map[string]any `json:"var"`
}

func variableGroup(phase string) func(context.Context, *session, words, *noFlags) (result, error) {
	return func(ctx context.Context, s *session, _ words, _ *noFlags) (result, error) {
		s.acting("Getting the %s environment variable group", phase)
		var group variableSet
		if err := s.api.Get(ctx, "/v3/environment_variable_groups/"+phase, nil, &group); err != nil {
			return nil, err
		}
		out := &listing[variableRow]{key: phase + " environment variables", heading: []string{"variable name", "assigned value"}, cells: func(r variableRow) []string {
			return []string{r.Name, r.Value}
		}}
		for _, name := range sortedKeys(group.Var) {
			out.rows = append(out.rows, variableRow{name, fmt.Sprint(group.Var[name])})
		}
		return out, nil
	}
}

// setVariableGroup replaces the variables of a group.
func setVariableGroup(phase string) func(context.Context, *session, words, *noFlags) (result, error) {
	return func(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
		next, err := s.jsonObject("JSON", w["JSON"])
		if err != nil {
			return nil, err
		}
		s.acting("Setting the contents of the %s environment variable group", phase)
		at := "/v3/environment_variable_groups/" + phase
		var group variableSet
		if err := s.api.Get(ctx, at, nil, &group); err != nil {
			return nil, err
		}
		change := map[string]any{}
		for name := range group.Var {
			change[name] = nil
		}
		for name, value := range next {
			if _, isText := value.(string); !isText && value != nil {
				value = fmt.Sprint(value)
			}
			change[name] = value
		}
		if err := s.send(ctx, http.MethodPatch, at, map[string]any{"var": change}); err != nil {
			return nil, err
		}
		return s.done("group", phase, "variables", len(next))
	}
}

func featureFlag(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Getting info for feature flag %s", w["FLAG"])
	var flag flagRow
	err := s.api.Get(ctx, "/v3/feature_flags/"+url.PathEscape(w["FLAG"]), nil, &flag)
	if client.Status(err) == http.StatusNotFound {
		return nil, &problem{What: "Feature flag '" + w["FLAG"] + "' not found.", Try: fmt.Sprintf("'%s feature-flags' lists them", s.w.Program), cause: err}
	}
	if err != nil {
		return nil, err
	}
	return &sheet{pairs: [][2]string{{"name", flag.Name}, {"state", map[bool]string{true: "enabled", false: "disabled"}[flag.Enabled]}}, json: flag}, nil
}

type fullStack struct {
	client.Thing
	Description string `json:"description"`
	State       string `json:"state"`
	Reason      string `json:"state_reason"`
}

func (s *session) stack(ctx context.Context, name string) (fullStack, error) {
	return named(ctx, s, "Stack", "/v3/stacks", name, nil, func(t fullStack) string { return t.Name })
}

func (t *fullStack) sheet() result {
	out := &sheet{pairs: [][2]string{{"name", t.Name}, {"description", t.Description}, {"state", cmp.Or(t.State, "ACTIVE")}}, json: t}
	if t.Reason != "" {
		out.pairs = append(out.pairs, [2]string{"reason", t.Reason})
	}
	return out
}

func showStack(ctx context.Context, s *session, w words, f *guidFlag) (result, error) {
	if !f.GUID {
		s.acting("Getting info for stack %s", w["STACK"])
	}
	t, err := s.stack(ctx, w["STACK"])
	if err != nil {
		return nil, err
	}
	if f.GUID {
		return &text{"guid", t.GUID}, nil
	}
	return t.sheet(), nil
}

type stackFlags struct {
	State  string `long:"state" value-name:"STATE" required:"yes" description:"New state: active, restricted, deprecated or disabled"`
	Reason string `long:"reason" value-name:"TEXT" description:"Why; shown to users of the stack"`
}

func updateStack(ctx context.Context, s *session, w words, f *stackFlags) (result, error) {
	s.acting("Updating stack %s", w["STACK"])
	t, err := s.stack(ctx, w["STACK"])
	if err != nil {
		return nil, err
	}
	body := map[string]any{"state": strings.ToUpper(f.State)}
	if f.Reason != "" {
		body["state_reason"] = f.Reason
	}
	if _, err := s.api.Patch(ctx, "/v3/stacks/"+t.GUID, body, &t); err != nil {
		return nil, err
	}
	s.ok()
	return t.sheet(), nil
}

func settingCommands() []*command {
	return inGroup(groupOperate,
		entry("stack", "STACK [--guid]", "Show a stack", aLogin, showStack, "cflinuxfs4"),
		entry("update-stack", "STACK --state STATE [--reason TEXT]", "Change the state of a stack", aLogin, updateStack, "cflinuxfs4 --state deprecated --reason 'Use a newer one.'").
			explained("No app can be created with a restricted stack, none can be staged with a disabled one; a deprecated one gives a warning."),
		entry("feature-flag", "FLAG", "Show a feature flag", aLogin, featureFlag, "task_creation"),
		entry("running-environment-variable-group", "", "Show the environment variables of all running apps", aLogin, variableGroup(phaseRunning), "").alias("revg"),
		entry("staging-environment-variable-group", "", "Show the environment variables of all builds", aLogin, variableGroup(phaseStaging), "").alias("sevg"),
		entry("set-running-environment-variable-group", "JSON", "Set the environment variables of all running apps", aLogin, setVariableGroup(phaseRunning), `'{"REGION":"north"}'`).alias("srevg").
			explained("JSON is an object, or the path of a file with one. Variables that it does not name are removed."),
		entry("set-staging-environment-variable-group", "JSON", "Set the environment variables of all builds", aLogin, setVariableGroup(phaseStaging), `'{"MIRROR":"near"}'`).alias("ssevg").
			explained("JSON is an object, or the path of a file with one. Variables that it does not name are removed."),
		entry("ssh-code", "", "Show a one-time password for ssh clients", aLogin, sshCode, ""),
	)
}

func sshCode(ctx context.Context, s *session, _ words, _ *noFlags) (result, error) {
	root, err := s.api.Discover(ctx)
	if err != nil {
		return nil, err
	}
	id := "ssh-proxy"
	if gate := root.Links["app_ssh"]; gate != nil {
		id = cmp.Or(gate.Meta.OAuthClient, id)
	}
	code, err := s.api.Code(ctx, s.cfg.Links.UAA, id)
	if err != nil {
		return nil, err
	}
	return &text{"code", code}, nil
}

type flagRow struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

type featureFlagsCommand struct{}

func (c *featureFlagsCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting feature flags as %s...", s.out.Bold(s.api.User().Name()))
	rows, err := client.List[flagRow](ctx, s.api, "/v3/feature_flags", nil)
	if err != nil {
		return nil, err
	}
	return &listing[flagRow]{
		key: "feature flags", rows: rows, heading: []string{"name", "state"},
		cells: func(r flagRow) []string {
			return []string{r.Name, map[bool]string{true: "enabled", false: "disabled"}[r.Enabled]}
		},
	}, nil
}

type switchFlagCommand struct {
	on   bool
	Args struct {
		Flag string `positional-arg-name:"FLAG" required:"yes"`
	} `positional-args:"yes"`
}

func (c *switchFlagCommand) run(ctx context.Context, s *session) (result, error) {
	verb := map[bool]string{true: "Enabling", false: "Disabling"}[c.on]
	s.say("%s feature flag %s as %s...", verb, s.out.Bold(c.Args.Flag), s.out.Bold(s.api.User().Name()))
	_, err := s.api.Patch(ctx, "/v3/feature_flags/"+url.PathEscape(c.Args.Flag), map[string]bool{"enabled": c.on}, nil)
	if client.Status(err) == http.StatusNotFound {
		return nil, &problem{What: "Feature flag '" + c.Args.Flag + "' not found.", Try: fmt.Sprintf("'%s feature-flags' lists them", s.w.Program), cause: err}
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return s.jsonOnly(&jsonAs{nil, flagRow{c.Args.Flag, c.on}}), nil
}
