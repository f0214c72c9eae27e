package cli

import (
	"reflect"
	"slices"
	"strings"

	"ingot/internal/cli/core"
)

// CFVersion is the version of the cf CLI whose commands are listed in CFCommands.
const CFVersion = "8.18.3"

// Names are those of all commands.
func Names() []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
		for _, s := range c.Sub {
			names = append(names, s.Name)
		}
	}
	return names
}

// Summaries are the summaries of all commands, by name.
func Summaries() map[string]string {
	all := map[string]string{}
	for _, c := range commands {
		all[c.Name] = c.Summary
		for _, s := range c.Sub {
			all[s.Name] = s.Summary
		}
	}
	return all
}

// Groups are the commands in the groups in which the help lists them.
func Groups() []CFGroup {
	var all []CFGroup
	for _, c := range commands {
		if len(all) == 0 || all[len(all)-1].Title != c.Group {
			all = append(all, CFGroup{Title: c.Group})
		}
		last := &all[len(all)-1]
		last.Commands = append(last.Commands, c.Name)
		for _, s := range c.Sub {
			last.Commands = append(last.Commands, s.Name)
		}
	}
	return all
}

// NumberCases are command lines with a word where a number, a size, a duration or a
// switch belongs: every such flag and argument of every command.
func NumberCases() [][]string {
	var all [][]string
	for _, c := range everyCommand() {
		r := c.Make()
		p, err := parserOf(c, &core.Env{Program: "ingot"}, r, &core.Output{})
		if err != nil {
			panic(err)
		}
		line := strings.Fields(c.Name)
		var required []string
		for _, a := range p.Args() {
			if a.Required != 0 {
				required = append(required, "shop")
			}
		}
		for _, g := range p.Groups() {
			for _, o := range g.Options() {
				name := "--" + o.LongName + "=many"
				if o.LongName == "" {
					name = "-" + string(o.ShortName) + "many"
				}
				kind := o.Field().Type
				if kind.Kind() == reflect.Pointer {
					kind = kind.Elem()
				}
				text := kind.Kind() == reflect.String && kind.PkgPath() == ""
				sized := slices.Contains([]string{"SIZE", "N", "SECONDS", "DURATION", "BYTES", "PORT", "PERCENT"}, o.ValueName)
				if o.LongName != "help" && (!text || sized) && kind.Kind() != reflect.Slice {
					all = append(all, slices.Concat(line, required, []string{name}))
				}
			}
		}
		if args := reflect.Indirect(reflect.ValueOf(r.FlagSet())).FieldByName("Args"); args.IsValid() {
			words := make([]string, args.NumField())
			numbers := false
			for i := range words {
				words[i] = "many"
				numbers = numbers || args.Field(i).Kind() == reflect.Int
			}
			if numbers {
				all = append(all, slices.Concat(line, words))
			}
		}
	}
	return all
}

func everyCommand() []*core.Command {
	var all []*core.Command
	for _, c := range commands {
		if len(c.Sub) == 0 {
			all = append(all, c)
		}
		all = append(all, c.Sub...)
	}
	return all
}

// HelpAt returns the help of every command, the list of commands and the short help for a
// terminal of this width, by name; 0 means no terminal.
func HelpAt(width int) map[string]string {
	w := &core.Env{Program: "ingot", OutTerminal: width > 0, Width: func() int { return width },
		Others: []core.Other{{Name: "up", Summary: "Run the server"}}}
	all := map[string]string{"": Brief(w), "help": Overview(w)}
	for _, c := range append(everyCommand(), find("notifications"), find("context")) {
		all[c.Name] = helpOf(c, w)
	}
	return all
}
