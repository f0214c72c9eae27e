package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type stackRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func listStacks(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting stacks")
	return (&core.Listing[stackRow]{
		Key: "stacks", Heading: []string{"name", "description"},
		Cells: func(r stackRow) []string { return []string{r.Name, r.Description} },
	}).List(ctx, s, "/v3/stacks", nil)
}

// Commands for settings of the whole platform.

type variableRow struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type variableSet struct {
	Var map[string]any `json:"var"`
}

func variableGroup(phase string) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
		s.Acting("Getting the %s environment variable group", phase)
		var group variableSet
		if err := s.API.Get(ctx, "/v3/environment_variable_groups/"+phase, nil, &group); err != nil {
			return nil, err
		}
		out := &core.Listing[variableRow]{Key: phase + " environment variables", Heading: []string{"variable name",
			"assigned value"}, Cells: func(r variableRow) []string {
			return []string{r.Name, r.Value}
		}}
		for _, name := range core.SortedKeys(group.Var) {
			out.Rows = append(out.Rows, variableRow{name, fmt.Sprint(group.Var[name])})
		}
		return out, nil
	}
}

// setVariableGroup replaces the variables of a group.
func setVariableGroup(phase string) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
		next, err := s.JSONObject("JSON", w["JSON"])
		if err != nil {
			return nil, err
		}
		s.Acting("Setting the contents of the %s environment variable group", phase)
		at := "/v3/environment_variable_groups/" + phase
		var group variableSet
		if err := s.API.Get(ctx, at, nil, &group); err != nil {
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
		return s.Change(ctx, http.MethodPatch, at, map[string]any{"var": change}, "group", phase, "variables", len(next))
	}
}

func featureFlag(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting info for feature flag %s", w["FLAG"])
	var flag flagRow
	err := s.API.Get(ctx, "/v3/feature_flags/"+url.PathEscape(w["FLAG"]), nil, &flag)
	if err != nil {
		return nil, noFlag(s, w["FLAG"], err)
	}
	return &core.Sheet{Pairs: [][2]string{{"name", flag.Name},
		{"state", flag.state()}}, JSON: flag}, nil
}

type fullStack struct {
	cfapi.Thing
	Description string `json:"description"`
	State       string `json:"state"`
	Reason      string `json:"state_reason"`
}

func findStack(ctx context.Context, s *core.Session, name string) (fullStack, error) {
	return core.Named[fullStack](ctx, s, "Stack", "/v3/stacks", name, nil)
}

func (t *fullStack) sheet() core.Result {
	out := &core.Sheet{Pairs: [][2]string{{"name", t.Name}, {"description", t.Description},
		{"state", cmp.Or(t.State, "ACTIVE")}}, JSON: t}
	if t.Reason != "" {
		out.Pairs = append(out.Pairs, [2]string{"reason", t.Reason})
	}
	return out
}

func showStack(ctx context.Context, s *core.Session, w core.Words, f *core.GUIDFlag) (core.Result, error) {
	if !f.GUID {
		s.Acting("Getting info for stack %s", w["STACK"])
	}
	t, err := findStack(ctx, s, w["STACK"])
	if err != nil {
		return nil, err
	}
	if f.GUID {
		return &core.Text{Key: "guid", Value: t.GUID}, nil
	}
	return t.sheet(), nil
}

type stackFlags struct {
	State  string `long:"state" value-name:"STATE" required:"yes" description:"New state: active, restricted, deprecated or disabled"`
	Reason string `long:"reason" value-name:"TEXT" description:"Why; shown to users of the stack"`
}

func updateStack(ctx context.Context, s *core.Session, w core.Words, f *stackFlags) (core.Result, error) {
	s.Acting("Updating stack %s", w["STACK"])
	t, err := findStack(ctx, s, w["STACK"])
	if err != nil {
		return nil, err
	}
	body := map[string]any{"state": strings.ToUpper(f.State)}
	if f.Reason != "" {
		body["state_reason"] = f.Reason
	}
	if _, err := s.API.Patch(ctx, "/v3/stacks/"+t.GUID, body, &t); err != nil {
		return nil, err
	}
	s.OK()
	return t.sheet(), nil
}

