package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jessevdk/go-flags"

	"ingot/internal/system"
)

// helpOf returns the help of a command for a terminal of this width.
func helpOf(t *testing.T, width int, words ...string) string {
	t.Helper()
	parser := flags.NewNamedParser("ingot", flags.HelpFlag|flags.PassDoubleDash)
	if _, err := parser.AddGroup("Commands", "", &options{}); err != nil {
		t.Fatal(err)
	}
	(&process{getenv: env()}).applyDefaults(optionsOf(parser.Command))
	_, _ = parser.ParseArgs(append(words, "--help"))
	return helpText(parser, width)
}

// The help of every command fits terminals of every width; words, such as names of flags and
// variables, are never split.
func TestHelpIsWrappedAtSpaces(t *testing.T) {
	t.Parallel()
	var commands [][]string
	var collect func(all []*flags.Command, before []string)
	collect = func(all []*flags.Command, before []string) {
		for _, c := range all {
			words := append(slices.Clone(before), c.Name)
			commands = append(commands, words)
			collect(c.Commands(), words)
		}
	}
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", &options{}); err != nil {
		t.Fatal(err)
	}
	collect(parser.Commands(), nil)
	for _, words := range commands {
		wide := strings.Fields(helpOf(t, 1000, words...))
		for width := 40; width <= 200; width++ {
			help := helpOf(t, width, words...)
			if !slices.Equal(strings.Fields(help), wide) {
				t.Fatalf("%q at %d columns has other words:\n%s", words, width, help)
			}
			for line := range strings.Lines(help) {
				if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > width && len(strings.Fields(line)) > 1 {
					t.Fatalf("%q at %d columns: the line %q is longer", words, width, line)
				}
			}
		}
	}
}

// The flags of the server are in groups, with those of every day first.
func TestFlagsBySubject(t *testing.T) {
	t.Parallel()
	help := helpOf(t, 80, "up")
	at := 0
	for _, want := range []string{
		"Everyday flags:\n  --data-dir DIR\n", "  --listen HOST:PORT\n", "\nTLS and certificates:\n",
		"\nOther addresses and proxies:\n", "\nData, backups and restarts:\n",
		"\nApps and services:\n", "\nKubernetes:\n", "\nUsers and limits:\n", "\nMail and notifications:\n", "\nTraces:\n",
	} {
		i := strings.Index(help[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing, or out of order:\n%s", want, help)
		}
		at += i
	}
	if !strings.Contains(help, "      Address of the notification service (default: 127.0.0.1:8081)\n      "+
		"[$INGOT_NOTIFICATIONS_LISTEN]\n") {
		t.Errorf("the flag --notifications-listen is described otherwise:\n%s", help)
	}
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", &options{}); err != nil {
		t.Fatal(err)
	}
	all := optionsOf(parser.Find("up"))
	n := 0
	for _, g := range bySubject(all) {
		n += len(g.options)
	}
	if n != len(all) {
		t.Errorf("%d flags are in groups, want %d", n, len(all))
	}
}

// No message about a wrong value names Go's types or functions, whether it comes from a flag or
// a variable.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", &options{}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, o := range optionsOf(parser.Find("up")) {
		for _, p := range []*process{
			{args: []string{"up", "--" + o.LongName + "=many"}, getenv: env()},
			{args: []string{"up"}, getenv: env(o.EnvDefaultKey, "many")},
		} {
			_, _, err := p.parse()
			if err == nil {
				continue
			}
			n++
			for _, bad := range []string{"strconv", "parsing", "invalid syntax", "expected", "int", "float", "bool",
				"time.Duration"} {
				if strings.Contains(strings.ReplaceAll(err.Error(), o.LongName, ""), bad) {
					t.Errorf("--%s: %q in %q", o.LongName, bad, err)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d values were refused", n)
	}
}

// The banner suggests to create an org only where none exists, so not after a restore.
func TestFirstCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		demo         bool
		first        system.FirstSpace
		command, cli string
	}{
		"demo": {true, system.FirstSpace{Org: "demo", Space: "dev"}, "push NAME", "cf target -o demo -s dev"},
		"new": {false, system.FirstSpace{}, "create-org ORG",
			"cf create-org ORG && cf create-space SPACE -o ORG && cf target -o ORG -s SPACE"},
		"restored": {false, system.FirstSpace{Org: "acme", Space: "my space"}, "target -o acme -s 'my space'",
			"cf target -o acme -s 'my space'"},
		"no space": {false, system.FirstSpace{Org: "acme"}, "create-space SPACE -o acme",
			"cf create-space SPACE -o acme && cf target -o acme -s SPACE"},
	} {
		if got := firstCommand(tc.demo, tc.first); got != tc.command {
			t.Errorf("%s: %q, want %q", name, got, tc.command)
		}
		if got := firstTarget(tc.demo, tc.first); got != tc.cli {
			t.Errorf("%s: %q, want %q", name, got, tc.cli)
		}
	}
}

// TestServerCommands: the program for other systems knows what it does not have.
func TestServerCommands(t *testing.T) {
	t.Parallel()
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", &serverOptions{}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range parser.Commands() {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, serverCommands) {
		t.Errorf("serverCommands has %q, want %q", serverCommands, names)
	}
}
