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
	"ingot/internal/cli/core"
)

// IsCommand reports whether a word is a command of the client.
func IsCommand(name string) bool { return find(name) != nil || name == completeCommand }

// Run runs the command that the arguments name, and returns the exit code.
func Run(ctx context.Context, w *core.Env) int {
	if len(w.Args) == 0 {
		fmt.Fprint(w.Out, Brief(w))
		return core.ExitOK
	}
	if name, rest := leadingContext(w.Args); len(rest) > 0 && name != "" {
		w = w.WithContext(name)
		w.Args = rest
	}
	switch first := w.Args[0]; {
	case first == "help" || isHelp(first):
		return runHelp(w, w.Args[1:])
	case first == "--version" || first == "-v":
		fmt.Fprintln(w.Out, w.Version)
		return core.ExitOK
	case first == completeCommand:
		complete(ctx, w, w.Args[1:])
		return core.ExitOK
	case strings.HasPrefix(first, "-"):
		return w.Fail(core.Output{}, &core.Usage{Problem: fmt.Sprintf("unknown flag %s: flags come after the command", first),
			Command: ""})
	}
	c := find(w.Args[0])
	args := w.Args[1:]
	if c == nil {
		return w.Fail(core.Output{}, unknown(w, w.Args[0]))
	}
	if len(c.Sub) > 0 {
		if len(args) == 0 || isHelp(args[0]) {
			fmt.Fprint(w.Out, helpOf(c, w))
			return core.ExitOK
		}
		below, err := subcommand(c, args[0])
		if err != nil {
			return w.Fail(core.Output{}, err)
		}
		c, args = below, args[1:]
	}
	return runCommand(ctx, w, c, args)
}

// leadingContext returns the value of a --context before the command, where other tools have
// it, and the arguments after it.
func leadingContext(args []string) (name string, rest []string) {
	if value, joined := strings.CutPrefix(args[0], ContextFlag+"="); joined {
		return value, args[1:]
	}
	if args[0] == ContextFlag && len(args) > 1 {
		return args[1], args[2:]
	}
	return "", args
}

// ContextFlag is the only flag that may come before the command.
const ContextFlag = "--context"

func isHelp(arg string) bool { return arg == "-h" || arg == "--help" }

// runHelp shows the help of the named command, or the list of commands.
func runHelp(w *core.Env, about []string) int {
	about = slices.DeleteFunc(slices.Clone(about), isHelp)
	if len(about) == 0 || about[0] == "help" {
		fmt.Fprint(w.Out, Overview(w))
		return core.ExitOK
	}
	c := find(about[0])
	if c == nil {
		return w.Fail(core.Output{}, unknown(w, about[0]))
	}
	if len(about) > 1 && len(c.Sub) > 0 {
		below, err := subcommand(c, about[1])
		if err != nil {
			return w.Fail(core.Output{}, err)
		}
		c = below
	}
	fmt.Fprint(w.Out, helpOf(c, w))
	return core.ExitOK
}

// subcommand returns the subcommand with the given name.
func subcommand(c *core.Command, name string) (*core.Command, error) {
	var names []string
	for _, s := range c.Sub {
		word := strings.TrimPrefix(s.Name, c.Name+" ")
		if word == name {
			return s, nil
		}
		names = append(names, word)
	}
	what := core.DidYouMean(fmt.Sprintf("%q is not a command of %s", name, c.Name), name, names)
	return nil, &core.Usage{Problem: what + ". Commands: " + strings.Join(names, ", "), Command: c.Name}
}

