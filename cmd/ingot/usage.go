package main

import (
	"os"
	"slices"
	"strings"

	"github.com/jessevdk/go-flags"
	xterm "golang.org/x/term"

	"ingot/internal/cli/term"
)

// otherArguments are arguments that the parser does not know: it would take the name of a
// subcommand for one.
var otherArguments = map[string]string{"ingot backup": " TARGET"}

// usageLines returns how a command is called: its arguments, the flags it cannot do without,
// and its subcommands. line is the command line up to them.
func usageLines(c *flags.Command, line string) []string {
	var lines []string
	if len(c.Commands()) == 0 || c.SubcommandsOptional {
		own := line + otherArguments[line]
		for _, a := range c.Args() {
			own += " " + a.Name
		}
		for _, o := range ownOptions(c) {
			if needed(o) {
				own += " --" + o.LongName + " " + o.ValueName
			}
		}
		lines = append(lines, own+" [FLAGS]")
	}
	if len(c.Commands()) > 0 {
		lines = append(lines, line+" COMMAND [FLAGS]")
	}
	return lines
}

// needed reports whether a command does not work without a flag: neither the parser nor the
// environment may have a value for it.
func needed(o *flags.Option) bool {
	return o.Required || o.Field().Tag.Get("needed") == "yes"
}

// subject is a group of flags in the help, and the flags that belong to it: their names, or
// their beginnings if they end in *.
type subject struct {
	title string
	flags []string
}

// subjects are the groups of flags in the order in which the help and docs/configuration.md
// list them. A flag belongs to the first that has it.
var subjects = []subject{
	{"Everyday flags", []string{"data-dir", "listen", "domain", "public-url", "engine", "demo", "log-level",
		"log-format"}},
	{"TLS and certificates", []string{"tls-*", "plain-http", "hsts", "acme-*", "trusted-ca"}},
	{"Other addresses and proxies", []string{"notifications-listen", "ssh-listen", "admin-listen", "tcp-ports",
		"trusted-proxies", "proxy-protocol-from", "forward-client-cert", "client-ca", "admin-token-file"}},
	{"Data, backups and restarts", []string{"database-*", "blob-*", "log-store", "disk-reserve", "replace", "backup-*",
		"drain-timeout"}},
	{"Apps and services", []string{"memory-overcommit", "isolation-segments", "programs", "insecure-registries",
		"postgres-url", "mysql-url", "broker-timeout", "allow-networks", "drain-networks"}},
	{"Kubernetes", []string{"kubernetes-*"}},
	{"Users and limits", []string{"auth-url", "password-grant", "login-*", "api-rate-*", "broker-requests"}},
	{"Mail and notifications", []string{"smtp-url", "mail-plan", "mail-from", "notifications-url", "dkim-*",
		"bounce-*", "messages-*"}},
	{"Traces", []string{"otlp-*", "trace-*"}},
}

// has reports whether a flag belongs to the subject.
func (s subject) has(name string) bool {
	return slices.ContainsFunc(s.flags, func(f string) bool {
		if begin, ok := strings.CutSuffix(f, "*"); ok {
			return strings.HasPrefix(name, begin)
		}
		return f == name
	})
}

// flagGroup is a group of flags with its title.
type flagGroup struct {
	title   string
	options []*flags.Option
}

// bySubject groups the flags of a command. Those of no subject come last. A command with few
// flags has one group.
func bySubject(all []*flags.Option) []flagGroup {
	const few = 12
	if len(all) <= few {
		return []flagGroup{{"Flags", all}}
	}
	var groups []flagGroup
	taken := map[string]bool{}
	for _, s := range subjects {
		g := flagGroup{title: s.title}
		for _, o := range all {
			if !taken[o.LongName] && s.has(o.LongName) {
				g.options, taken[o.LongName] = append(g.options, o), true
			}
		}
		if s.title == subjects[0].title { // in the order of the table
			slices.SortStableFunc(g.options, func(a, b *flags.Option) int {
				return slices.Index(s.flags, a.LongName) - slices.Index(s.flags, b.LongName)
			})
		}
		if len(g.options) > 0 {
			groups = append(groups, g)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(o *flags.Option) bool { return taken[o.LongName] })
	if len(rest) > 0 {
		groups = append(groups, flagGroup{"More flags", rest})
	}
	return groups
}

// helpText returns the help of the active command for a terminal of this width. Lines are
// wrapped at spaces only, so that names of flags and variables can be searched and copied.
func helpText(parser *flags.Parser, width int) string {
	c, line := parser.Command, parser.Name
	for c.Active != nil {
		c = c.Active
		line += " " + c.Name
	}
	var b strings.Builder
	b.WriteString("Usage:\n")
	for _, l := range usageLines(c, line) {
		b.WriteString("  " + strings.Join(term.Wrap(l, width-2), "\n    ") + "\n")
	}
	if c.LongDescription != "" {
		b.WriteString("\n" + strings.Join(term.Wrap(c.LongDescription, width), "\n") + "\n")
	}
	if below := c.Commands(); len(below) > 0 {
		b.WriteString("\nCommands:\n")
		column := 0
		for _, s := range below {
			column = max(column, len(s.Name)+1)
		}
		for _, s := range below {
			b.WriteString(term.Row(s.Name, s.ShortDescription, column, width))
		}
	}
	for _, g := range bySubject(ownOptions(c)) {
		if len(g.options) == 0 {
			continue
		}
		b.WriteString("\n" + g.title + ":\n")
		for _, o := range g.options {
			b.WriteString(flagHelp(o, width))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// flagHelp describes a flag: its name, and below it what it does, its default and its
// variable.
func flagHelp(o *flags.Option, width int) string {
	name := "--" + o.LongName
	if o.ShortName != 0 {
		name = "-" + string(o.ShortName) + ", " + name
	}
	if o.ValueName != "" {
		name += " " + o.ValueName
	}
	text := o.Description
	if len(o.Default) > 0 && o.DefaultMask != "-" {
		text += " (default: " + o.DefaultMask + ")"
	}
	if o.EnvDefaultKey != "" {
		text += " [$" + o.EnvDefaultKey + "]"
	}
	return "  " + strings.Join(term.Wrap(name, width-2), "\n    ") + "\n      " + strings.Join(term.Wrap(text, width-6),
		"\n      ") + "\n"
}

// plainWidth is the width of help that does not go to a terminal.
const plainWidth = 80

// helpWidth returns the width of the terminal that shows the help.
func (p *process) helpWidth() int {
	if out, ok := p.out.(*os.File); ok {
		if columns, _, err := xterm.GetSize(int(out.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return plainWidth
}
