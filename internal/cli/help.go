package cli

import (
	"fmt"
	"strings"

	"github.com/jessevdk/go-flags"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

func find(name string) *core.Command {
	for _, c := range commands {
		if c.Name == name {
			return c
		}
		for _, a := range c.Aliases {
			if a == name {
				return c
			}
		}
	}
	return nil
}

// briefCommands lists the commands that are shown when no command is given.
var briefCommands = []string{
	"up", "push", "dev", "apps", "app", "open", "logs", "top", "ssh", "scale", "set-env", "marketplace", "create-service",
	"bind-service", "notifications", "delete", "docs", "doctor", "demo", "down",
}

// Brief returns the short help with the everyday commands.
func Brief(w *core.Env) string {
	var b strings.Builder
	b.WriteString(wrapped(w, "", w.Program+": Cloud Foundry's developer experience in one program"))
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
			summary = c.Summary
		}
		if summary != "" {
			b.WriteString(term.Row(name, summary, width+1, columns(w)))
		}
	}
	b.WriteString(wrapped(w, "\n",
		fmt.Sprintf("'%[1]s help' lists all commands, '%[1]s help COMMAND' shows flags and examples.", w.Program)))
	return b.String()
}

// columns returns the width to wrap help at; 0 means that it is not wrapped, because
// it does not go to a terminal.
func columns(w *core.Env) int {
	if !w.OutTerminal || w.Width == nil {
		return 0
	}
	return w.Width()
}

// wrapped returns a paragraph with a line end, after what separates it from the text
// before.
func wrapped(w *core.Env, before, text string) string {
	return before + strings.Join(term.Wrap(text, columns(w)), "\n") + "\n"
}

// Help returns the help of a client command, or "" if it does not exist.
func Help(w *core.Env, name string) string {
	if c := find(name); c != nil {
		return helpOf(c, w)
	}
	return ""
}

// Overview returns the list of all commands, by group.
func Overview(w *core.Env) string {
	var b strings.Builder
	b.WriteString(wrapped(w, "", w.Program+": Cloud Foundry's developer experience in one program"))
	fmt.Fprintf(&b, "\nUsage: %s COMMAND [ARGUMENTS] [FLAGS]\n\nAvailable commands:\n", w.Program)
	width := 0
	for _, c := range commands {
		width = max(width, len(c.Name))
	}
	row := func(name, summary string) { b.WriteString(term.Row(name, summary, width+1, columns(w))) }
	if len(w.Others) > 0 {
		b.WriteString("\nServer\n")
		for _, o := range w.Others {
			row(o.Name, o.Summary)
		}
	}
	group := ""
	for _, c := range commands {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		row(c.Name, c.Summary)
	}
	b.WriteString(wrapped(w, "\n",
		fmt.Sprintf("Every command takes --json, -q and --help. '%s help COMMAND' shows examples.", w.Program)))
	return b.String()
}

// helpOf returns the help of one command.
func helpOf(c *core.Command, w *core.Env) string {
	var b strings.Builder
	b.WriteString(wrapped(w, "", fmt.Sprintf("%s %s: %s", w.Program, c.Name, c.Summary)))
	if c.About != "" {
		b.WriteString(wrapped(w, "\n", c.About))
	}
	if len(c.Sub) > 0 {
		fmt.Fprintf(&b, "\nUsage: %s %s COMMAND\n\nCommands:\n", w.Program, c.Name)
		for _, s := range c.Sub {
			b.WriteString(term.Row(strings.TrimSpace(strings.TrimPrefix(s.Name, c.Name+" ")+" "+s.Args), s.Summary, 24,
				columns(w)))
		}
		b.WriteString(wrapped(w, "\n", fmt.Sprintf("'%s help %s COMMAND' shows flags and examples.", w.Program, c.Name)))
		return b.String()
	}
	b.WriteString(wrapped(w, "\n", "Usage: "+strings.TrimSpace(w.Program+" "+c.Name+" "+c.Args)))
	if len(c.Aliases) > 0 {
		b.WriteString(wrapped(w, "", "Aliases: "+strings.Join(c.Aliases, ", ")))
	}
	if len(c.Example) > 0 {
		b.WriteString("\nExamples:\n")
		for _, e := range c.Example {
			fmt.Fprintf(&b, "  %s %s\n", w.Program, e)
		}
	}
	parser, err := parserOf(c, w, c.Make(), &core.Output{})
	if err != nil {
		return b.String()
	}
	for _, g := range parser.Groups() {
		if rows := flagRows(g.Options(), columns(w)); g.ShortDescription != "Help Options" && len(rows) > 0 {
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
