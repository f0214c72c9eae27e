package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/plural"
	"ingot/internal/base/suggest"
	"ingot/internal/base/version"
	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

// need is what a command requires before it can run.
type need int

const (
	nothing need = iota
	anAPI
	aLogin
	anOrg
	aSpace
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

// session prepares the run of a command and checks that its requirements are met.
func (w *Env) session(ctx context.Context, c *command, out output) (*session, error) {
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

// explain turns an API error into one that the user can act on.
func (s *session) explain(err error) error {
	var known *problem
	var exit *exitError
	var wrong *usage
	if errors.As(err, &known) || errors.As(err, &exit) || errors.As(err, &wrong) {
		return err
	}
	program := s.w.Program
	var unreachable *client.Unreachable
	var refused *client.Error
	var unread *bits.ReadError
	switch {
	case errors.Is(err, context.Canceled):
		return &problem{What: "Interrupted.", cause: err}
	case errors.Is(err, client.ErrLoggedOut):
		return &problem{What: "The login at " + s.cfg.API + " has expired.", Try: "'" + program + " login'", cause: err}
	case errors.As(err, &unread):
		return unreadable(unread, err)
	case errors.As(err, &unreachable):
		p := &problem{What: unreachable.API + " cannot be reached.", Why: unreachable.Why.Error(), Try: fmt.Sprintf("check the address ('%s api') and the network", program), cause: err}
		if s.cfg.Local != "" {
			p.Try = "start the server on this machine: 'ingot up'"
		}
		return p
	case errors.As(err, &refused):
		switch refused.Status {
		case http.StatusUnauthorized:
			return &problem{What: "The API rejected the access token.", Why: refused.Error(), Try: "'" + program + " login'", cause: err}
		case http.StatusForbidden:
			return &problem{What: "Permission denied.", Why: refused.Error(), Try: fmt.Sprintf("ask for the role, or log in as another user ('%s login')", program), cause: err}
		case http.StatusNotFound:
			if len(refused.Items) == 0 {
				return &problem{What: fmt.Sprintf("The API at %s has no endpoint %s.", s.cfg.API, refused.URL), Why: "the server does not support this feature", cause: err}
			}
		case http.StatusServiceUnavailable:
			return &problem{What: "The API is not available.", Why: refused.Error(), Try: "try again in a moment", cause: err}
		}
		if strings.Contains(refused.URL, "/v3/jobs/") {
			p := &problem{What: refused.Error(), cause: err}
			if refused.Says("Service instance '") && refused.Says("not found") {
				p.Try = fmt.Sprintf("'%[1]s services' lists the service instances, '%[1]s create-service' creates one", program)
			}
			return p
		}
		p := &problem{What: refused.Error(), Why: fmt.Sprintf("the server replied %d to %s %s", refused.Status, refused.Method, refused.URL), cause: err}
		if refused.Says("An operation for service instance ") {
			p.Try = fmt.Sprintf("'%s services' shows when it is done; then run this command again", program)
		}
		return p
	}
	return err
}

// unreadable explains a file of the upload that cannot be read.
func unreadable(e *bits.ReadError, cause error) error {
	p := &problem{What: e.Path + " cannot be read.", Why: e.Err.Error(), Try: "correct it, or add it to .cfignore if it is not part of the app", cause: cause}
	switch {
	case errors.Is(e, bits.ErrChanged):
		p.What, p.Why = e.Path+" changed during the upload.", ""
		p.Try = "push again when it is complete; if it is not part of the app, such as a log file, add it to .cfignore"
	case errors.Is(e, fs.ErrNotExist):
		p.What, p.Why, p.Try = e.Path+" was deleted or renamed during the upload.", "", "push again; if it is not part of the app, add it to .cfignore"
	}
	return p
}

// in returns a query for resources of the targeted space.
func (s *session) in(pairs ...string) url.Values {
	q := url.Values{"space_guids": {s.cfg.Space.GUID}}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

// named finds a resource by name. If it does not exist, the error lists the
// existing names.
func named[T any](ctx context.Context, s *session, kind, path, name string, q url.Values, nameOf func(T) string) (T, error) {
	var none T
	asked := url.Values{"names": {name}}
	for key, value := range q {
		asked[key] = value
	}
	found, err := client.List[T](ctx, s.api, path, asked)
	if err != nil {
		return none, err
	}
	if len(found) > 0 {
		return found[0], nil
	}
	p := &problem{What: fmt.Sprintf("%s '%s' not found.", kind, name), cause: errNotFound}
	all, err := client.List[T](ctx, s.api, path, q)
	if err != nil {
		return none, p
	}
	var names []string
	for _, one := range all {
		names = append(names, nameOf(one))
	}
	slices.Sort(names)
	near := suggest.Closest(name, names)
	switch {
	case near != "":
		p.Try = fmt.Sprintf("did you mean '%s'?", near)
	case len(names) == 0:
		p.Why = "none exist yet"
	default:
		p.Existing = existing(kind, names)
	}
	return none, p
}

// existing lists the names of resources of a kind, such as "Existing apps: a, b".
func existing(kind string, names []string) string {
	const shown = 8
	text := "Existing " + plural.Of(strings.ToLower(kind)) + ": " + strings.Join(names[:min(len(names), shown)], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

var errNotFound = errors.New("not found")

// app finds an app in the targeted space.
func (s *session) app(ctx context.Context, name string) (client.App, error) {
	return named(ctx, s, "App", "/v3/apps", name, s.in(), func(a client.App) string { return a.Name })
}

// date formats a time in the user's time zone, the same way in every command.
func date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339)
}

// shownTime formats a timestamp of the API like date.
func shownTime(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return date(t)
}
