package cli

import (
	"context"

	"ingot/internal/cli/client"
)

type sshEnabledCommand struct{ oneApp }

// sshState describes whether ssh is enabled for an app.
type sshState struct {
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason"`
}

func (s *session) sshState(ctx context.Context, app client.App) (*text, *sshState, error) {
	var state sshState
	if err := s.api.Get(ctx, "/v3/apps/"+app.GUID+"/ssh_enabled", nil, &state); err != nil {
		return nil, nil, err
	}
	line := "ssh support is enabled for app '" + app.Name + "'."
	if !state.Enabled {
		line = "ssh support is disabled for app '" + app.Name + "'."
		if state.Reason != "" {
			line += " " + state.Reason
		}
	}
	return &text{"ssh", line}, &state, nil
}

func (c *sshEnabledCommand) run(ctx context.Context, s *session) (result, error) {
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	line, state, err := s.sshState(ctx, app)
	if err != nil {
		return nil, err
	}
	return &jsonAs{line, state}, nil
}

type allowSSHCommand struct {
	oneApp
	on bool
}

func (c *allowSSHCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing(map[bool]string{true: "Enabling ssh support for app %s", false: "Disabling ssh support for app %s"}[c.on], c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if _, err := s.api.Patch(ctx, "/v3/apps/"+app.GUID+"/features/ssh", map[string]bool{"enabled": c.on}, nil); err != nil {
		return nil, err
	}
	s.ok()
	line, state, err := s.sshState(ctx, app)
	if err != nil {
		return nil, err
	}
	// The space or the platform may deny what the app allows.
	if state.Enabled != c.on {
		s.say("%s", line.value)
	}
	s.say("TIP: Takes effect after a restart: '%s restart %s'.", s.w.Program, app.Name)
	return s.jsonOnly(&jsonAs{line, state}), nil
}
