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

// TestCommandReference keeps docs/commands.md to what the tables of commands
// say: ours, and the one of the cf CLI, which an end-to-end test compares with
// the real one.
//
//	go test ./internal/cli -run TestCommandReference -update
func TestCommandReference(t *testing.T) {
	t.Parallel()
	want := commandReference()
	file := filepath.Join("..", "..", "docs", "commands.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil || string(have) != want {
		t.Errorf("docs/commands.md is not what the commands say (%v): go test ./internal/cli -run TestCommandReference -update", err)
	}
}

func commandReference() string {
	summaries := cli.Summaries()
	groups := cli.Groups()
	byCF := map[string]bool{}
	for _, g := range cli.CFCommands {
		for _, c := range g.Commands {
			byCF[c] = true
		}
	}
	// The program has these beside the client.
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

The real cf CLI v8 (%s) and Ingot's own client work with the same server. This page is made from their command tables:
%d commands are in both, %d only in Ingot's client. Where both have a command, it takes the arguments and common flags of cf; Ingot adds
%s to every command.

Called by the name %s (a link is enough), Ingot's client prints what cf prints where scripts read it.

## Ingot's client

| Command | What it does | cf has it |
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
		"Commands marked – are not in Ingot's client: use the cf CLI. Whether the platform supports what they do is in\n[differences.md](differences.md).\n\n" +
		"| Command of cf | Ingot's client |\n|---|---|\n")
	for _, g := range cli.CFCommands {
		fmt.Fprintf(&b, "| **%s** | |\n", g.Title)
		for _, name := range g.Commands {
			has := "–"
			if summaries[name] != "" {
				has = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, has)
		}
	}
	return b.String()
}
