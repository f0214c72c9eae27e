package core

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"ingot/internal/base/version"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
)

// WithContext returns the environment with another context for a command that has no --context.
func (w *Env) WithContext(name string) *Env {
	other := *w
	other.Getenv = func(variable string) string {
		if variable == ContextVariable {
			return name
		}
		return w.Getenv(variable)
	}
	return &other
}

// ContextVariable names the context of a command that has no --context.
const ContextVariable = "INGOT_CONTEXT"

// loadContext reads the context that the flag or the environment names, or the current one.
func (s *Session) loadContext() (err error) {
	s.Store = config.Open(s.Env.Getenv)
	if s.Config, err = s.Store.Load(cmp.Or(s.Context, s.Env.Getenv(ContextVariable))); err != nil {
		return err
	}
	if saved := s.Config.RefreshToken; s.pull() {
		_ = s.Config.SaveLogin(s.Config.API, saved) // the next command does it again
	}
	return nil
}

// Trust returns which certificates a context accepts.
func Trust(c *config.Config) client.Trust { return client.Trust{Any: c.SkipSSLValidation, CA: c.CA} }

// OpenContext returns a session without output that makes calls in the context of a command.
func OpenContext(w *Env, name string) (*Session, error) {
	s := &Session{Env: w, Output: Output{Context: name}}
	if err := s.loadContext(); err != nil {
		return nil, err
	}
	s.API = s.client()
	return s, nil
}

// client returns a client of the context's API.
func (s *Session) client() *client.Client {
	c := client.New(s.Config.API, Trust(s.Config), tokensOf(s.Config))
	c.Login, c.Agent = s.Config.Links.Login, "ingot/"+version.Version
	c.ID, c.Secret, c.Renew = s.Config.Client.ID, s.Config.Client.Secret, s.renew
	return c
}

func tokensOf(c *config.Config) client.Tokens {
	return client.Tokens{Access: c.AccessToken, Refresh: c.RefreshToken}
}

// renew renews the login of the context. Commands that run at once take turns, because the server
// replaces a refresh token when it is used: the second finds what the first has saved.
func (s *Session) renew(ctx context.Context, old client.Tokens, grant client.Granting) (client.Tokens, error) {
	defer s.Store.LockLogins(ctx)()
	saved := old.Refresh
	if again, err := s.Config.Reload(); err == nil {
		s.takeNewer(again)
		saved = again.RefreshToken
	}
	s.pull()
	last := tokensOf(s.Config)
	next := last
	if last.Access == old.Access || time.Until(client.Parse(last.Access).Ends()) <= client.Early {
		var err error
		if next, err = grant(ctx, last); err != nil {
			return next, err
		}
	}
	s.Config.AccessToken, s.Config.RefreshToken = next.Access, next.Refresh
	_ = s.Config.SaveLogin(s.Config.API, saved) // the next command renews it again
	if cf := s.shared(); cf != nil && cf.RefreshToken == last.Refresh {
		cf.AccessToken, cf.RefreshToken = next.Access, next.Refresh
		_ = cf.SaveLogin(cf.API, last.Refresh) // the cf CLI renews it itself, as long as the server allows
	}
	return next, nil
}

// shared returns the configuration of the cf CLI if it has a copy of this login.
func (s *Session) shared() *config.Config {
	if !s.Config.SharedWithCF {
		return nil
	}
	if cf, err := s.Store.Load(config.CFName); err == nil && cf.Err() == nil && sameLogin(cf, s.Config) {
		return cf
	}
	return nil
}

// pull takes over the tokens of a shared login, and reports whether the cf CLI has renewed them.
func (s *Session) pull() bool {
	cf := s.shared()
	return cf != nil && s.takeNewer(cf)
}

// takeNewer takes over the tokens of the same login unless they are older, and reports whether
// they are others. In the same second, the saved ones count: a command saves what it renews.
func (s *Session) takeNewer(other *config.Config) bool {
	if !sameLogin(other, s.Config) || other.AccessToken == s.Config.AccessToken ||
		client.Parse(other.AccessToken).Issued < client.Parse(s.Config.AccessToken).Issued {
		return false
	}
	s.Config.AccessToken, s.Config.RefreshToken = other.AccessToken, other.RefreshToken
	return true
}