func sshCode(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	root, err := s.API.Discover(ctx)
	if err != nil {
		return nil, err
	}
	id := "ssh-proxy"
	if gate := root.Links["app_ssh"]; gate != nil {
		id = cmp.Or(gate.Meta.OAuthClient, id)
	}
	code, err := s.API.Code(ctx, s.Config.Links.UAA, id)
	if err != nil {
		return nil, err
	}
	return &core.Text{Key: "code", Value: code}, nil
}

type flagRow struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

func (r flagRow) state() string {
	return map[bool]string{true: "enabled", false: "disabled"}[r.Enabled]
}

// noFlag explains the error of a request for a feature flag that does not exist.
func noFlag(s *core.Session, name string, err error) error {
	if client.Status(err) != http.StatusNotFound {
		return err
	}
	return &core.Problem{What: "Feature flag '" + name + "' not found.",
		Try: fmt.Sprintf("'%s feature-flags' lists them", s.Env.Program), Err: err}
}

func listFeatureFlags(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting feature flags")
	return (&core.Listing[flagRow]{
		Key: "feature flags", Heading: []string{"name", "state"},
		Cells: func(r flagRow) []string { return []string{r.Name, r.state()} },
	}).List(ctx, s, "/v3/feature_flags", nil)
}

func switchFlag(on bool) core.Action[core.NoFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
		verb := map[bool]string{true: "Enabling", false: "Disabling"}[on]
		s.Say("%s feature flag %s as %s...", verb, s.Out.Bold(w["FLAG"]), s.Out.Bold(s.API.User().Name()))
		_, err := s.API.Patch(ctx, "/v3/feature_flags/"+url.PathEscape(w["FLAG"]), map[string]bool{"enabled": on}, nil)
		if err != nil {
			return nil, noFlag(s, w["FLAG"], err)
		}
		s.OK()
		return s.JSONOnly(&core.JSONAs{JSON: flagRow{w["FLAG"], on}}), nil
	}
}

func settingCommands() []*core.Command {
	return append(core.InGroup(core.GroupOperate,
		core.Entry("stacks", "", "List stacks", core.NeedsLogin, listStacks, ""),
		core.Entry("feature-flags", "", "List feature flags", core.NeedsLogin, listFeatureFlags, ""),
		core.Entry("enable-feature-flag", "FLAG", "Enable a feature flag", core.NeedsLogin, switchFlag(true),
			"user_org_creation"),
		core.Entry("disable-feature-flag", "FLAG", "Disable a feature flag", core.NeedsLogin, switchFlag(false),
			"user_org_creation"),
	), core.Last(core.InGroup(core.GroupOperate,
		core.Entry("stack", "STACK [--guid]", "Show a stack", core.NeedsLogin, showStack, "cflinuxfs4"),
		core.Entry("update-stack", "STACK --state STATE [--reason TEXT]", "Change the state of a stack", core.NeedsLogin,
			updateStack, "cflinuxfs4 --state deprecated --reason 'Use a newer one.'").
			Explained("No app can be created with a restricted stack, none can be staged with a disabled one; a deprecated "+
				"one gives a warning."),
		core.Entry("feature-flag", "FLAG", "Show a feature flag", core.NeedsLogin, featureFlag, "task_creation"),
		core.Entry("running-environment-variable-group", "", "Show the environment variables of all running apps",
			core.NeedsLogin, variableGroup(core.PhaseRunning), "").Alias("revg"),
		core.Entry("staging-environment-variable-group", "", "Show the environment variables of all builds", core.NeedsLogin,
			variableGroup(core.PhaseStaging), "").Alias("sevg"),
		core.Entry("set-running-environment-variable-group", "JSON", "Set the environment variables of all running apps",
			core.NeedsLogin, setVariableGroup(core.PhaseRunning), `'{"REGION":"north"}'`).Alias("srevg").
			Explained("JSON is an object, or the path of a file with one. Variables that it does not name are removed."),
		core.Entry("set-staging-environment-variable-group", "JSON", "Set the environment variables of all builds",
			core.NeedsLogin, setVariableGroup(core.PhaseStaging), `'{"MIRROR":"near"}'`).Alias("ssevg").
			Explained("JSON is an object, or the path of a file with one. Variables that it does not name are removed."),
		core.Entry("ssh-code", "", "Show a one-time password for ssh clients", core.NeedsLogin, sshCode, ""),
	))...)
}
