package core

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

// Session is one run of a command.
type Session struct {
	Output
	Env      *Env
	Out      *term.Printer
	Errs     *term.Printer
	Progress *term.Progress
	Store    *config.Store
	Config   *config.Config // the context
	API      *client.Client
	LongLogs bool // do not shorten router lines
	// Warned are the manifest keys that the user was warned about.
	Warned []string
}

// progressSilence is how long a command without a terminal writes nothing before it says
// what it waits for.
const progressSilence = 10 * time.Second

// NewSession prepares the run of a command and checks that its requirements are met.
func NewSession(ctx context.Context, w *Env, c *Command, out Output) (*Session, error) {
	colors := w.Colors()
	s := &Session{
		Output: out, Env: w,
		Out:  term.NewPrinter(w.Out, w.OutTerminal && colors),
		Errs: term.NewPrinter(w.Err, w.ErrTerminal && colors),
	}
	s.Progress = term.NewProgress(w.Err, nil)
	if !out.Quiet && c.progress && (w.ErrTerminal || !out.JSON) {
		if w.ErrTerminal && w.Draws() {
			s.Progress = term.NewProgress(w.Err, w.Width)
		} else {
			s.Progress = term.NewProgressLines(func(text string) { s.Say("%s", text) }, progressSilence)
		}
		s.Out.WithProgress(s.Progress)
		s.Errs.WithProgress(s.Progress)
	}
	if err := s.loadContext(); err != nil {
		s.Progress.Close()
		return nil, err
	}
	if c.need > NeedsNothing {
		if err := s.findLocal(ctx); err != nil {
			s.Progress.Close()
			return nil, s.Explain(err)
		}
	}
	s.connect()
	if err := s.Check(c.need); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// connect creates the client of the targeted API.
func (s *Session) connect() {
	if s.API != nil {
		s.API.Close()
	}
	s.API = s.client()
	s.API.Warn = func(text string) {
		if !s.JSON && !s.alreadyWarned(text) {
			s.Errs.Println(s.Errs.Warn("Warning: ") + text)
		}
	}
}

// Close ends the progress line and the connections.
func (s *Session) Close() {
	s.Progress.Close()
	s.API.Close()
}

// Check returns an error that names the missing requirement.
func (s *Session) Check(n need) error {
	program := s.Env.Program
	switch {
	case n >= NeedsAPI && s.Config.API == "":
		return s.noAPI()
	case n >= NeedsLogin && s.Config.AccessToken == "":
		return &Problem{What: "Not logged in to " + s.Config.API + ".", Try: "'" + s.LoginCommand() + "'"}
	case n >= NeedsOrg && s.Config.Org.GUID == "":
		return &Problem{
			What: "No org is targeted.",
			Try: fmt.Sprintf("'%[1]s target -o ORG -s SPACE' ('%[1]s orgs' lists them; '%[1]s create-org ORG' creates one)",
				program),
		}
	case n >= NeedsSpace && s.Config.Space.GUID == "":
		return &Problem{
			What: "No space of the org " + s.Config.Org.Name + " is targeted.",
			Try: fmt.Sprintf("'%[1]s target -s SPACE' ('%[1]s spaces' lists them; '%[1]s create-space SPACE' creates one)",
				program),
		}
	}
	return nil
}

// Say shows a progress message.
func (s *Session) Say(format string, args ...any) {
	if !s.Quiet && !s.JSON {
		s.Out.Printf(format, args...)
	}
}

// Doing shows what is being done, in which org and space, and as which user.
func (s *Session) Doing(what string, names ...any) {
	for i, n := range names {
		names[i] = s.Out.Bold(fmt.Sprint(n))
	}
	where := ""
	switch {
	case s.Config.Space.Name != "":
		where = fmt.Sprintf(" in org %s / space %s", s.Out.Bold(s.Config.Org.Name), s.Out.Bold(s.Config.Space.Name))
	case s.Config.Org.Name != "":
		where = fmt.Sprintf(" in org %s", s.Out.Bold(s.Config.Org.Name))
	}
	s.Say("%s%s as %s...", fmt.Sprintf(what, names...), where, s.Out.Bold(s.API.User().Name()))
}

// OK shows that the action succeeded.
func (s *Session) OK() { s.Say("%s", s.Out.Good("OK")) }

// InSpace returns a query for resources of the targeted space.
func (s *Session) InSpace(pairs ...string) url.Values {
	q := url.Values{"space_guids": {s.Config.Space.GUID}}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

// alreadyWarned reports whether a warning of the platform is about a key that was already
// reported.
func (s *Session) alreadyWarned(warning string) bool {
	return slices.ContainsFunc(s.Warned, func(key string) bool {
		return strings.Contains(warning, "manifest key '"+
			key+"' ")
	})
}

// Acting shows what is being done, and as which user.
func (s *Session) Acting(what string, names ...any) {
	for i, n := range names {
		names[i] = s.Out.Bold(fmt.Sprint(n))
	}
	s.Say("%s as %s...", fmt.Sprintf(what, names...), s.Out.Bold(s.API.User().Name()))
}