func runCommand(ctx context.Context, w *core.Env, c *core.Command, args []string) int {
	r, out := c.Make(), core.Output{}
	parser, err := parserOf(c, w, r, &out)
	if err != nil {
		return w.Fail(out, err)
	}
	rest, err := parser.ParseArgs(args)
	if err == nil && len(parser.Args()) == 0 { // otherwise the parser assigned them
		rest, err = r.Take(rest)
	}
	var help *flags.Error
	switch {
	case errors.As(err, &help) && help.Type == flags.ErrHelp:
		fmt.Fprint(w.Out, helpOf(c, w))
		return core.ExitOK
	case err != nil:
		return w.Fail(out, &core.Usage{Problem: FlagError(err), Command: c.Name})
	case len(rest) > 0:
		what := fmt.Sprintf("unexpected argument %q", rest[0])
		if c.Stray != "" {
			what += "; " + c.Stray
		}
		return w.Fail(out, &core.Usage{Problem: what, Command: c.Name})
	}
	s, err := core.NewSession(ctx, w, c, out)
	if err != nil {
		return w.Fail(out, err)
	}
	defer s.Close()
	res, err := r.Run(ctx, s)
	s.Progress.Close()
	var wrong *core.Usage
	if errors.As(err, &wrong) {
		wrong.Command = c.Name
	}
	if res != nil {
		if showErr := showResult(s, res); err == nil {
			err = showErr
		}
	}
	switch {
	case errors.Is(err, core.ErrDeclined) && out.JSON:
		fmt.Fprintln(w.Out, `{"canceled": true}`)
	case errors.Is(err, core.ErrDeclined):
		s.Say("Canceled. Nothing was changed.")
	case err != nil:
		return w.Fail(out, s.Explain(err))
	}
	return core.ExitOK
}

// showResult writes the result of a command as text or JSON.
func showResult(s *core.Session, res core.Result) error {
	if !s.JSON {
		res.Show(s.Out)
		return nil
	}
	e := json.NewEncoder(s.Env.Out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(res)
}

// parserOf returns the parser for the flags of a command.
func parserOf(c *core.Command, w *core.Env, r core.Runner, out *core.Output) (*flags.Parser, error) {
	p := flags.NewNamedParser(w.Program+" "+c.Name, flags.HelpFlag|flags.PassDoubleDash)
	if _, err := p.AddGroup("Flags", "", r.FlagSet()); err != nil {
		return nil, err
	}
	if _, err := p.AddGroup("Flags of every command", "", out); err != nil {
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

func unknown(w *core.Env, name string) error {
	var names []string
	for _, o := range w.Others {
		names = append(names, o.Name)
	}
	for _, c := range commands {
		names = append(names, c.Name)
	}
	what := fmt.Sprintf("%q is not a command", name)
	if known, ok := otherWords[strings.ToLower(name)]; ok {
		return &core.Usage{Problem: what + "; did you mean " + known + "?", Command: ""}
	}
	if near := suggest.Closest(name, names); near != "" {
		return &core.Usage{Problem: what + "; did you mean " + near + "?", Command: ""}
	}
	if isCF(name) {
		return &core.Usage{Problem: what + " of this client; the cf CLI has it and works with the same server", Command: ""}
	}
	return &core.Usage{Problem: what, Command: ""}
}

// otherWords maps names that other tools use to commands of this client.
var otherWords = map[string]string{
	"deploy": "push", "upload": "push", "publish": "push", "launch": "push", "create": "push", "init": "push",
	"ls": "apps", "list": "apps", "ps": "apps", "status": "app", "info": "app", "show": "app", "describe": "app",
	"rm": "delete", "remove": "delete", "destroy": "delete", "undeploy": "delete", "kill": "stop", "log": "logs",
	"tail": "logs",
	"exec": "ssh", "shell": "ssh", "sh": "ssh", "bash": "ssh", "console": "ssh", "connect": "ssh", "run": "run-task",
	"build": "restage", "rebuild": "restage",
	"bind": "bind-service", "unbind": "unbind-service", "addons": "services", "plans": "marketplace",
	"catalog": "marketplace", "market": "marketplace",
	"whoami": "target", "use": "context use", "switch": "context use", "ctx": "context",
	"signin": "login", "signout": "logout", "env-vars": "env",
	"vars":   "env",
	"domain": "domains", "users": "org-users", "token": "oauth-token", "check": "doctor",
	"documentation": "docs", "manual": "docs", "man": "docs", "search": "docs",
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
