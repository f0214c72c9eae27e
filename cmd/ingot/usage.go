package main

import (
	"strings"

	"github.com/jessevdk/go-flags"
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

// helpText returns the parser's help of the active command with our usage lines: the
// parser's name no flags.
func helpText(message string, parser *flags.Parser) string {
	c, line := parser.Command, parser.Name
	for c.Active != nil {
		c = c.Active
		line += " " + c.Name
	}
	_, rest, ok := strings.Cut(message, "\n  "+parser.Name+" ")
	_, rest, end := strings.Cut(rest, "\n")
	if !ok || !end {
		return message
	}
	return "Usage:\n  " + strings.Join(usageLines(c, line), "\n  ") + "\n" + rest
}
