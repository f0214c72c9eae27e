package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/suggest"
	"ingot/internal/cli/term"
)

// The exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// Env is the client's environment; tests provide their own.
type Env struct {
	Program  string // name of the program: ingot or cf
	Args     []string
	Getenv   func(string) string
	Dir      string // the working directory
	In       io.Reader
	Out, Err io.Writer
	// Which of them are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// Width returns the terminal's width in columns.
	Width func() int
	// Password reads a secret from the terminal without echo.
	Password func(context.Context) (string, error)
	// DataDir is the data directory of a server on this machine.
	DataDir string
	Now     func() time.Time
	// Others are the program's commands that are not part of the client.
	Others []Other
	// Version is the program's version, as shown by --version.
	Version string
	// Machine inspects this machine, or a cluster, for the command doctor.
	Machine func(context.Context, DoctorOptions) []Finding
}

// Other is a command that is not part of the client.
type Other struct {
	Name, Summary string
	Flags         []string // with their dashes
	Sub           []Other
}

// result is the outcome of a command. It is shown as text, or encoded as JSON.
type result interface{ show(p *term.Printer) }

// runner is a command with its parsed flags.
type runner interface {
	run(ctx context.Context, s *session) (result, error)
}

// output holds the output flags that every command has.
type output struct {
	JSON  bool `long:"json" description:"Write the result as JSON to standard output, and nothing else"`
	Quiet bool `short:"q" long:"quiet" description:"Suppress progress output"`
}

// exitError exits with a code of its own, such as that of a remote command.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("ended with %d", e.code) }

// usage is an incorrect invocation.
type usage struct {
	problem string
	command string
}

func (e *usage) Error() string { return e.problem }

// IsCommand reports whether a word is a command of the client.
func IsCommand(name string) bool { return find(name) != nil || name == completeCommand }

// Run runs the command that the arguments name, and returns the exit code.
func Run(ctx context.Context, w *Env) int {
	if len(w.Args) == 0 {
		fmt.Fprint(w.Out, Brief(w))
		return ExitOK
	}
	switch first := w.Args[0]; {
	case first == "help" || isHelp(first):
		return w.runHelp(w.Args[1:])
	case first == "--version" || first == "-v":
		fmt.Fprintln(w.Out, w.Version)
		return ExitOK
	case first == completeCommand:
		w.complete(ctx, w.Args[1:])
		return ExitOK
	case strings.HasPrefix(first, "-"):
		return w.fail(output{}, &usage{fmt.Sprintf("unknown flag %s: flags come after the command", first), ""})
	}
	c := find(w.Args[0])
	args := w.Args[1:]
	if c == nil {
		return w.fail(output{}, w.unknown(w.Args[0]))
	}
	if len(c.sub) > 0 {
		if len(args) == 0 || isHelp(args[0]) {
			fmt.Fprint(w.Out, c.help(w))
			return ExitOK
		}
		below, err := c.below(args[0])
		if err != nil {
			return w.fail(output{}, err)
		}
		c, args = below, args[1:]
	}
	return w.runCommand(ctx, c, args)
}

func isHelp(arg string) bool { return arg == "-h" || arg == "--help" }

// runHelp shows the help of the named command, or the list of commands.
func (w *Env) runHelp(about []string) int {
	about = slices.DeleteFunc(slices.Clone(about), isHelp)
	if len(about) == 0 || about[0] == "help" {
		fmt.Fprint(w.Out, Overview(w))
		return ExitOK
	}
	c := find(about[0])
	if c == nil {
		return w.fail(output{}, w.unknown(about[0]))
	}
	if len(about) > 1 && len(c.sub) > 0 {
		below, err := c.below(about[1])
		if err != nil {
			return w.fail(output{}, err)
		}
		c = below
	}
	fmt.Fprint(w.Out, c.help(w))
	return ExitOK
}

// below returns the subcommand with the given name.
func (c *command) below(name string) (*command, error) {
	var names []string
	for _, s := range c.sub {
		word := strings.TrimPrefix(s.name, c.name+" ")
		if word == name {
			return s, nil
		}
		names = append(names, word)
	}
	what := didYouMean(fmt.Sprintf("%q is not a command of %s", name, c.name), name, names)
	return nil, &usage{what + ". Commands: " + strings.Join(names, ", "), c.name}
}

