package core

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

// ExitError exits with a particular code, such as the status of a remote command.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("ended with %d", e.Code) }

// Usage is an incorrect invocation.
type Usage struct {
	Problem string
	Command string
}

func (e *Usage) Error() string { return e.Problem }

// UsageError returns the error of a command that was called in a wrong way.
func UsageError(problem string) error { return &Usage{Problem: problem} }

// DidYouMean adds the closest name, if one is close.
func DidYouMean(problem, word string, names []string) string {
	if near := suggest.Closest(word, names); near != "" {
		return problem + "; did you mean " + near + "?"
	}
	return problem
}

// DidYouMeanOr suggests the closest name, or returns otherwise when none is
// close.
func DidYouMeanOr(otherwise, word string, names []string) string {
	if near := suggest.Closest(word, names); near != "" {
		return "did you mean '" + near + "'?"
	}
	return otherwise
}

// Problem is a failure as it is shown: what happened, why, and what to do next.
type Problem struct {
	What string `json:"what"`
	Why  string `json:"why,omitempty"`
	Try  string `json:"try,omitempty"`
	// Existing lists the existing names when the requested one does not exist: "Existing apps: a, b".
	Existing string `json:"existing,omitempty"`
	// Cause is the line of Log, or before it, that names the error.
	Cause string `json:"cause,omitempty"`
	// Log are the lines of the app or build that failed, since its last start.
	Log []LogLine `json:"log,omitempty"`

	Err error `json:"-"`
}

func (p *Problem) Error() string {
	if p.Why != "" {
		return p.What + ": " + p.Why
	}
	return p.What
}

func (p *Problem) Unwrap() error { return p.Err }

// Explain turns an API error into one that the user can act on.
func (s *Session) Explain(err error) error {
	var known *Problem
	var exit *ExitError
	var wrong *Usage
	if errors.As(err, &known) || errors.As(err, &exit) || errors.As(err, &wrong) {
		return err
	}
	program := s.Env.Program
	var unreachable *client.Unreachable
	var refused *client.Error
	var unread *bits.ReadError
	switch {
	case errors.Is(err, context.Canceled):
		return &Problem{What: "Interrupted.", Err: err}
	case errors.Is(err, client.ErrLoggedOut):
		return &Problem{What: "The login at " + s.Config.API + " has expired.", Try: "'" + s.LoginCommand() + "'", Err: err}
	case errors.As(err, &unread):
		return unreadable(unread, err)
	case errors.As(err, &unreachable):
		p := &Problem{What: unreachable.API + " cannot be reached.", Why: unreachable.Why.Error(),
			Try: fmt.Sprintf("check the address ('%s api') and the network", program), Err: err}
		if s.Config.Local != "" {
			p.Try = "start the server on this machine: 'ingot up'"
		}
		return p
	case errors.As(err, &refused):
		switch refused.Status {
		case http.StatusUnauthorized:
			return &Problem{What: "The API rejected the access token.", Why: refused.Error(), Try: "'" + s.LoginCommand() +
				"'", Err: err}
		case http.StatusForbidden:
			return &Problem{What: "Permission denied.", Why: refused.Error(),
				Try: fmt.Sprintf("ask for the role, or log in as another user ('%s login')", program), Err: err}
		case http.StatusNotFound:
			if len(refused.Items) == 0 {
				return &Problem{What: fmt.Sprintf("The API at %s has no endpoint %s.", s.Config.API, refused.URL),
					Why: "the server does not support this feature", Err: err}
			}
		case http.StatusServiceUnavailable:
			return &Problem{What: "The API is not available.", Why: refused.Error(), Try: "try again in a moment", Err: err}
		}
		if strings.Contains(refused.URL, "/v3/jobs/") {
			p := &Problem{What: refused.Error(), Err: err}
			if refused.Says("Service instance '") && refused.Says("not found") {
				p.Try = fmt.Sprintf("'%[1]s services' lists the service instances, '%[1]s create-service' creates one", program)
			}
			return p
		}
		p := &Problem{What: refused.Error(), Why: fmt.Sprintf("the server replied %d to %s %s", refused.Status,
			refused.Method, refused.URL), Err: err}
		if refused.Says("An operation for service instance ") {
			p.Try = fmt.Sprintf("'%s services' shows when it is done; then run this command again", program)
		}
		return p
	}
	return err
}

// unreadable explains a file of the upload that cannot be read.
func unreadable(e *bits.ReadError, cause error) error {
	p := &Problem{What: e.Path + " cannot be read.", Why: e.Err.Error(),
		Try: "correct it, or add it to .cfignore if it is not part of the app", Err: cause}
	switch {
	case errors.Is(e, bits.ErrChanged):
		p.What, p.Why = e.Path+" changed during the upload.", ""
		p.Try = "push again when it is complete; if it is not part of the app, such as a log file, add it to .cfignore"
	case errors.Is(e, fs.ErrNotExist):
		p.What, p.Why, p.Try = e.Path+" was deleted or renamed during the upload.", "",
			"push again; if it is not part of the app, add it to .cfignore"
	}
	return p
}

// Existing lists the names of resources of a kind, such as "Existing apps: a, b".
func Existing(kind string, names []string) string {
	const shown = 8
	text := "Existing " + plural.Of(strings.ToLower(kind)) + ": " + strings.Join(names[:min(len(names), shown)], ", ")
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

var ErrNotFound = errors.New("not found")

// ErrDeclined means that the user answered no, which is not a failure.
var ErrDeclined = errors.New("canceled")

// IsNotFound reports whether a resource does not exist.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// Fail shows an error and returns the exit code.
func (w *Env) Fail(out Output, err error) int {
	var exit *ExitError
	var wrong *Usage
	p := term.NewPrinter(w.Err, w.ErrTerminal && w.Colors())
	switch {
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &wrong):
		hint := w.Program + " help"
		if wrong.Command != "" {
			hint = w.Program + " " + wrong.Command + " --help"
		}
		p.Printf("%s: %s (see: %s)", w.Program, wrong.Problem, hint)
		return ExitUsage
	}
	var known *Problem
	if !errors.As(err, &known) {
		known = &Problem{What: err.Error()}
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
