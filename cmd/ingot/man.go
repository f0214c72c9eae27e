package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/manpage"
	"ingot/internal/base/version"
	"ingot/internal/cli"
	"ingot/internal/cli/core"
)

// manOptions are the flags of `ingot man`.
type manOptions struct {
	Dir string `long:"dir" value-name:"DIR" description:"Write one page per command into this directory, which is created if necessary"`
}

// man prints the manual page of the program, or writes all pages into a directory.
func (p *process) man(o manOptions) error {
	source := "ingot " + version.Version
	pages := manual()
	if o.Dir == "" {
		fmt.Fprint(p.out, pages[0].Text(source))
		return nil
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil { //nolint:gosec // documents
		return err
	}
	for _, page := range pages {
		if err := os.WriteFile(filepath.Join(o.Dir, page.File()), []byte(page.Text(source)), //nolint:gosec // documents
			0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.out, "Wrote %d manual pages to %s.\n", len(pages), o.Dir)
	return nil
}

// manual returns all manual pages, the program's first.
func manual() []manpage.Page {
	w := &core.Env{Program: "ingot", Others: others()}
	pages := append([]manpage.Page{overview(w)}, cli.Manual(w)...)
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", &options{}); err != nil {
		return pages // parse reports it
	}
	// Its values are the defaults of a server that root runs.
	(&process{getenv: func(string) string { return "" }}).applyDefaults(optionsOf(parser.Command))
	for _, page := range pagesOf(parser.Command, "ingot") {
		i := slices.IndexFunc(pages, func(p manpage.Page) bool { return p.Name == page.Name })
		if i < 0 {
			pages = append(pages, page)
			continue
		}
		// The name belongs to both.
		pages[i].Synopsis = append(pages[i].Synopsis, page.Synopsis...)
		for n, part := range page.Parts {
			part.Title += " without a command"
			if n == 0 {
				part.Text = page.Summary + ". " + part.Text
			}
			pages[i].Parts = append(pages[i].Parts, part)
		}
	}
	return pages
}

// overview returns the page of the program.
func overview(w *core.Env) manpage.Page {
	return manpage.Page{
		Name: "ingot", Summary: "Cloud Foundry compatible application platform and notification service",
		Synopsis: []string{"ingot COMMAND [ARGUMENTS] [FLAGS]", "cf COMMAND [ARGUMENTS] [FLAGS]"},
		Parts: slices.Concat([]manpage.Part{{
			Title: "Description",
			Text: "ingot runs a server ('ingot up') and is the client of this and of other Cloud Foundry servers. Called as " +
				"cf, it is the client only.\n\n" +
				"'ingot help COMMAND' shows the flags and examples of a command, and so does its manual page: 'man ingot push'.",
		}}, cli.ManualParts(w), []manpage.Part{
			{Title: "Exit status", Items: []manpage.Item{
				{Term: "0", Text: "Success, or a server that was asked to stop."}, {Term: "1", Text: "Failure."},
				{Term: "2", Text: "Incorrect usage."},
			}},
			{Title: "Environment",
				Text: "Every flag of the server can be set with a variable, such as INGOT_LISTEN for --listen: see ingot-up(1).",
				Items: []manpage.Item{
					{Term: "INGOT_DATA_DIR",
						Text: "Data directory of the server. The client finds a server on the same machine there."},
					{Term: "NO_COLOR", Text: "No colors in the output, if it is set."},
				}},
			{Title: "Files", Items: []manpage.Item{
				{Term: "/etc/default/ingot", Text: "Variables of the server that systemd runs."},
				{Term: "/var/lib/ingot",
					Text: "Data directory of a server that root runs; $XDG_DATA_HOME/ingot or ~/.local/share/ingot of other users."},
				{Term: "/usr/share/doc/ingot/docs", Text: "Documentation of the package; begin with operating.md."},
			}},
		}),
		SeeAlso: []string{"ingot-up", "ingot-push", "ingot-doctor"},
	}
}

// pagesOf returns the pages of the commands below a command. prefix is the command line
// up to them.
func pagesOf(c *flags.Command, prefix string) []manpage.Page {
	var pages []manpage.Page
	for _, c := range c.Commands() {
		line := prefix + " " + c.Name
		page := manpage.Page{Name: strings.ReplaceAll(line, " ", "-"), Summary: c.ShortDescription,
			Synopsis: usageLines(c, line), SeeAlso: []string{"ingot"}}
		if c.LongDescription != "" {
			page.Parts = append(page.Parts, manpage.Part{Title: "Description", Text: c.LongDescription})
		}
		if below := c.Commands(); len(below) > 0 {
			part := manpage.Part{Title: "Commands"}
			for _, b := range below {
				part.Items = append(part.Items, manpage.Item{Term: b.Name, Text: b.ShortDescription + "."})
				page.SeeAlso = append(page.SeeAlso, page.Name+"-"+b.Name)
			}
			page.Parts = append(page.Parts, part)
			if c.SubcommandsOptional {
				page.Parts = append(page.Parts, flagsOf(c))
			}
			pages = append(pages, page)
			pages = append(pages, pagesOf(c, line)...)
			continue
		}
		if part := flagsOf(c); len(part.Items) > 0 {
			page.Parts = append(page.Parts, part)
		}
		pages = append(pages, page)
	}
	return pages
}

// flagsOf describes the flags of a command.
func flagsOf(c *flags.Command) manpage.Part {
	part := manpage.Part{Title: "Options"}
	for _, o := range ownOptions(c) {
		term, text := "--"+o.LongName, o.Description+"."
		if o.ValueName != "" {
			term += " " + o.ValueName
		}
		if needed(o) {
			text += " Required."
		}
		if len(o.Default) > 0 {
			text += " Default: " + o.Default[0] + "."
		}
		if o.EnvDefaultKey != "" {
			text += " Variable: " + o.EnvDefaultKey + "."
		}
		part.Items = append(part.Items, manpage.Item{Term: term, Text: text})
	}
	return part
}
