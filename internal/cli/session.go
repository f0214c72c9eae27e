package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/version"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

// session is one run of a command.
type session struct {
	output
	w        *Env
	out      *term.Printer
	errs     *term.Printer
	progress *term.Progress
	cfg      *config.Config
	api      *client.Client
	longLogs bool // do not shorten router lines
	// warned are the manifest keys that the user was warned about.
	warned []string
}

// progressSilence is how long a command without a terminal writes nothing before it says
// what it waits for.
const progressSilence = 10 * time.Second

// newSession prepares the run of a command and checks that its requirements are met.
func newSession(ctx context.Context, w *Env, c *command, out output) (*session, error) {
	colors := w.Getenv("NO_COLOR") == "" && w.Getenv("TERM") != "dumb"
	s := &session{
		output: out, w: w,
		out:  term.NewPrinter(w.Out, w.OutTerminal && colors),
		errs: term.NewPrinter(w.Err, w.ErrTerminal && colors),
	}
	s.progress = term.NewProgress(w.Err, nil)
	if !out.Quiet && c.progress && (w.ErrTerminal || !out.JSON) {
		if w.ErrTerminal {
			s.progress = term.NewProgress(w.Err, w.Width)
		} else {
			s.progress = term.NewProgressLines(func(text string) { s.say("%s", text) }, progressSilence)
		}
		s.out.WithProgress(s.progress)
		s.errs.WithProgress(s.progress)
	}
	var err error
	if s.cfg, err = config.Load(config.Path(w.Getenv)); err != nil {
		s.progress.Close()
		return nil, err
	}
	if c.need > nothing {
		if err := s.findLocal(ctx); err != nil {
			s.progress.Close()
			return nil, s.explain(err)
		}
	}
	s.connect()
	if err := s.check(c.need); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// connect creates the client of the targeted API.
func (s *session) connect() {
	if s.api != nil {
		s.api.Close()
	}
	s.api = client.New(s.cfg.API, s.cfg.SkipSSLValidation, client.Tokens{Access: s.cfg.AccessToken, Refresh: s.cfg.RefreshToken})
	s.api.Login, s.api.Agent = s.cfg.Links.Login, "ingot/"+version.Version
	s.api.Warn = func(text string) {
		if !s.JSON && !s.alreadyWarned(text) {
			s.errs.Println(s.errs.Warn("Warning: ") + text)
		}
	}
	s.api.Renewed = func(t client.Tokens) {
		s.cfg.AccessToken, s.cfg.RefreshToken = t.Access, t.Refresh
		_ = s.cfg.Save() // the next command renews them again
	}
}

// close ends the progress line and the connections.
func (s *session) close() {
	s.progress.Close()
	s.api.Close()
}

// check returns an error that names the missing requirement.
func (s *session) check(n need) error {
	program := s.w.Program
	switch {
	case n >= anAPI && s.cfg.API == "":
		return &problem{
			What: "No API is targeted.", Why: "you are not logged in, and no server is running on this machine",
			Try: fmt.Sprintf("'%s login -a URL', or start a server here with 'ingot up --demo'", program),
		}
	case n >= aLogin && s.cfg.AccessToken == "":
		return &problem{What: "Not logged in to " + s.cfg.API + ".", Try: fmt.Sprintf("'%s login'", program)}
	case n >= anOrg && s.cfg.Org.GUID == "":
		return &problem{
			What: "No org is targeted.",
			Try:  fmt.Sprintf("'%[1]s target -o ORG -s SPACE' ('%[1]s orgs' lists them; '%[1]s create-org ORG' creates one)", program),
		}
	case n >= aSpace && s.cfg.Space.GUID == "":
		return &problem{
			What: "No space of the org " + s.cfg.Org.Name + " is targeted.",
			Try:  fmt.Sprintf("'%[1]s target -s SPACE' ('%[1]s spaces' lists them; '%[1]s create-space SPACE' creates one)", program),
		}
	}
	return nil
}

// say shows a progress message.
func (s *session) say(format string, args ...any) {
	if !s.Quiet && !s.JSON {
		s.out.Printf(format, args...)
	}
}

// doing shows what is being done, in which org and space, and as which user.
func (s *session) doing(what string, names ...any) {
	for i, n := range names {
		names[i] = s.out.Bold(fmt.Sprint(n))
	}
	where := ""
	switch {
	case s.cfg.Space.Name != "":
		where = fmt.Sprintf(" in org %s / space %s", s.out.Bold(s.cfg.Org.Name), s.out.Bold(s.cfg.Space.Name))
	case s.cfg.Org.Name != "":
		where = fmt.Sprintf(" in org %s", s.out.Bold(s.cfg.Org.Name))
	}
	s.say("%s%s as %s...", fmt.Sprintf(what, names...), where, s.out.Bold(s.api.User().Name()))
}

// ok shows that the action succeeded.
func (s *session) ok() { s.say("%s", s.out.Good("OK")) }

// in returns a query for resources of the targeted space.
func (s *session) in(pairs ...string) url.Values {
	q := url.Values{"space_guids": {s.cfg.Space.GUID}}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

// alreadyWarned reports whether a warning of the platform is about a key that was already
// reported.
func (s *session) alreadyWarned(warning string) bool {
	return slices.ContainsFunc(s.warned, func(key string) bool { return strings.Contains(warning, "manifest key '"+key+"' ") })
}

// acting shows what is being done, and as which user.
func (s *session) acting(what string, names ...any) {
	for i, n := range names {
		names[i] = s.out.Bold(fmt.Sprint(n))
	}
	s.say("%s as %s...", fmt.Sprintf(what, names...), s.out.Bold(s.api.User().Name()))
}
