package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
)

// findLocal targets the server on this machine unless the user chose a target,
// and logs in as its administrator: a user who can read the server's secrets can
// do that anyway. It follows the server to another port.
func (s *session) findLocal(ctx context.Context) error {
	if s.cfg.API != "" && s.cfg.Local == "" {
		return nil // chosen by the user
	}
	dir := s.cfg.Local
	if dir == "" {
		dir = s.w.DataDir
	}
	if given := s.w.Getenv("INGOT_DATA_DIR"); given != "" {
		dir = given
	}
	local, err := config.FindLocal(dir)
	if err != nil {
		return nil //nolint:nilerr // no server found: the user has to log in
	}
	ends := client.Parse(s.cfg.AccessToken).Ends()
	if s.cfg.API == local.API && s.cfg.Local == dir && s.cfg.LocalPID == local.PID && time.Until(ends) > time.Minute {
		return nil
	}
	password, err := local.Secret(config.AdminPassword)
	if err != nil {
		return nil //nolint:nilerr // no permission to read its secrets
	}
	return s.logInLocal(ctx, local, password)
}

func (s *session) logInLocal(ctx context.Context, local *config.Local, password string) error {
	old := *s.cfg
	if err := s.setAPI(ctx, local.API, false); err != nil {
		return err
	}
	s.cfg.Local, s.cfg.LocalPID, s.cfg.Links.Notifications, s.cfg.Links.Public = local.Dir, local.PID, local.Notifications, local.Public
	if old.Local == local.Dir {
		s.cfg.Notifications = old.Notifications
	}
	if err := s.logIn(ctx, "cf", "", url.Values{"grant_type": {"password"}, "username": {"admin"}, "password": {password}}); err != nil {
		return fmt.Errorf("the server on this machine (%s): %w", local.API, err)
	}
	if old.Org.Name != "" { // the same server on another port
		_ = s.choose(ctx, old.Org.Name, old.Space.Name) // the org or space may have been deleted
	}
	if s.cfg.Space.GUID == "" {
		if err := s.chooseOnly(ctx); err != nil {
			return err
		}
	}
	if old.Local != local.Dir && !s.JSON && !s.Quiet {
		where := ""
		if s.cfg.Space.Name != "" {
			where = fmt.Sprintf(", org %s, space %s", s.cfg.Org.Name, s.cfg.Space.Name)
		}
		s.errs.Printf("Using the server on this machine: %s as admin%s (found in %s).", local.API, where, local.Dir)
	}
	return s.cfg.Save()
}

// setAPI targets an API and drops the login of the previous one.
func (s *session) setAPI(ctx context.Context, api string, skipTLS bool) error {
	next := client.New(api, skipTLS, client.Tokens{})
	defer next.Close()
	root, err := next.Discover(ctx)
	if err != nil {
		return err
	}
	s.cfg.Forget()
	s.cfg.API, s.cfg.SkipSSLValidation, s.cfg.Local = next.API, skipTLS, ""
	s.cfg.APIVersion = root.Links["cloud_controller_v3"].Meta.Version
	s.cfg.Links = config.Links{
		Login: root.Href("login"), UAA: root.Href("uaa"), LogCache: root.Href("log_cache"), SSH: root.Href("app_ssh"), Notifications: root.Href("notifications"),
	}
	if ssh := root.Links["app_ssh"]; ssh != nil {
		s.cfg.Links.SSHHostKey = ssh.Meta.HostKey
	}
	s.connect()
	return nil
}

// logIn logs in and stores the tokens.
func (s *session) logIn(ctx context.Context, id, secret string, form url.Values) error {
	tokens, err := s.api.Grant(ctx, id, secret, form)
	if err != nil {
		return err
	}
	s.api.Use(tokens)
	s.cfg.AccessToken, s.cfg.RefreshToken = tokens.Access, tokens.Refresh
	return nil
}

// choose targets an org and a space by name. Without a space name it targets the
// org's only space, if it has just one.
func (s *session) choose(ctx context.Context, org, space string) error {
	if org != "" {
		o, err := named(ctx, s, "Org", "/v3/organizations", org, nil, func(t client.Thing) string { return t.Name })
		if err != nil {
			return err
		}
		s.cfg.Org, s.cfg.Space = config.Named{GUID: o.GUID, Name: o.Name}, config.Named{}
	}
	q := url.Values{"organization_guids": {s.cfg.Org.GUID}}
	if space != "" {
		if s.cfg.Org.GUID == "" {
			return s.check(anOrg)
		}
		one, err := named(ctx, s, "Space", "/v3/spaces", space, q, func(t client.Thing) string { return t.Name })
		if err != nil {
			return err
		}
		s.cfg.Space = config.Named{GUID: one.GUID, Name: one.Name}
		return nil
	}
	spaces, err := client.List[client.Thing](ctx, s.api, "/v3/spaces", q)
	if err == nil && len(spaces) == 1 {
		s.cfg.Space = config.Named{GUID: spaces[0].GUID, Name: spaces[0].Name}
	}
	return err
}

// chooseOnly targets the only org and its only space, if there is just one.
func (s *session) chooseOnly(ctx context.Context) error {
	orgs, err := client.List[client.Thing](ctx, s.api, "/v3/organizations", nil)
	if err != nil || len(orgs) != 1 {
		return err
	}
	return s.choose(ctx, orgs[0].Name, "")
}
