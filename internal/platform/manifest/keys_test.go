package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/manifestkeys"
	"ingot/internal/platform/manifest"
)

// The parser reads the keys of the list and no others: what it looks up in its
// source stands in the list.
func TestParserKnowsTheListedKeys(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, file := range []string{"parse.go", "processes.go"} {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	listed := map[string]bool{}
	for _, l := range manifestkeys.Levels {
		for _, k := range manifestkeys.Of(l) {
			listed[k.Name] = true
		}
	}
	var read []string
	for _, m := range regexp.MustCompile(
		`(?:(?:raw|keys|in)\["|(?:raw|keys), "|\{"|"(?:no|random|default)-)([a-z][a-z_-]+)"`).
		FindAllStringSubmatch(source.String(), -1) {
		read = append(read, m[1])
	}
	for _, m := range regexp.MustCompile(`prefix\+"(-[a-z-]+)"`).FindAllStringSubmatch(source.String(), -1) {
		read = append(read, "health-check"+m[1], "readiness-health-check"+m[1])
	}
	slices.Sort(read)
	if read = slices.Compact(read); len(read) < 20 {
		t.Fatalf("only %v", read)
	}
	for _, key := range read {
		if !listed[key] && !listed["no-"+key] && !strings.HasSuffix(key, "health-check") {
			t.Errorf("the parser reads %q, which internal/base/manifestkeys does not list", key)
		}
	}
}

// Every key of the list that is used changes what Parse returns, or is refused
// with a value of a wrong type.
func TestListedKeysAreRead(t *testing.T) {
	t.Parallel()
	parse := func(entry string) string {
		m, err := manifest.Parse([]byte("applications:\n- " + entry + "\n"))
		if err != nil {
			return err.Error()
		}
		if len(m.Apps[0].Warnings) > 0 {
			return "warns: " + strings.Join(m.Apps[0].Warnings, "; ")
		}
		return ""
	}
	for _, l := range []manifestkeys.Level{manifestkeys.App, manifestkeys.Docker, manifestkeys.Process,
		manifestkeys.Sidecar, manifestkeys.Route, manifestkeys.Service, manifestkeys.Metadata} {
		for _, k := range manifestkeys.Of(l) {
			if k.Client {
				continue
			}
			wrong := "{wrong: {type: 1}}"
			if k.Type == "map" {
				wrong = "7"
			}
			entry := map[manifestkeys.Level]string{
				manifestkeys.App: "{name: x, %s: %s}", manifestkeys.Docker: "{name: x, docker: {%s: %s}}",
				manifestkeys.Process:  "{name: x, processes: [{type: web, %s: %s}]}",
				manifestkeys.Sidecar:  "{name: x, sidecars: [{%s: %s}]}",
				manifestkeys.Route:    "{name: x, routes: [{route: a.b, %s: %s}]}",
				manifestkeys.Service:  "{name: x, services: [{name: s, %s: %s}]}",
				manifestkeys.Metadata: "{name: x, metadata: {%s: %s}}",
			}[l]
			if strings.Contains(entry, k.Name+": ") && k.Name != "name" && k.Name != "route" && k.Name != "type" ||
				k.Name == "binding_name" || k.Name == "name" || k.Name == "env" {
				continue // checked by the golden files: any value is a text there
			}
			said := parse(fmt.Sprintf(entry, k.Name, wrong))
			if said == "" || strings.HasPrefix(said, "warns: ") != (k.Ignored != "") {
				t.Errorf("%s of %s with a wrong value: %q", k.Name, l, said)
			}
		}
	}
}
