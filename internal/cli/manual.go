package cli

import (
	"strings"

	"ingot/internal/base/manpage"
	"ingot/internal/cli/core"
)

// Manual returns a manual page for each command of the client, subcommands included.
func Manual(w *core.Env) []manpage.Page {
	var pages []manpage.Page
	for _, c := range commands {
		pages = append(pages, pageOf(c, w))
		for _, s := range c.Sub {
			pages = append(pages, pageOf(s, w))
		}
	}
	return pages
}

// ManualParts returns the lists of commands for the manual page of the program: those that
// are not part of the client, and those of the client by group.
func ManualParts(w *core.Env) []manpage.Part {
	parts := []manpage.Part{{Title: "Server commands"}}
	for _, o := range w.Others {
		parts[0].Items = append(parts[0].Items, manpage.Item{Term: o.Name, Text: o.Summary + "."})
	}
	group := ""
	for _, c := range commands {
		if c.Group != group {
			group = c.Group
			parts = append(parts, manpage.Part{Title: group})
		}
		last := &parts[len(parts)-1]
		term := strings.Join(append([]string{c.Name}, c.Aliases...), ", ")
		last.Items = append(last.Items, manpage.Item{Term: term, Text: c.Summary + "."})
	}
	return parts
}

// pageOf returns the manual page of a command.
func pageOf(c *core.Command, w *core.Env) manpage.Page {
	p := manpage.Page{Name: pageName(w, c.Name), Summary: c.Summary, SeeAlso: []string{w.Program}}
	if c.About != "" {
		p.Parts = append(p.Parts, manpage.Part{Title: "Description", Text: c.About})
	}
	if len(c.Sub) > 0 {
		p.Synopsis = []string{w.Program + " " + c.Name + " COMMAND"}
		part := manpage.Part{Title: "Commands"}
		for _, s := range c.Sub {
			part.Items = append(part.Items, manpage.Item{Term: strings.TrimPrefix(s.Name, c.Name+" "), Text: s.Summary + "."})
			p.SeeAlso = append(p.SeeAlso, pageName(w, s.Name))
		}
		p.Parts = append(p.Parts, part)
		return p
	}
	p.Synopsis = []string{strings.TrimSpace(w.Program + " " + c.Name + " " + c.Args)}
	for _, alias := range c.Aliases {
		p.Synopsis = append(p.Synopsis, strings.TrimSpace(w.Program+" "+alias+" "+c.Args))
	}
	parser, err := parserOf(c, w, c.Make(), &core.Output{})
	if err != nil { // a test parses every command
		return p
	}
	flags := manpage.Part{Title: "Options"}
	for _, g := range parser.Groups() {
		for _, o := range g.Options() {
			if !o.Hidden {
				flags.Items = append(flags.Items, manpage.Item{Term: flagName(o), Text: o.Description + "."})
			}
		}
	}
	p.Parts = append(p.Parts, flags)
	if len(c.Example) > 0 {
		examples := manpage.Part{Title: "Examples"}
		for _, e := range c.Example {
			examples.Commands = append(examples.Commands, w.Program+" "+e)
		}
		p.Parts = append(p.Parts, examples)
	}
	return p
}

// pageName returns the name of a command's manual page: man(1) finds it as
// "man ingot push", too.
func pageName(w *core.Env, command string) string {
	return w.Program + "-" + strings.ReplaceAll(command, " ", "-")
}
