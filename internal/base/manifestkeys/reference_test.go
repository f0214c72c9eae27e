package manifestkeys_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/base/manifestkeys"
)

var update = flag.Bool("update", false, "write the tables of docs/manifest.md anew")

// TestReference keeps the tables of docs/manifest.md to what the list says:
//
//	go test ./internal/base/manifestkeys -run TestReference -update
func TestReference(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "..", "docs", "manifest.md")
	have, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[manifestkeys.Level]bool{}
	want := regexp.MustCompile(`(?s)<!-- keys: (\w+) -->\n.*?<!-- end -->`).
		ReplaceAllStringFunc(string(have), func(block string) string {
			level := manifestkeys.Level(strings.Fields(block)[2])
			seen[level] = true
			return "<!-- keys: " + string(level) + " -->\n" + keyTable(level) + "<!-- end -->"
		})
	for _, l := range manifestkeys.Levels {
		if !seen[l] {
			t.Errorf("docs/manifest.md has no table for %s", l)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	if string(have) != want {
		t.Error("docs/manifest.md is not what the list of keys says: go test ./internal/base/manifestkeys -run " +
			"TestReference -update")
	}
}

func keyTable(l manifestkeys.Level) string {
	var b strings.Builder
	b.WriteString("| Key | Type | Default | What it is | Example | CF |\n|---|---|---|---|---|---|\n")
	for _, k := range manifestkeys.Of(l) {
		about, has := k.About, "yes"
		if k.Client {
			about += " (read by the client)"
		}
		if k.Ignored != "" {
			about += ". **Ignored:** " + k.Ignored
		}
		switch {
		case !k.CF && k.Ignored != "":
			has = "no longer"
		case !k.CF:
			has = "no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` | %s |\n", k.Name, k.Type, k.Default, about, k.Example, has)
	}
	return b.String()
}
