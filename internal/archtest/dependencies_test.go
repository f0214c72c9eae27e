package archtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	dependenciesFile   = "docs/dependencies.txt"
	dependenciesReason = "the project is responsible for every module it links: each was reviewed, and the list says " +
		"why it is linked"
)

// TestDependencies compares the modules linked into the server with the reviewed
// list. With -update it corrects the list, and still fails while a line has no
// reason. A module that is no longer linked stays as a comment, so that its reason
// is not lost:
//
//	go test ./internal/archtest -run TestDependencies -update
func TestDependencies(t *testing.T) {
	t.Parallel()
	dir := root(t)
	if !slices.ContainsFunc(packages(t), func(p pkg) bool { return p.path() == "cmd/ingot" }) {
		t.Skip("cmd/ingot does not exist")
	}
	importers := linkedModules(string(command(t, "go", "list", "-deps", "-f",
		`{{.ImportPath}} {{with .Module}}{{.Path}}{{end}} {{join .Imports " "}}`, "./cmd/ingot")))
	linked := slices.Collect(maps.Keys(importers))

	content := read(t, dir, dependenciesFile)
	if *update {
		content = []byte(updateDependencies(string(content), linked))
		if err := os.WriteFile(filepath.Join(dir, dependenciesFile), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report(t, dependenciesReason, append(checkDependencies(string(content), linked),
		checkOrigins(string(content), importers)...))
}

// linkedModules parses lines of "package module imports…", with an empty module for
// the standard library, and returns the importers of each module but this one.
func linkedModules(text string) map[string][]string {
	moduleOf := map[string]string{}
	for line := range strings.Lines(text) {
		if fields := strings.Split(strings.TrimSpace(line), " "); len(fields) > 1 && fields[1] != "" {
			moduleOf[fields[0]] = fields[1]
		}
	}
	importers := map[string][]string{}
	for _, path := range moduleOf {
		if path != module {
			importers[path] = nil
		}
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		from := moduleOf[fields[0]]
		for _, imported := range fields[1:] {
			if to := moduleOf[imported]; from != "" && to != "" && to != from && to != module &&
				!slices.Contains(importers[to], from) {
				importers[to] = append(importers[to], from)
			}
		}
	}
	return importers
}

// origin matches the part of a reason that names the modules which import a module.
var origin = regexp.MustCompile(`(?:^|; )of ([^:]+):`)

// checkOrigins returns a line for each reason that says "of M" though M does not
// import the module, and for each without "of M" though the product does not
// import it.
func checkOrigins(content string, importers map[string][]string) []string {
	var violations []string
	for path, reason := range parseDependencies(content).reasons {
		by, linked := importers[path]
		if !linked {
			continue // reported by checkDependencies
		}
		ours := slices.Contains(by, module)
		if of := strings.HasPrefix(reason, "of "); of == ours {
			violations = append(violations, fmt.Sprintf("%s: %s: the product imports it: %t, but the reason is: %s",
				dependenciesFile, path, ours, reason))
		}
		for _, m := range origin.FindAllStringSubmatch(reason, -1) {
			for name := range strings.SplitSeq(strings.ReplaceAll(m[1], " and ", ", "), ", ") {
				if !slices.ContainsFunc(by, func(m string) bool { return strings.Contains(m, name) }) {
					violations = append(violations, fmt.Sprintf("%s: %s is not imported by %s, only by %s", dependenciesFile, path,
						name, strings.Join(by, ", ")))
				}
			}
		}
	}
	slices.Sort(violations)
	return violations
}

func TestOriginsChecker(t *testing.T) {
	t.Parallel()
	importers := linkedModules(`os  io
ingot/cmd/ingot ingot os example.org/a example.org/d/sub
example.org/a example.org/a example.org/b example.org/c
example.org/d/sub example.org/d example.org/c
example.org/b example.org/b os
example.org/c example.org/c
`)
	expect(t, checkOrigins("example.org/a does a\nexample.org/b of a: does b\nexample.org/c of a and d: "+
		"c\nexample.org/d does d; of other/x: more\n", importers),
		"example.org/d other/x")
	expect(t, checkOrigins("example.org/a of d: a\nexample.org/b does b\nexample.org/c of a: c\n", importers),
		"example.org/a imported d", "example.org/a product true", "example.org/b product false")
}

// list is the parsed list: the comment at its top, and the reasons by module, for
// linked modules and for those that were reviewed but are not linked now. The
// latter are lines that begin with "#-".
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
			violations = append(violations, fmt.Sprintf("%s: add: %s <why it is linked>", dependenciesFile, path))
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

// updateDependencies rewrites the list for the linked modules, and keeps the
// comment and all reasons.
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
	linked := []string{"example.org/new", "example.org/c", "example.org/a", "example.org/b", "example.org/a",
		"example.org/back"}
	expect(t, checkDependencies(content, linked),
		"add example.org/back", "add example.org/new", "reason example.org/b", "reason example.org/c",
		"remove example.org/gone")

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
