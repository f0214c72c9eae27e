package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jessevdk/go-flags"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// TestConfigurationReference checks docs/configuration.md against the flags.
//
// Update the page with: go test ./cmd/ingot -run TestConfigurationReference
// -update
func TestConfigurationReference(t *testing.T) {
	t.Parallel()
	p := &process{getenv: func(string) string { return "" }, uid: 0}
	o := &options{}
	parser := flags.NewNamedParser("ingot", 0)
	if _, err := parser.AddGroup("Commands", "", o); err != nil {
		t.Fatal(err)
	}
	p.applyDefaults(optionsOf(parser.Command))

	var b strings.Builder
	b.WriteString("# Configuration\n\n" +
		"Reference for all flags of `ingot up`, generated from the program. Each can also be set with the environment\n" +
		"variable beside it.\n")
	for _, g := range bySubject(optionsOf(parser.Find("up"))) {
		fmt.Fprintf(&b, "\n## %s\n\n| Flag | Variable | Default | Meaning |\n|---|---|---|---|\n", g.title)
		for _, option := range g.options {
			value := ""
			if option.ValueName != "" {
				value = " " + strings.ReplaceAll(option.ValueName, "|", "\\|")
			}
			standard := ""
			if len(option.Default) > 0 {
				standard = "`" + option.Default[0] + "`"
			}
			fmt.Fprintf(&b, "| `--%s%s` | `%s` | %s | %s |\n", option.LongName, value, option.EnvDefaultKey, standard,
				option.Description)
		}
	}
	b.WriteString("\n## Only in the environment\n\nThese have no flag: `INGOT_ADMIN_PASSWORD` and " +
		"`INGOT_ADMIN_CLIENT_SECRET` set the initial secrets instead of\n" +
		"generated ones, `INGOT_ADMIN_EMAIL` sets the address of the user admin instead of `admin@DOMAIN`, and\n" +
		"`INGOT_ENCRYPTION_KEY` sets the key of the encrypted columns instead of `DIR/secrets/encryption-keys`.\n")

	file := filepath.Join("..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil || string(have) != b.String() {
		t.Errorf("docs/configuration.md is out of date (%v): go test ./cmd/ingot -run TestConfigurationReference -update",
			err)
	}
}
