package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/handbook/handbooktest"
	"ingot/internal/cli/core"
)

// elsewhere are the commands of the program that are not part of the client; a test of cmd/ingot parses them.
var elsewhere = []string{"up", "down", "reload", "backup", "restore", "db", "blob", "keys", "demo", "support-bundle",
	"version", "notifications"}

// parse reports what is wrong with a call: its words are the program, the command and its arguments.
func parse(words []string) error {
	w := &core.Env{Program: words[0]}
	if len(words) > 1 {
		if _, rest := leadingContext(words[1:]); len(rest) > 0 {
			words = append(words[:1:1], rest...)
		}
	}
	if len(words) == 1 || words[1] == "help" || strings.HasPrefix(words[1], "-") {
		return nil
	}
	c, args := find(words[1]), words[2:]
	switch {
	case c == nil && words[0] == "cf" && isCF(words[1]):
		return nil // the cf CLI alone has it
	case c == nil || words[1] == "notifications" && len(args) > 0 && strings.HasPrefix(args[0], "-"):
		if words[0] == "ingot" && slices.Contains(elsewhere, words[1]) {
			return nil
		}
		return fmt.Errorf("%q is not a command", words[1])
	}
	if len(c.Sub) > 0 {
		if len(args) == 0 {
			return nil
		}
		below, err := subcommand(c, args[0])
		if err != nil {
			return err
		}
		c, args = below, args[1:]
	}
	r, out := c.Make(), core.Output{}
	parser, err := parserOf(c, w, r, &out)
	if err != nil {
		return err
	}
	rest, err := parser.ParseArgs(args)
	if err == nil && len(parser.Args()) == 0 {
		rest, err = r.Take(rest)
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q", rest[0])
	}
	return err
}

// onlyCF are the flags, by command, that documents use and only the cf CLI has.
var onlyCF = map[string][]string{"push": {"--docker-image"}, "map-route": {"-o"}}

// isOnlyCF reports whether a call is one of the cf CLI that this client does not have.
func isOnlyCF(words []string) bool {
	only := onlyCF[words[1]]
	return words[0] == "cf" && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(only, w) })
}

// TestDocumentedCommands parses every call of ingot and cf in the documents with the table of commands.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	parsed := 0
	for _, b := range handbooktest.Blocks(t, filepath.Join("..", "..")) {
		for _, words := range b.Commands() {
			if err := parse(words); err != nil && !isOnlyCF(words) {
				t.Errorf("%s has %q, which this program refuses: %s. Correct the document", b.Name(),
					strings.Join(words, " "), FlagError(err))
			}
			parsed++
		}
	}
	if parsed < 150 {
		t.Errorf("only %d calls were found", parsed)
	}
	for _, wrong := range []string{"ingot psuh", "ingot push --no-such-flag", "cf no-such-command", "ingot app",
		"ingot context no"} {
		if parse(strings.Fields(wrong)) == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
