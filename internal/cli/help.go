package cli

import (
	"fmt"
	"strings"

	"github.com/jessevdk/go-flags"

	"ingot/internal/cli/term"
)

func find(name string) *command {
	for _, c := range commands {
		if c.name == name {
			return c
		}
		for _, a := range c.aliases {
			if a == name {
				return c
			}
		}
	}
	return nil
}

// briefCommands lists the commands that are shown when no command is given.
var briefCommands = []string{
	"up", "push", "dev", "apps", "app", "open", "logs", "top", "ssh", "scale", "set-env", "marketplace", "create-service", "bind-service", "notifications", "delete", "doctor", "demo", "down",
}

// Brief returns the short help with the everyday commands.
func Brief(w *Env) string {
	var b strings.Builder
	b.WriteString(w.wrapped("", w.Program+": Cloud Foundry's developer experience in one program"))
	fmt.Fprintf(&b, "\nUsage: %s COMMAND [ARGUMENTS] [FLAGS]\n\nEveryday commands:\n", w.Program)
	width := 0
	for _, name := range briefCommands {
		width = max(width, len(name))
	}
	for _, name := range briefCommands {
		summary := ""
		for _, o := range w.Others {
			if o.Name == name {
				summary = o.Summary
			}
		}
		if c := find(name); c != nil {
			summary = c.summary
		}
		if summary != "" {
			b.WriteString(term.Row(name, summary, width+1, w.columns()))
		}
	}
	b.WriteString(w.wrapped("\n", fmt.Sprintf("'%[1]s help' lists all commands, '%[1]s help COMMAND' shows flags and examples.", w.Program)))
	return b.String()
}

// columns returns the width to wrap help at; 0 means that it is not wrapped, because
// it does not go to a terminal.
func (w *Env) columns() int {
	if !w.OutTerminal || w.Width == nil {
		return 0
	}
	return w.Width()
}

// wrapped returns a paragraph with a line end, after what separates it from the text
// before.
func (w *Env) wrapped(before, text string) string {
	return before + strings.Join(term.Wrap(text, w.columns()), "\n") + "\n"
}

// Help returns the help of a client command, or "" if it does not exist.
func Help(w *Env, name string) string {
	if c := find(name); c != nil {
		return c.help(w)
	}
	return ""
}

// Overview returns the list of all commands, by group.
func Overview(w *Env) string {
	var b strings.Builder
	b.WriteString(w.wrapped("", w.Program+": Cloud Foundry's developer experience in one program"))
	fmt.Fprintf(&b, "\nUsage: %s COMMAND [ARGUMENTS] [FLAGS]\n\nAvailable commands:\n", w.Program)
	width := 0
	for _, c := range commands {
		width = max(width, len(c.name))
	}
	row := func(name, summary string) { b.WriteString(term.Row(name, summary, width+1, w.columns())) }
	if len(w.Others) > 0 {
		b.WriteString("\nServer\n")
		for _, o := range w.Others {
			row(o.Name, o.Summary)
		}
	}
	group := ""
	for _, c := range commands {
		if c.group != group {
			group = c.group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		row(c.name, c.summary)
	}
	b.WriteString(w.wrapped("\n", fmt.Sprintf("Every command takes --json, -q and --help. '%s help COMMAND' shows examples.", w.Program)))
	return b.String()
}

// help returns the help of one command.
func (c *command) help(w *Env) string {
	var b strings.Builder
	b.WriteString(w.wrapped("", fmt.Sprintf("%s %s: %s", w.Program, c.name, c.summary)))
	if c.about != "" {
		b.WriteString(w.wrapped("\n", c.about))
	}
	if len(c.sub) > 0 {
		fmt.Fprintf(&b, "\nUsage: %s %s COMMAND\n\nCommands:\n", w.Program, c.name)
		for _, s := range c.sub {
			b.WriteString(term.Row(strings.TrimSpace(strings.TrimPrefix(s.name, c.name+" ")+" "+s.args), s.summary, 24, w.columns()))
		}
		b.WriteString(w.wrapped("\n", fmt.Sprintf("'%s help %s COMMAND' shows flags and examples.", w.Program, c.name)))
		return b.String()
	}
	b.WriteString(w.wrapped("\n", "Usage: "+strings.TrimSpace(w.Program+" "+c.name+" "+c.args)))
	if len(c.aliases) > 0 {
		b.WriteString(w.wrapped("", "Aliases: "+strings.Join(c.aliases, ", ")))
	}
	if len(c.example) > 0 {
		b.WriteString("\nExamples:\n")
		for _, e := range c.example {
			fmt.Fprintf(&b, "  %s %s\n", w.Program, e)
		}
	}
	parser, err := c.parser(w, c.make(), &output{})
	if err != nil {
		return b.String()
	}
	for _, g := range parser.Groups() {
		if rows := flagRows(g.Options(), w.columns()); g.ShortDescription != "Help Options" && len(rows) > 0 {
			fmt.Fprintf(&b, "\n%s:\n%s", g.ShortDescription, strings.Join(rows, ""))
		}
	}
	return b.String()
}

func flagRows(options []*flags.Option, width int) []string {
	var rows []string
	for _, o := range options {
		if o.Hidden {
			continue
		}
		rows = append(rows, term.Row(flagName(o), o.Description, 28, width))
	}
	return rows
}

func flagName(o *flags.Option) string {
	var names []string
	if o.ShortName != 0 {
		names = append(names, "-"+string(o.ShortName))
	}
	if o.LongName != "" {
		names = append(names, "--"+o.LongName)
	}
	text := strings.Join(names, ", ")
	if o.ValueName != "" {
		text += " " + o.ValueName
	}
	return text
}
