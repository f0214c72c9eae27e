package access

import (
	"cmp"
	"context"
	"fmt"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
)

// contextRow is a context as it is listed: without its tokens.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	API     string `json:"api"`
	User    string `json:"user,omitempty"`
	Org     string `json:"org,omitempty"`
	Space   string `json:"space,omitempty"`
	// From says where a context comes from that the user did not add.
	From    string `json:"from,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// rowOf returns the row of a context.
func rowOf(s *core.Session, c *config.Config) contextRow {
	r := contextRow{
		Name: c.Name(), Current: c.Name() == s.Config.Name(), API: c.API, User: client.Parse(c.AccessToken).Name(),
		Org: c.Org.Name, Space: c.Space.Name,
	}
	switch {
	case c.Err() != nil:
		r.Problem = c.Err().Error()
	case c.Name() == config.CFName:
		r.From = "the cf CLI, in " + s.Store.CFPath()
	case c.Local != "":
		r.From = "the server on this machine, in " + c.Local
	}
	return r
}

func listContexts(_ context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	var rows []contextRow
	for _, c := range s.Contexts() {
		rows = append(rows, rowOf(s, c))
	}
	return &core.Listing[contextRow]{
		Key: "contexts", Heading: []string{"current", "name", "api", "user", "org", "space"}, Rows: rows,
		Cells: func(r contextRow) []string {
			return []string{map[bool]string{true: "*"}[r.Current], r.Name, cmp.Or(r.API, "cannot be used: "+r.Problem),
				cmp.Or(r.User, "-"), cmp.Or(r.Org, "-"), cmp.Or(r.Space, "-")}
		},
		Paint: []core.Paint{nil, core.Bold},
		None: fmt.Sprintf("No contexts yet: '%[1]s login -a URL' or '%[1]s context add NAME URL' makes one.",
			s.Env.Program),
	}, nil
}

// existing returns a context that exists.
func existing(s *core.Session, name string) (*config.Config, error) {
	var names []string
	for _, c := range s.Contexts() {
		if c.Name() == name {
			return c, nil
		}
		names = append(names, c.Name())
	}
	p := &core.Problem{What: fmt.Sprintf("Context '%s' not found.", name), Err: core.ErrNotFound,
		Try: core.DidYouMeanOr(fmt.Sprintf("'%s context add %s URL'", s.Env.Program, name), name, names)}
	if name == config.CFName {
		p.What, p.Try = "The cf CLI has no target.", "'cf login', or '"+s.Env.Program+" context export'"
	}
	if len(names) > 0 {
		p.Existing = core.Existing("context", names)
	}
	return nil, p
}

// usable returns why a new context cannot have a name.
func usable(name string) error {
	if err := config.CheckName(name); err != nil {
		return &core.Problem{What: fmt.Sprintf("A context cannot be named '%s'.", name), Why: err.Error(),
			Try: "choose another name"}
	}
	return nil
}

type addContextFlags struct{ trustFlags }

func addContext(ctx context.Context, s *core.Session, w core.Words, f *addContextFlags) (core.Result, error) {
	name := w["NAME"]
	if err := usable(name); err != nil {
		return nil, err
	}
	if c, err := existing(s, name); err == nil {
		return nil, &core.Problem{What: fmt.Sprintf("Context '%s' already exists.", name), Why: "it is for " + c.API,
			Try: fmt.Sprintf("'%[1]s context use %[2]s', or '%[1]s login --context %[2]s -a URL' to change it",
				s.Env.Program, name)}
	}
	trust, err := f.trust(s)
	if err != nil {
		return nil, err
	}
	s.Say("Adding context %s for %s...", s.Out.Bold(name), s.Out.Bold(withScheme(w["URL"])))
	if s.Config, err = s.Store.Load(name); err != nil {
		return nil, err
	}
	if err := s.SetAPI(ctx, withScheme(w["URL"]), trust); err != nil {
		return nil, err
	}
	if err := s.Config.Save(); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("Log in with '%[1]s login --context %[2]s'; '%[1]s context use %[2]s' makes it the current context.",
		s.Env.Program, name)
	return s.JSONOnly(currentTarget(s)), nil
}

func useContext(_ context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	c, err := existing(s, w["CONTEXT"])
	if err == nil {
		err = c.Err()
	}
	if err == nil {
		err = s.Store.Use(c.Name())
	}
	if err != nil {
		return nil, err
	}
	if other := s.Env.Getenv(core.ContextVariable); other != "" && other != c.Name() {
		s.Errs.Println(s.Errs.Warn("Warning: ") + core.ContextVariable + " is set: commands use the context " + other +
			" until it is unset.")
	}
	return sheetOf(s, c), nil
}

func showContext(_ context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	c, err := existing(s, cmp.Or(w["CONTEXT"], s.Config.Name()))
	if err == nil {
		err = c.Err()
	}
	if err != nil {
		return nil, err
	}
	return sheetOf(s, c), nil
}

// sheetOf shows a context.
func sheetOf(s *core.Session, c *config.Config) core.Result {
	r := rowOf(s, c)
	pairs := [][2]string{{"context", r.Name}, {"API endpoint", r.API}, {"user", cmp.Or(r.User, "not logged in")},
		{"org", cmp.Or(r.Org, "none targeted")}, {"space", cmp.Or(r.Space, "none targeted")}}
	switch {
	case c.SkipSSLValidation:
		pairs = append(pairs, [2]string{"certificates", "not validated"})
	case c.CA != "":
		pairs = append(pairs, [2]string{"certificates", "those of the system and of --ca-cert"})
	}
	if c.SharedWithCF {
		pairs = append(pairs, [2]string{"login", "shared with the cf CLI"})
	}
	if r.From != "" {
		pairs = append(pairs, [2]string{"found", r.From})
	}
	return &core.Sheet{Pairs: pairs, JSON: r}
}

func renameContext(_ context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	c, err := existing(s, w["CONTEXT"])
	if err != nil {
		return nil, err
	}
	if err := config.CheckName(c.Name()); err != nil {
		return nil, &core.Problem{What: fmt.Sprintf("Context '%s' cannot be renamed.", c.Name()), Why: err.Error()}
	}
	if err := usable(w["NEW_NAME"]); err != nil {
		return nil, err
	}
	s.Say("Renaming context %s to %s...", s.Out.Bold(c.Name()), s.Out.Bold(w["NEW_NAME"]))
	if err := s.Store.Rename(c.Name(), w["NEW_NAME"]); err != nil {
		return nil, err
	}
	return s.Done("name", w["NEW_NAME"])
}

func forgetContext(ctx context.Context, s *core.Session, w core.Words, f *core.ForceFlag) (core.Result, error) {
	c, err := existing(s, w["CONTEXT"])
	if err != nil {
		return nil, err
	}
	if c.Name() == config.CFName {
		return nil, &core.Problem{What: "The context cf cannot be removed.", Why: "it is the configuration of the cf CLI",
			Try: "'cf logout', or 'cf api --unset'"}
	}
	if user := client.Parse(c.AccessToken).Name(); user != "" && c.Local == "" {
		if err := s.Confirm(ctx, f.Force, fmt.Sprintf("Really remove the context %s with the login of %s at %s", c.Name(),
			user, c.API)); err != nil {
			return nil, err
		}
	}
	s.Say("Removing context %s...", s.Out.Bold(c.Name()))
	if err := removeContext(s, c); err != nil {
		return nil, err
	}
	return s.Done("name", c.Name(), "deleted", true)
}

// removeContext removes a context. Of the cf CLI's configuration it removes target and login.
func removeContext(s *core.Session, c *config.Config) error {
	if c.Name() != config.CFName {
		return s.Store.Remove(c.Name())
	}
	c.Forget()
	c.API, c.APIVersion, c.Links, c.SkipSSLValidation = "", "", config.Links{}, false
	return c.Save()
}

func exportContext(ctx context.Context, s *core.Session, _ core.Words, f *core.ForceFlag) (core.Result, error) {
	if s.Config.Name() == config.CFName {
		return nil, &core.Problem{What: "The context cf is the configuration of the cf CLI already.",
			Try: fmt.Sprintf("'%s context export --context NAME'", s.Env.Program)}
	}
	cf, err := s.Store.Load(config.CFName)
	if err != nil {
		return nil, err
	}
	user := client.Parse(cf.AccessToken)
	if user.Name() != "" && !s.ExportedBefore(cf) {
		if err := s.Confirm(ctx, f.Force, fmt.Sprintf("The cf CLI is logged in to %s as %s. Replace that login", cf.API,
			user.Name())); err != nil {
			return nil, err
		}
	}
	s.Say("Writing context %s to %s...", s.Out.Bold(s.Config.Name()), s.Out.Bold(s.Store.CFPath()))
	if err := s.Export(ctx); err != nil {
		return nil, err
	}
	s.OK()
	if s.Config.CA != "" {
		s.Errs.Println(s.Errs.Warn("Warning: ") + "the cf CLI does not know the certificates of --ca-cert: set " +
			"SSL_CERT_FILE to a file with them.")
	}
	s.Say("The cf CLI is logged in to %s as %s.", s.Out.Bold(s.Config.API), s.Out.Bold(s.API.User().Name()))
	return s.JSONOnly(&core.Sheet{JSON: map[string]string{"context": s.Config.Name(), "file": s.Store.CFPath()}}), nil
}

func contextCommands() []*core.Command {
	return core.InGroup(core.GroupLogin,
		core.Entry("context", "", "List, add and select servers with their logins", core.NeedsNothing, listContexts).
			Explained("A context is a server with the login there and the targeted org and space. 'login -a URL' makes one "+
				"for each server. Commands use the current context, or the one of --context NAME or $INGOT_CONTEXT. The context "+
				"local is the server on this machine, the context cf the configuration of the cf CLI.").
			With(
				core.Entry("context list", "", "List the contexts", core.NeedsNothing, listContexts, ""),
				core.Entry("context add", "NAME URL", "Add a context for a server",
					core.NeedsNothing, addContext, "prod https://api.cf.example.com"),
				core.Entry("context use", "CONTEXT", "Make a context the current one", core.NeedsNothing, useContext, "prod", "cf"),
				core.Entry("context show", "[CONTEXT]", "Show a context", core.NeedsNothing, showContext, "", "prod"),
				core.Entry("context rename", "CONTEXT NEW_NAME", "Rename a context", core.NeedsNothing, renameContext,
					"cf.example.com prod"),
				core.Entry("context remove", "CONTEXT [-f]", "Remove a context and its login", core.NeedsNothing, forgetContext,
					"prod").Explained("The login stays valid on the server until it expires: 'logout' before revokes it."),
				core.Entry("context export", "[-f]", "Log the cf CLI in with a context", core.NeedsLogin, exportContext,
					"", "--context prod").
					Explained("Writes API, login, org and space into the cf CLI's configuration ($CF_HOME/.cf/config.json, "+
						"~/.cf/config.json by default) and leaves the rest of it. Both programs then use one login: "+
						"'logout' in either ends it for both."),
			),
		core.Entry("contexts", "", "List the contexts", core.NeedsNothing, listContexts, ""),
	)
}
