package apps

import (
	"context"
	"slices"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/core"
)

// sshState describes whether ssh is enabled for an app.
type sshState struct {
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason"`
}

func sshStateOf(ctx context.Context, s *core.Session, app cfapi.App) (*core.Text, *sshState, error) {
	var state sshState
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/ssh_enabled", nil, &state); err != nil {
		return nil, nil, err
	}
	line := "ssh support is enabled for app '" + app.Name + "'."
	if !state.Enabled {
		line = "ssh support is disabled for app '" + app.Name + "'."
		if state.Reason != "" {
			line += " " + state.Reason
		}
	}
	return &core.Text{Key: "ssh", Value: line}, &state, nil
}

func showSSH(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	line, state, err := sshStateOf(ctx, s, app)
	if err != nil {
		return nil, err
	}
	return &core.JSONAs{Result: line, JSON: state}, nil
}

func allowSSH(on bool) core.Action[core.NoFlags] {
	doing := map[bool]string{true: "Enabling ssh support for app %s", false: "Disabling ssh support for app %s"}[on]
	return core.OnApp(doing, func(
		ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags,
	) (core.Result, error) {
		path := "/v3/apps/" + app.GUID + "/features/ssh"
		if _, err := s.API.Patch(ctx, path, cfapi.Feature{Enabled: on}, nil); err != nil {
			return nil, err
		}
		s.OK()
		line, state, err := sshStateOf(ctx, s, app)
		if err != nil {
			return nil, err
		}
		// The space or the platform may deny what the app allows.
		if state.Enabled != on {
			s.Say("%s", line.Value)
		}
		s.Say("TIP: Takes effect after a restart: '%s restart %s'.", s.Env.Program, app.Name)
		return s.JSONOnly(&core.JSONAs{Result: line, JSON: state}), nil
	})
}

func sshAccessCommands() []*core.Command {
	return slices.Concat(core.InGroup(core.GroupApps,
		core.Entry("enable-ssh", "APP", "Enable ssh for an app", core.NeedsSpace, allowSSH(true), "my-app"),
		core.Entry("disable-ssh", "APP", "Disable ssh for an app", core.NeedsSpace, allowSSH(false), "my-app"),
	), core.InGroup(core.GroupInspect,
		core.Entry("ssh-enabled", "APP", "Show whether ssh is enabled for an app", core.NeedsSpace, showSSH, "my-app"),
	))
}
