package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/cli"
)

// TestCommandReference checks docs/commands.md against the command tables of this
// client and of the cf CLI. An end-to-end test compares the latter with the real
// cf CLI.
//
// Update the page with: go test ./internal/cli -run TestCommandReference -update
func TestCommandReference(t *testing.T) {
	t.Parallel()
	want := commandReference(t)
	file := filepath.Join("..", "..", "docs", "commands.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil || string(have) != want {
		t.Errorf("docs/commands.md is out of date (%v): go test ./internal/cli -run TestCommandReference -update", err)
	}
}

func commandReference(t *testing.T) string {
	t.Helper()
	cases := commandCases(t)
	summaries := cli.Summaries()
	groups := cli.Groups()
	byCF := map[string]bool{}
	for _, g := range cli.CFCommands {
		for _, c := range g.Commands {
			byCF[c] = true
		}
	}
	// These commands belong to the program, not to the client.
	summaries["version"], summaries["help"] = "Show the version", "Show help for a command"
	both, alone := 0, []string{}
	for name := range summaries {
		if byCF[name] {
			both++
		} else if !strings.Contains(name, " ") {
			alone = append(alone, name)
		}
	}
	slices.Sort(alone)
	var b strings.Builder
	fmt.Fprintf(&b, `# Commands

The real cf CLI v8 (%s) and Ingot's own client work with the same server. This page is generated from their command tables:
%d commands are in both, %d only in Ingot's client. Where both have a command, it takes the arguments and common flags of cf; Ingot adds
%s to every command.

Called as %s (through a symbolic link, for example), Ingot's client prints cf's output wherever scripts parse it.

## Ingot's client

| Command | Description | In cf |
|---|---|---|
`, cli.CFVersion, both, len(alone), "`--json` and `-q`", "`cf`")
	for _, g := range groups {
		fmt.Fprintf(&b, "| **%s** | | |\n", g.Title)
		for _, name := range g.Commands {
			has := "–"
			if byCF[name] {
				has = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, summaries[name], has)
		}
	}
	b.WriteString("\n`ingot help COMMAND` shows arguments, flags and examples.\n\n## Commands of the cf CLI\n\n" +
		"Commands marked – concern the cf program itself, its plugins and its settings, and are not in Ingot's " +
		"client.\n[differences.md](differences.md) lists the features that the platform does not support. " +
		"The last column is the script in `e2e/testdata/commands` that runs the command with the\nreal cf CLI in every " +
		"test, or why there is none.\n\n" +
		"| Command of cf | Ingot's client | Test |\n|---|---|---|\n")
	for _, g := range cli.CFCommands {
		fmt.Fprintf(&b, "| **%s** | | |\n", g.Title)
		for _, name := range g.Commands {
			has := "–"
			if summaries[name] != "" {
				has = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, has, cases[name])
		}
	}
	return b.String()
}

// commandCases returns, for each command of the cf CLI, the end-to-end test that runs
// it, or why there is none.
func commandCases(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "e2e", "testdata", "commands", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the scripts of commands: %v, %v", files, err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		for line := range strings.Lines(string(text)) {
			command, reason, listed := strings.Cut(strings.TrimSpace(line), ":")
			switch {
			case strings.HasPrefix(line, "#") || strings.HasPrefix(line, "  "):
			case name == "not.txt" && listed:
				out[command] = strings.TrimSpace(reason)
			default:
				_, command, _ := strings.Cut(" "+line, " cf ")
				if word, _, _ := strings.Cut(strings.TrimSpace(command), " "); word != "" && out[word] == "" {
					out[word] = strings.TrimSuffix(name, ".txt")
				}
			}
		}
	}
	return out
}
