package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/suggest"
)

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
	if named, ok := r.(interface{ Take([]string) error }); ok && err == nil {
		err, rest = named.Take(rest), nil
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
	s, err := newSession(ctx, w, c, out)
	if err != nil {
		return w.fail(out, err)
	}
	defer s.close()
	res, err := r.run(ctx, s)
	s.progress.Close()
	var wrong *usage
	if errors.As(err, &wrong) {
		wrong.command = c.name
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
	if apart, ok := r.(interface{ FlagSet() any }); ok {
		own = apart.FlagSet()
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

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ReplaceAll(s, "`", "'")
}
