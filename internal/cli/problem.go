package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"ingot/internal/base/plural"
	"ingot/internal/base/suggest"
	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
	"ingot/internal/cli/term"
)

// exitError exits with a code of its own, such as that of a remote command.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("ended with %d", e.code) }

// usage is an incorrect invocation.
type usage struct {
	problem string
	command string
}

func (e *usage) Error() string { return e.problem }

// didYouMean adds the closest name, if one is close.
func didYouMean(problem, word string, names []string) string {
	if near := suggest.Closest(word, names); near != "" {
		return problem + "; did you mean " + near + "?"
	}
	return problem
}

// didYouMeanOr suggests the closest name, or returns otherwise when none is
// close.
func didYouMeanOr(otherwise, word string, names []string) string {
	if near := suggest.Closest(word, names); near != "" {
		return "did you mean '" + near + "'?"
	}
	return otherwise
}

// problem is a failure as it is shown: what happened, why, and what to do next.
type problem struct {
	What string `json:"what"`
	Why  string `json:"why,omitempty"`
	Try  string `json:"try,omitempty"`
	// Existing lists what exists instead of what was asked for: "Existing apps: a, b".
	Existing string `json:"existing,omitempty"`
	// Cause is the line of Log, or before it, that names the error.
	Cause string `json:"cause,omitempty"`
	// Log are the lines of the app or build that failed, since its last start.
	Log []logLine `json:"log,omitempty"`

	cause error `json:"-"`
}

func (p *problem) Error() string {
	if p.Why != "" {
		return p.What + ": " + p.Why
	}
	return p.What
}

func (p *problem) Unwrap() error { return p.cause }

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

// errDeclined means that the user answered no, which is not a failure.
var errDeclined = errors.New("canceled")

// isNotFound reports whether a resource does not exist.
func isNotFound(err error) bool { return errors.Is(err, errNotFound) }

// fail shows an error and returns the exit code.
func (w *Env) fail(out output, err error) int {
	var exit *exitError
	var wrong *usage
	p := term.NewPrinter(w.Err, w.ErrTerminal && w.Getenv("NO_COLOR") == "")
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &wrong):
		hint := w.Program + " help"
		if wrong.command != "" {
			hint = w.Program + " " + wrong.command + " --help"
		}
		p.Printf("%s: %s (see: %s)", w.Program, wrong.problem, hint)
		return ExitUsage
	}
	var known *problem
	if !errors.As(err, &known) {
		known = &problem{What: err.Error()}
	}
	if out.JSON {
		body, _ := json.Marshal(map[string]any{"error": known}) // strings only
		fmt.Fprintln(w.Err, string(body))
		return ExitFailure
	}
	p.Println(p.Bad("FAILED") + " " + known.What)
	if known.Why != "" {
		p.Println("  Why: " + known.Why)
	}
	if known.Existing != "" {
		p.Println("  " + known.Existing)
	}
	if known.Cause != "" {
		p.Println("  Error: " + known.Cause)
	}
	if len(known.Log) > 0 {
		p.Println("  Last lines of the log:")
	}
	for _, l := range known.Log {
		p.Println("    " + p.Dim(l.prefix()) + " " + l.Text)
	}
	if known.Try != "" {
		p.Println("  Try: " + known.Try)
	}
	return ExitFailure
}