// sameLogin reports whether two contexts have the same user or client at the same API.
func sameLogin(a, b *config.Config) bool {
	x, y := client.Parse(a.AccessToken), client.Parse(b.AccessToken)
	return a.API == b.API && x.UserID == y.UserID && x.ClientID == y.ClientID && x.Name() != ""
}

// ExportedBefore reports whether the cf CLI has a copy of this login.
func (s *Session) ExportedBefore(cf *config.Config) bool {
	return s.Config.SharedWithCF && sameLogin(cf, s.Config)
}

// Export writes the context into the configuration of the cf CLI. Contexts that shared their
// login with it take over its tokens first.
func (s *Session) Export(ctx context.Context) error {
	root, err := s.API.Discover(ctx)
	if err != nil {
		return err
	}
	links := linksOf(root)
	links.Notifications, links.Public = s.Config.Links.Notifications, s.Config.Links.Public
	s.Config.Links = links
	all, err := s.Store.Contexts()
	if err != nil {
		return err
	}
	for _, c := range all {
		if other := (&Session{Store: s.Store, Config: c}); c.SharedWithCF && c.Name() != s.Config.Name() {
			other.pull()
			c.SharedWithCF = false
			if err := c.Save(); err != nil {
				return err
			}
		}
	}
	if err := s.Store.Export(s.Config); err != nil {
		return err
	}
	if s.Config.Local != "" { // the next command logs in by itself
		s.Config.AccessToken, s.Config.RefreshToken = "", ""
	} else {
		s.Config.SharedWithCF = true
	}
	return s.Config.Save()
}

// LoginCommand returns the command that logs in to the context.
func (s *Session) LoginCommand() string {
	command := s.Env.Program + " login"
	if s.Config.Named() {
		command += " --context " + s.Config.Name()
	}
	return command
}

// noAPI explains why a context has no API.
func (s *Session) noAPI() error {
	if err := s.Config.Err(); err != nil {
		return &Problem{What: "The context " + s.Config.Name() + " cannot be used.", Why: err.Error(),
			Try: fmt.Sprintf("'%s context use NAME' selects another one", s.Env.Program), Err: err}
	}
	var names []string
	for _, c := range s.Contexts() {
		if c.API != "" && c.Name() != s.Config.Name() {
			names = append(names, c.Name())
		}
	}
	p := &Problem{What: "No API is targeted.", Why: "you are not logged in", Try: "'" + s.LoginCommand() + " -a URL'"}
	if len(names) > 0 {
		p.Try = fmt.Sprintf("'%s context use NAME', or %s", s.Env.Program, p.Try)
		p.Existing = Existing("context", names)
	}
	switch name := s.Config.Name(); {
	case name == config.CFName:
		p.What, p.Why = "The cf CLI has no target.", s.Store.CFPath()+" names no API"
	case name != config.LocalName:
		p.What, p.Why = fmt.Sprintf("Context '%s' not found.", name), ""
		p.Try = fmt.Sprintf("'%s context add %s URL'", s.Env.Program, name)
	case s.Env.ServerDir() != "":
		p.Why += ", and no server is running on this machine"
		p.Try += ", or start a server here with 'ingot up --demo'"
	}
	return p
}

// Contexts returns all contexts: those that were used, the one of the cf CLI if that has a
// target, and the one of the server on this machine if that runs. It leaves out what cannot be read.
func (s *Session) Contexts() []*config.Config {
	all, err := s.Store.Contexts()
	if err != nil {
		return nil
	}
	has := func(name string) bool {
		for _, c := range all {
			if c.Name() == name {
				return true
			}
		}
		return false
	}
	if local, err := config.FindLocal(s.Env.ServerDir()); err == nil && !has(config.LocalName) {
		c := s.Store.New(config.LocalName)
		c.API, c.Local = local.API, local.Dir
		all = append(all, c)
	}
	if cf, err := s.Store.Load(config.CFName); err == nil && (cf.API != "" || cf.Err() != nil) {
		all = append(all, cf)
	}
	return all
}
