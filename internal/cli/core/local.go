package core

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
)

// findLocal targets the server on this machine unless the user chose a target,
// and logs in as its administrator: a user who can read the server's secrets can
// do that anyway. It follows the server to another port.
func (s *Session) findLocal(ctx context.Context) error {
	if s.Config.Name() != config.LocalName || s.Config.API != "" && s.Config.Local == "" {
		return nil // chosen by the user
	}
	dir := s.Config.Local
	if dir == "" {
		dir = s.Env.DataDir
	}
	if given := s.Env.Getenv("INGOT_DATA_DIR"); given != "" {
		dir = given
	}
	local, err := config.FindLocal(dir)
	if err != nil {
		return nil //nolint:nilerr // no server found: the user has to log in
	}
	ends := client.Parse(s.Config.AccessToken).Ends()
	if s.Config.API == local.API && s.Config.Local == dir && s.Config.LocalPID == local.PID &&
		time.Until(ends) > time.Minute {
		return nil
	}
	password, err := local.Secret(config.AdminPassword)
	if err != nil {
		return nil //nolint:nilerr // no permission to read its secrets
	}
	return s.logInLocal(ctx, local, password)
}

func (s *Session) logInLocal(ctx context.Context, local *config.Local, password string) error {
	old := *s.Config
	if err := s.setAPI(ctx, s.Config, local.API, client.Trust{}); err != nil {
		return err
	}
	s.Config.Local, s.Config.LocalPID, s.Config.Links.Notifications, s.Config.Links.Public = local.Dir, local.PID,
		local.Notifications, local.Public
	if old.Local == local.Dir {
		s.Config.Notifications = old.Notifications
	}
	if err := s.LogIn(ctx, "cf", "", url.Values{"grant_type": {"password"}, "username": {"admin"},
		"password": {password}}); err != nil {
		return fmt.Errorf("the server on this machine (%s): %w", local.API, err)
	}
	if old.Org.Name != "" { // the same server on another port
		_ = s.Choose(ctx, old.Org.Name, old.Space.Name) // the org or space may have been deleted
	}
	if s.Config.Space.GUID == "" {
		if err := s.chooseOnly(ctx); err != nil {
			return err
		}
	}
	if old.Local != local.Dir && !s.JSON && !s.Quiet {
		where := ""
		if s.Config.Space.Name != "" {
			where = fmt.Sprintf(", org %s, space %s", s.Config.Org.Name, s.Config.Space.Name)
		}
		s.Errs.Printf("Using the server on this machine: %s as admin%s (found in %s).", local.API, where, local.Dir)
	}
	return s.Config.Save()
}

// SetAPI targets an API, in the context that it belongs to, and drops the login of the previous
// one. An empty trust is what the context of this API has.
func (s *Session) SetAPI(ctx context.Context, api string, trust client.Trust) error {
	api = strings.TrimRight(api, "/")
	into, err := s.Store.ForAPI(s.Config, api)
	if err != nil {
		return err
	}
	if into.API == api {
		trust = client.Trust{Any: trust.Any || into.SkipSSLValidation, CA: cmp.Or(trust.CA, into.CA)}
	}
	if into.Name() == config.CFName && trust.CA != "" {
		return &Problem{What: "The configuration of the cf CLI cannot hold certificates.",
			Try: "set SSL_CERT_FILE, or use another context"}
	}
	return s.setAPI(ctx, into, api, trust)
}

// setAPI makes a context the one of the session, and targets an API there.
func (s *Session) setAPI(ctx context.Context, into *config.Config, api string, trust client.Trust) error {
	next := client.New(api, trust, client.Tokens{})
	defer next.Close()
	root, err := next.Discover(ctx)
	if err != nil {
		return err
	}
	into.Forget()
	into.API, into.SkipSSLValidation, into.CA, into.Local = next.API, trust.Any, trust.CA, ""
	into.APIVersion = root.Links["cloud_controller_v3"].Meta.Version
	into.Links = linksOf(root)
	s.Config = into
	s.connect()
	return nil
}

// linksOf returns the addresses in a root document.
func linksOf(root *client.Root) config.Links {
	links := config.Links{
		Login: root.Href("login"), UAA: root.Href("uaa"), LogCache: root.Href("log_cache"), SSH: root.Href("app_ssh"),
		Notifications: root.Href("notifications"), Logging: root.Href("logging"), Routing: root.Href("routing"),
		Policies: root.Href("network_policy_v1"),
	}
	if ssh := root.Links["app_ssh"]; ssh != nil {
		links.SSHHostKey = ssh.Meta.HostKey
	}
	return links
}

// LogIn logs in and stores the tokens.
func (s *Session) LogIn(ctx context.Context, id, secret string, form url.Values) error {
	tokens, err := s.API.Grant(ctx, id, secret, form)
	if err != nil {
		return err
	}
	s.API.Use(tokens)
	s.Config.AccessToken, s.Config.RefreshToken = tokens.Access, tokens.Refresh
	return nil
}

// Choose targets an org and a space by name. Without a space name it targets the
// org's only space, if it has just one.
func (s *Session) Choose(ctx context.Context, org, space string) error {
	if org != "" {
		o, err := Named[cfapi.Thing](ctx, s, "Org", "/v3/organizations", org, nil)
		if err != nil {
			return err
		}
		s.Config.Org, s.Config.Space = config.Named{GUID: o.GUID, Name: o.Name}, config.Named{}
	}
	q := url.Values{"organization_guids": {s.Config.Org.GUID}}
	if space != "" {
		if s.Config.Org.GUID == "" {
			return s.Check(NeedsOrg)
		}
		one, err := Named[cfapi.Thing](ctx, s, "Space", "/v3/spaces", space, q)
		if err != nil {
			return err
		}
		s.Config.Space = config.Named{GUID: one.GUID, Name: one.Name}
		return nil
	}
	spaces, err := client.List[cfapi.Thing](ctx, s.API, "/v3/spaces", q)
	if err == nil && len(spaces) == 1 {
		s.Config.Space = config.Named{GUID: spaces[0].GUID, Name: spaces[0].Name}
	}
	return err
}

// chooseOnly targets the only org and its only space, if there is just one.
func (s *Session) chooseOnly(ctx context.Context) error {
	orgs, err := client.List[cfapi.Thing](ctx, s.API, "/v3/organizations", nil)
	if err != nil || len(orgs) != 1 {
		return err
	}
	return s.Choose(ctx, orgs[0].Name, "")
}