func (w *Env) runCommand(ctx context.Context, c *command, args []string) int {
	r, out := c.make(), output{}
	parser, err := c.parser(w, r, &out)
	if err != nil {
		return w.fail(out, err)
	}
	rest, err := parser.ParseArgs(args)
	if named, ok := r.(interface{ take([]string) error }); ok && err == nil {
		err, rest = named.take(rest), nil
	}
	var help *flags.Error
	switch {
	case errors.As(err, &help) && help.Type == flags.ErrHelp:
		fmt.Fprint(w.Out, c.help(w))
		return ExitOK
	case err != nil:
		return w.fail(out, &usage{FlagError(err), c.name})
	case len(rest) > 0:
		what := fmt.Sprintf("unexpected argument %q", rest[0])
		if c.stray != "" {
			what += "; " + c.stray
		}
		return w.fail(out, &usage{what, c.name})
	}
	s, err := w.session(ctx, c, out)
	if err != nil {
		return w.fail(out, err)
	}
	defer s.close()
	res, err := r.run(ctx, s)
	s.progress.Close()
	var wrong *usage
	if errors.As(err, &wrong) {
		wrong.command = c.name // commands share code, which may name another one
	}
	if res != nil {
		if showErr := s.showResult(res); err == nil {
			err = showErr
		}
	}
	switch {
	case errors.Is(err, errDeclined) && out.JSON:
		fmt.Fprintln(w.Out, `{"canceled": true}`)
	case errors.Is(err, errDeclined):
		s.say("Canceled. Nothing was changed.")
	case err != nil:
		return w.fail(out, s.explain(err))
	}
	return ExitOK
}

// showResult writes the result of a command as text or JSON.
func (s *session) showResult(res result) error {
	if !s.JSON {
		res.show(s.out)
		return nil
	}
	e := json.NewEncoder(s.w.Out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(res)
}

// parser returns the parser for the flags of a command.
func (c *command) parser(w *Env, r runner, out *output) (*flags.Parser, error) {
	p := flags.NewNamedParser(w.Program+" "+c.name, flags.HelpFlag|flags.PassDoubleDash)
	var own any = r
	if apart, ok := r.(interface{ flagSet() any }); ok {
		own = apart.flagSet()
	}
	if _, err := p.AddGroup("Flags", "", own); err != nil {
		return nil, err
	}
	if _, err := p.AddGroup("Output", "", out); err != nil {
		return nil, err
	}
	p.UnknownOptionHandler = func(name string, _ flags.SplitArgument, _ []string) ([]string, error) {
		if len([]rune(name)) == 1 {
			return nil, fmt.Errorf("unknown flag -%s", name)
		}
		var all []*flags.Option
		for _, g := range p.Groups() {
			all = append(all, g.Options()...)
		}
		if near := closestFlag(name, all); near != "" {
			return nil, fmt.Errorf("unknown flag --%s; did you mean %s?", name, near)
		}
		return nil, fmt.Errorf("unknown flag --%s", name)
	}
	return p, nil
}

func (w *Env) unknown(name string) error {
	var names []string
	for _, o := range w.Others {
		names = append(names, o.Name)
	}
	for _, c := range commands {
		names = append(names, c.name)
	}
	what := fmt.Sprintf("%q is not a command", name)
	if known, ok := otherWords[strings.ToLower(name)]; ok {
		return &usage{what + "; did you mean " + known + "?", ""}
	}
	if near := suggest.Closest(name, names); near != "" {
		return &usage{what + "; did you mean " + near + "?", ""}
	}
	if isCF(name) {
		return &usage{what + " of this client; the cf CLI has it and works with the same server", ""}
	}
	return &usage{what, ""}
}

// otherWords maps names that other tools use to commands of this client.
var otherWords = map[string]string{
	"deploy": "push", "upload": "push", "publish": "push", "launch": "push", "create": "push", "init": "push",
	"ls": "apps", "list": "apps", "ps": "apps", "status": "app", "info": "app", "show": "app", "describe": "app",
	"rm": "delete", "remove": "delete", "destroy": "delete", "undeploy": "delete", "kill": "stop", "log": "logs", "tail": "logs",
	"exec": "ssh", "shell": "ssh", "sh": "ssh", "bash": "ssh", "console": "ssh", "connect": "ssh", "run": "run-task", "build": "restage", "rebuild": "restage",
	"bind": "bind-service", "unbind": "unbind-service", "addons": "services", "plans": "marketplace", "catalog": "marketplace", "market": "marketplace",
	"whoami": "target", "context": "target", "use": "target", "signin": "login", "signout": "logout", "env-vars": "env", "vars": "env",
	"domain": "domains", "users": "org-users", "token": "oauth-token", "check": "doctor",
	"notify": "notifications send", "mail": "notifications send", "server": "up", "serve": "up", "shutdown": "down",
	"add-client": "create-client", "oauth-clients": "clients", "rotate-client-secret": "set-client-secret",
}

// isCF reports whether the cf CLI has a command with this name.
func isCF(name string) bool {
	return slices.ContainsFunc(CFCommands, func(g CFGroup) bool { return slices.Contains(g.Commands, name) })
}

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

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ReplaceAll(s, "`", "'")
}

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

	cause error
}

func (p *problem) Error() string {
	if p.Why != "" {
		return p.What + ": " + p.Why
	}
	return p.What
}

func (p *problem) Unwrap() error { return p.cause }

// path makes a path given by the user absolute.
func (w *Env) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(w.Dir, p)
}
