package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/cli"
	"ingot/internal/platform/services/brokertest"
)

// TestEveryCommand runs every command of the cf CLI, as scripts in testdata/commands say.
// A command without a case is in not.txt, with the reason. docs/commands.md shows which
// have one.
//
// In a script, a command must succeed, or fail if it begins with !, and print the
// indented lines below it; runs of blanks count as one. With ~ it is repeated until it
// prints them. VAR= keeps the output for $VAR,
// VAR=.a.b a member of JSON. What follows (cf) is printed by the real client only. "? PROMPT => TEXT" answers a prompt.
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "commands", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	without := reasons(t)
	var scripts []*script
	ran := map[string]bool{}
	for _, file := range files {
		if filepath.Base(file) == "not.txt" {
			continue
		}
		s := readScript(t, file)
		scripts = append(scripts, s)
		for _, c := range s.cases {
			ran[c.args[0]] = true
		}
	}
	for _, g := range cli.CFCommands {
		for _, name := range g.Commands {
			switch reason, listed := without[name]; {
			case !ran[name] && !listed:
				t.Errorf("cf %s has no case: write one in testdata/commands, or say in not.txt why not", name)
			case ran[name] && listed:
				t.Errorf("cf %s has a case: remove it from not.txt", name)
			case listed && reason == "":
				t.Errorf("not.txt says nothing about %s", name)
			}
		}
	}
	s := startApps(t, options{Engine: "process"})
	vars := commandVars(t, s)
	var theirs, ours []part
	for _, script := range scripts {
		theirs = append(theirs, part{script.name, func(t *testing.T) {
			script.play(t, s, cfHome(t, s.Server),
				"commands-"+script.name, vars)
		}})
		ours = append(ours, part{"ours-" + script.name, func(t *testing.T) {
			script.forOurs().play(t, s, oursAsCF(t, s),
				"ours-"+script.name, vars)
		}})
	}
	together(t, theirs...)
	// The twins of the commands in Ingot's client, called as cf. Afterwards, because the
	// scripts create things that exist once.
	together(t, ours...)
}

// oursAsCF returns a home directory in which cf is Ingot's client.
func oursAsCF(t *testing.T, s *site) string {
	t.Helper()
	home := t.TempDir()
	if err := os.Symlink(program(t), filepath.Join(home, "cf")); err != nil {
		t.Fatal(err)
	}
	cfOK(t, home, "api", s.API)
	return home
}

// forOurs returns the cases of commands that Ingot's client has.
func (s *script) forOurs() *script {
	out := &script{s.name, slices.DeleteFunc(slices.Clone(s.cases),
		func(c commandCase) bool { return !cli.IsCommand(c.args[0]) })}
	for i := range out.cases {
		out.cases[i].theirs = nil
	}
	return out
}

// reasons reads not.txt.
func reasons(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "commands", "not.txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, reason, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(line, "#") {
			out[name] = strings.TrimSpace(reason)
		}
	}
	return out
}

