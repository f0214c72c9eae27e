package archtest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false,
	"rewrite docs/dependencies.txt, the tables of docs/architecture.md and docs/decisions/README.md, and the import "+
		"lists of doc.go files")

const importListReason = "readers rely on the list of a package's imports; " +
	"go test ./internal/archtest -update rewrites the lists"

// TestImportLists compares the list at the end of each package comment with the
// imports of the package.
func TestImportLists(t *testing.T) {
	t.Parallel()
	var violations []string
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.path(), "internal/") || p.Name == "main" {
			continue
		}
		file := filepath.Join(p.Dir, "doc.go")
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := withImportList(string(source), importList(p.path(), p.Imports))
		if want == string(source) {
			continue
		}
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a source file
				t.Fatal(err)
			}
			continue
		}
		violations = append(violations, p.path()+"/doc.go: the import list is not "+
			strings.Join(importList(p.path(), p.Imports), ", "))
	}
	report(t, importListReason, violations)
}

// importList returns what a package imports beyond the standard library: first
// packages of this module, by their path below internal, then others.
func importList(path string, imports []string) []string {
	var ours, others []string
	for _, imported := range imports {
		switch to := inModule(imported); {
		case to != imported:
			ours = append(ours, strings.TrimPrefix(to, "internal/"))
		case imported != "C" && !standard(imported):
			others = append(others, imported)
		}
	}
	slices.Sort(ours)
	slices.Sort(others)
	list := slices.Concat(ours, others)
	if len(list) == 0 {
		return []string{"the standard library only"}
	}
	// The system imports nearly everything.
	if system.has(path) && len(ours) > 30 {
		return []string{"every wing and the base"}
	}
	return list
}

// withImportList returns the source of a doc.go with a list at the end of the
// package comment, in place of the one it has.
func withImportList(source string, list []string) string {
	head, clause, ok := strings.Cut(source, "\npackage ")
	if !ok {
		return source
	}
	if at := strings.LastIndex(head, "\n//\n// Imports: "); at >= 0 {
		head = head[:at]
	}
	line := "// Imports:"
	var lines []string
	for i, item := range list {
		if i < len(list)-1 {
			item += ","
		} else {
			item += "."
		}
		if len(line)+1+len(item) > 80 && line != "//" {
			lines = append(lines, line)
			line = "//"
		}
		line += " " + item
	}
	return head + "\n//\n" + strings.Join(append(lines, line), "\n") + "\npackage " + clause
}

func TestImportListsChecker(t *testing.T) {
	t.Parallel()
	list := importList("internal/a", []string{"fmt", "golang.org/x/sys/unix", "ingot/internal/b", "ingot/internal/a/c"})
	if got, want := strings.Join(list, " "), "a/c b golang.org/x/sys/unix"; got != want {
		t.Errorf("the list is %q, want %q", got, want)
	}
	const want = "// Package a is.\n//\n// Imports: a/c, b, golang.org/x/sys/unix.\npackage a\n"
	for _, source := range []string{
		"// Package a is.\npackage a\n",
		"// Package a is.\n//\n// Imports: other things, in\n// two lines.\npackage a\n", want,
	} {
		if got := withImportList(source, list); got != want {
			t.Errorf("%q becomes %q, want %q", source, got, want)
		}
	}
	if got := withImportList("// Package a is.\npackage a\n",
		importList("internal/a", []string{"os"})); !strings.Contains(got, "// Imports: the standard library only.\n") {
		t.Errorf("a package without imports says %q", got)
	}
}
