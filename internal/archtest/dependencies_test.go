package archtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	dependenciesFile   = "docs/dependencies.txt"
	dependenciesReason = "each module is code that we answer for: it is linked because somebody decided so, and the list says why"
)

// TestDependencies compares the modules linked into the server with the reviewed
// list. With -update it corrects the list, and still fails while a line has no
// reason. A module that is no longer linked stays there as a comment, so that its
// reason need not be found again:
//
//	go test ./internal/archtest -run TestDependencies -update
func TestDependencies(t *testing.T) {
	t.Parallel()
	dir := root(t)
	if !slices.ContainsFunc(packages(t), func(p pkg) bool { return p.path() == "cmd/ingot" }) {
		t.Skip("there is no cmd/ingot to link anything")
	}
	linked := strings.Fields(string(command(t, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/ingot")))
	linked = slices.DeleteFunc(linked, func(path string) bool { return path == module })

	content := read(t, dir, dependenciesFile)
	if *update {
		content = []byte(updateDependencies(string(content), linked))
		if err := os.WriteFile(filepath.Join(dir, dependenciesFile), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report(t, dependenciesReason, checkDependencies(string(content), linked))
}

// A list is the reviewed list, read: the comment at its top, and the reasons by
// module of those that are linked and of those that were reviewed but are not
// linked now. The latter are lines that begin with "#-".
type list struct {
	header   []string
	reasons  map[string]string
	reviewed map[string]string
}

func parseDependencies(content string) list {
	l := list{reasons: map[string]string{}, reviewed: map[string]string{}}
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		into := l.reasons
		if rest, parked := strings.CutPrefix(line, "#-"); parked {
			line, into = strings.TrimSpace(rest), l.reviewed
		} else if strings.HasPrefix(line, "#") {
			l.header = append(l.header, line)
			continue
		}
		if path, reason, _ := strings.Cut(line, " "); path != "" {
			into[path] = strings.TrimSpace(reason)
		}
	}
	return l
}

// checkDependencies returns a line for each line of the list to add, to remove or
// to give a reason.
func checkDependencies(content string, linked []string) []string {
	reasons := parseDependencies(content).reasons
	var violations []string
	for _, path := range slices.Compact(slices.Sorted(slices.Values(linked))) {
		if _, listed := reasons[path]; !listed {
			violations = append(violations, fmt.Sprintf("%s: add: %s <why we link it>", dependenciesFile, path))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(reasons)) {
		switch {
		case !slices.Contains(linked, path):
			violations = append(violations, fmt.Sprintf("%s: remove: %s is not linked", dependenciesFile, path))
		case reasons[path] == "" || strings.HasPrefix(strings.ToUpper(reasons[path]), "TODO"):
			violations = append(violations, fmt.Sprintf("%s: no reason: %s", dependenciesFile, path))
		}
	}
	return violations
}

// updateDependencies rewrites the list for what is linked, and keeps the comment
// and all the reasons.
func updateDependencies(content string, linked []string) string {
	l := parseDependencies(content)
	now, parked := map[string]string{}, l.reviewed
	maps.Copy(parked, l.reasons)
	width := 0
	for _, path := range linked {
		now[path] = parked[path]
		width = max(width, len(path))
	}
	for _, path := range linked {
		delete(parked, path)
	}

	var b strings.Builder
	write := func(before string, reasons map[string]string) {
		for _, path := range slices.Sorted(maps.Keys(reasons)) {
			fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s%-*s  %s", before, width, path, reasons[path])))
		}
	}
	for _, line := range l.header {
		fmt.Fprintln(&b, line)
	}
	b.WriteByte('\n')
	write("", now)
	if len(parked) > 0 {
		b.WriteByte('\n')
		write("#- ", parked)
	}
	return b.String()
}

func TestDependenciesChecker(t *testing.T) {
	t.Parallel()
	content := `# Comment

example.org/a   does a
example.org/b
example.org/c   TODO
example.org/gone   did things

#- example.org/back   does things again
`
	linked := []string{"example.org/new", "example.org/c", "example.org/a", "example.org/b", "example.org/a", "example.org/back"}
	expect(t, checkDependencies(content, linked),
		"add example.org/back", "add example.org/new", "reason example.org/b", "reason example.org/c", "remove example.org/gone")

	updated := updateDependencies(content, linked)
	want := `# Comment

example.org/a     does a
example.org/b
example.org/back  does things again
example.org/c     TODO
example.org/new

#- example.org/gone  did things
`
	if updated != want {
		t.Errorf("updated list:\n%s\nwant:\n%s", updated, want)
	}
	if again := updateDependencies(updated, linked); again != updated {
		t.Errorf("updated twice:\n%s", again)
	}
	expect(t, checkDependencies(updated, linked),
		"reason example.org/b", "reason example.org/c", "reason example.org/new")
}