// commandVars are the variables of all scripts.
func commandVars(t *testing.T, s *site) map[string]string {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, name := range []string{"detect", "supply", "finalize", "release"} {
		file("buildpack/bin/"+name, "#!/bin/sh\nexit 0\n", 0o755)
	}
	repo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"plugins":[]}`)
	}))
	t.Cleanup(repo.Close)
	return map[string]string{
		"API": s.API, "PASSWORD": s.secret(t, "admin-password"), "PROBE": probe(t),
		"BROKER": brokertest.New(t, &brokertest.Broker{}).URL,
		"REPO":   repo.URL, "BUILDPACK": filepath.Join(dir, "buildpack"),
		"MANIFEST": file("manifest.yml", "applications:\n- name: plan\n  memory: 64M\n", 0o644),
		"RULES":    file("rules.json", `[{"protocol":"tcp","destination":"192.0.2.0/24","ports":"443"}]`, 0o644),
	}
}

// script is a file of cases.
type script struct {
	name  string
	cases []commandCase
}

// commandCase is one command and what it must print.
type commandCase struct {
	line    int
	args    []string
	fails   bool
	waits   bool   // until it prints that
	keep    string // the variable that keeps the output
	member  string // of JSON, to keep
	prints  []string
	theirs  []string // only by the real client
	answers []answer
}

func readScript(t *testing.T, file string) *script {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "  ? "):
			prompt, typed, ok := strings.Cut(strings.TrimPrefix(line, "  ? "), " => ")
			if !ok {
				t.Fatalf("%s:%d: a prompt without an answer", file, number)
			}
			last := &s.cases[len(s.cases)-1]
			last.answers = append(last.answers, answer{prompt, typed})
		case strings.HasPrefix(line, "  "):
			last := &s.cases[len(s.cases)-1]
			if theirs, ok := strings.CutPrefix(strings.TrimSpace(line), "(cf) "); ok {
				last.theirs = append(last.theirs, theirs)
			} else {
				last.prints = append(last.prints, strings.TrimSpace(line))
			}
		default:
			c := commandCase{line: number}
			before, command, ok := strings.Cut(" "+line, " cf ")
			if !ok {
				t.Fatalf("%s:%d: %q is no command of cf", file, number, line)
			}
			before = strings.TrimSpace(before)
			switch before {
			case "!":
				c.fails = true
			case "~":
				c.waits = true
			default:
				c.keep, c.member, _ = strings.Cut(before, "=")
			}
			c.args = words(command)
			s.cases = append(s.cases, c)
		}
	}
	return s
}

// words splits at blanks outside of quotes.
func words(line string) (out []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if quoted, ok := strings.CutPrefix(line, "'"); ok {
			word, rest, _ := strings.Cut(quoted, "'")
			out, line = append(out, word), rest
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		out, line = append(out, word), rest
	}
	return out
}

// play runs a script in a new organization.
func (s *script) play(t *testing.T, at *site, home, org string, given map[string]string) {
	t.Helper()
	cfOK(t, home, "auth", "admin", at.secret(t, "admin-password"))
	cfOK(t, home, "create-org", org)
	cfOK(t, home, "create-space", "dev", "-o", org)
	cfOK(t, home, "target", "-o", org, "-s", "dev")
	vars := []string{"$ORG", org, "$DIR", t.TempDir()}
	for name, value := range given {
		vars = append(vars, "$"+name, value)
	}
	for _, c := range s.cases {
		c.prints = append(slices.Clone(c.prints), c.theirs...)
		expand := strings.NewReplacer(vars...)
		args := slices.Clone(c.args)
		for i := range args {
			args[i] = expand.Replace(args[i])
		}
		out, code := "", 0
		run := func() {
			if len(c.answers) > 0 {
				out, code = cfTyped(t, home, args, c.answers...)
			} else {
				out, code = cf(t, home, args...)
			}
		}
		if run(); c.waits {
			testkit.Eventually(t, fmt.Sprintf("%s.txt:%d prints %q", s.name, c.line, c.prints), func() bool {
				run()
				return !slices.ContainsFunc(c.prints, func(want string) bool {
					return !strings.Contains(columns(out),
						expand.Replace(want))
				})
			})
		}
		if (code != 0) != c.fails {
			t.Fatalf("%s.txt:%d: cf %s: exit code %d\n%s", s.name, c.line, strings.Join(args, " "), code, out)
		}
		for _, want := range c.prints {
			if !strings.Contains(columns(out), expand.Replace(want)) {
				t.Fatalf("%s.txt:%d: cf %s does not print %q:\n%s", s.name, c.line, strings.Join(args, " "),
					expand.Replace(want), out)
			}
		}
		if c.keep != "" {
			vars = append([]string{"$" + c.keep, c.kept(t, out)}, vars...)
		}
	}
	cfOK(t, home, "delete-org", org, "-f")
}

// kept is what a variable gets.
func (c *commandCase) kept(t *testing.T, out string) string {
	t.Helper()
	if c.member == "" {
		return strings.TrimSpace(out)
	}
	var value any
	if err := json.Unmarshal([]byte(out), &value); err != nil {
		t.Fatalf("line %d: %v\n%s", c.line, err, out)
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(c.member, "."), ".") {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return fmt.Sprint(value)
}
