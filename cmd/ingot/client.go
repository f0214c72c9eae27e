package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jessevdk/go-flags"
	"golang.org/x/term"

	"ingot/internal/base/background"
	"ingot/internal/cli"
	"ingot/internal/cli/core"
)

// others returns the commands that are not part of the client.
func others() []core.Other {
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", &options{}); err != nil {
		return nil // parse reports it
	}
	return othersOf(parser.Command)
}

// othersOf returns the commands of a command.
func othersOf(c *flags.Command) []core.Other {
	var all []core.Other
	for _, c := range c.Commands() {
		o := core.Other{Name: c.Name, Summary: c.ShortDescription, Flags: []string{"--help"}, Sub: othersOf(c)}
		if len(o.Sub) == 0 || c.SubcommandsOptional {
			for _, option := range ownOptions(c) {
				o.Flags = append(o.Flags, "--"+option.LongName)
			}
		}
		slices.Sort(o.Flags)
		all = append(all, o)
	}
	return all
}

// forClient reports whether the client handles the command line: always when the
// program is called cf, otherwise without a command and for every word that is
// not one of the program's own commands.
func (p *process) forClient() bool {
	if p.program() == "cf" {
		return len(p.args) == 0 || p.args[0] != "version"
	}
	if len(p.args) == 0 {
		return true
	}
	switch first := p.args[0]; {
	case first == "help":
		return true
	case first == "--help" || first == "-h" || first == "--version" || first == "-v",
		strings.HasPrefix(first, cli.ContextFlag):
		return true
	case isOther(first):
		// A name can belong to both: the client then handles its subcommands, and lists
		// them when nothing says what else is meant.
		if cli.IsCommand(first) && len(p.args) == 1 {
			return p.getenv("INGOT_AUTH_URL") == ""
		}
		return cli.IsCommand(first) && len(p.args) > 1 && !strings.HasPrefix(p.args[1], "-")
	default:
		return !strings.HasPrefix(first, "-")
	}
}

// askedForHelp turns "help COMMAND" into "COMMAND --help" for commands that are
// not part of the client.
func (p *process) askedForHelp() {
	if len(p.args) < 2 || p.args[0] != "help" || p.program() == "cf" {
		return
	}
	about := slices.DeleteFunc(slices.Clone(p.args[1:]), func(a string) bool { return a == "-h" || a == "--help" })
	if len(about) > 0 && about[0] != "help" && isOther(about[0]) && (len(about) == 1 || !cli.IsCommand(about[0])) {
		about = append(about, "--help")
		p.args = about
	}
}

func isOther(name string) bool {
	return slices.Contains(serverCommands, name) ||
		slices.ContainsFunc(others(), func(o core.Other) bool { return o.Name == name })
}

// program returns the name by which the program was called.
func (p *process) program() string {
	if strings.TrimSuffix(filepath.Base(p.name), ".exe") == "cf" {
		return "cf"
	}
	return "ingot"
}

// readPassword reads a line without echo. It restores the terminal when
// interrupted.
func readPassword(ctx context.Context, fd int) (string, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	var secret []byte
	got := background.Async("password", func() (err error) {
		secret, err = term.ReadPassword(fd)
		return err
	})
	select {
	case err := <-got:
		return string(secret), err
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// client runs a command of the client.
func (p *process) client() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	background.Go("signals", func() { // the first signal cancels the command, the second kills the process
		for n := 0; ; n++ {
			select {
			case <-p.signals:
			case <-ctx.Done():
				return
			}
			if n > 0 {
				p.exit(exitFailure)
			}
			cancel()
		}
	})
	w := &core.Env{
		Program: p.program(), Args: p.args, Getenv: p.getenv, In: p.in, Out: p.out, Err: p.err, ErrTerminal: p.terminal,
		DataDir: p.defaultDataDir(serverName), Now: time.Now, Others: others(), Machine: p.machine,
		Version: strings.TrimSpace(versionText()),
	}
	if p.program() == "cf" {
		w.Others = nil
	}
	if dir, err := os.Getwd(); err == nil {
		w.Dir = dir
	}
	if in, ok := p.in.(*os.File); ok {
		w.InTerminal = term.IsTerminal(int(in.Fd()))
		w.Password = func(ctx context.Context) (string, error) { return readPassword(ctx, int(in.Fd())) }
	}
	if out, ok := p.out.(*os.File); ok {
		w.OutTerminal = term.IsTerminal(int(out.Fd()))
	}
	if errs, ok := p.err.(*os.File); ok {
		w.Width = func() int {
			columns, _, err := term.GetSize(int(errs.Fd()))
			if err != nil {
				return 0
			}
			return columns
		}
	}
	return cli.Run(ctx, w)
}

// untilSignal returns a context that a signal to stop cancels.
func (p *process) untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	background.Go("signals", func() {
		select {
		case <-p.signals:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}
