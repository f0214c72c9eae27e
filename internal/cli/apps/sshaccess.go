package apps

import (
	"context"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type sshEnabledCommand struct{ oneApp }

// sshState describes whether ssh is enabled for an app.
type sshState struct {
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason"`
}

func sshStateOf(ctx context.Context, s *core.Session, app client.App) (*core.Text, *sshState, error) {
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

func (c *sshEnabledCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	line, state, err := sshStateOf(ctx, s, app)
	if err != nil {
		return nil, err
	}
	return &core.JSONAs{Result: line, JSON: state}, nil
}

type allowSSHCommand struct {
	oneApp
	on bool
}

func (c *allowSSHCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing(map[bool]string{true: "Enabling ssh support for app %s", false: "Disabling ssh support for app %s"}[c.on], c.Args.App)
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if _, err := s.API.Patch(ctx, "/v3/apps/"+app.GUID+"/features/ssh", map[string]bool{"enabled": c.on}, nil); err != nil {
		return nil, err
	}
	s.OK()
	line, state, err := sshStateOf(ctx, s, app)
	if err != nil {
		return nil, err
	}
	// The space or the platform may deny what the app allows.
	if state.Enabled != c.on {
		s.Say("%s", line.Value)
	}
	s.Say("TIP: Takes effect after a restart: '%s restart %s'.", s.Env.Program, app.Name)
	return s.JSONOnly(&core.JSONAs{Result: line, JSON: state}), nil
}
