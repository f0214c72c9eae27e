package archtest

import (
	"fmt"
	"go/doc"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	architectureFile = "docs/architecture.md"
	tableBegin       = "<!-- packages: go test ./internal/archtest -update writes this list -->\n"
	tableEnd         = "<!-- end of packages -->\n"
	tableReason      = "the list shows readers where to find things; go test ./internal/archtest -update rewrites it"
	mostWings        = 10
)

// TestArchitectureList compares the list of packages in docs/architecture.md with the code.
func TestArchitectureList(t *testing.T) {
	t.Parallel()
	all := packages(t)
	list := packageList(all, func(p pkg) string {
		return packageComment(t, filepath.Join(p.Dir, "doc.go"))
	})
	checkTable(t, architectureFile, tableBegin, list+tableEnd, tableReason)
}

// checkTable compares a generated part of a document, which begins after a marker and ends
// with one, and rewrites it if the tests run with -update.
func checkTable(t *testing.T, name, begin, table, reason string) {
	t.Helper()
	file := filepath.Join(root(t), filepath.FromSlash(name))
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := table[strings.LastIndex(table, "<!--"):]
	head, rest, begins := strings.Cut(string(content), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no markers for its table", name)
	}
	want := head + begin + table + tail
	switch {
	case want == string(content):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	default:
		report(t, reason, []string{name + ": the table does not match"})
	}
}

// TestWings limits the number of folders in internal.
func TestWings(t *testing.T) {
	t.Parallel()
	tops := map[string]bool{}
	for _, p := range packages(t) {
		if rest, ok := strings.CutPrefix(p.path(), "internal/"); ok {
			top, _, _ := strings.Cut(rest, "/")
			tops[top] = true
		}
	}
	if len(tops) > mostWings {
		report(t, "the folders of internal show the parts of the product; more would be hard to remember",
			[]string{fmt.Sprintf("internal has %d folders, want at most %d", len(tops), mostWings)})
	}
}

// packageList returns the list of the product's packages below internal.
func packageList(all []pkg, comment func(pkg) string) string {
	var b strings.Builder
	wing := ""
	for _, p := range all {
		name, ok := strings.CutPrefix(p.path(), "internal/")
		if !ok || p.forTests() || p.Name == "main" {
			continue
		}
		if top, _, _ := strings.Cut(name, "/"); top != wing {
			wing = top
			fmt.Fprintf(&b, "\n### %s\n\n", wing)
		}
		var d doc.Package
		what := strings.TrimSuffix(d.Synopsis(comment(p)), ".")
		what = strings.TrimSuffix(strings.TrimPrefix(what, "Package "+p.Name+" "), ":")
		fmt.Fprintf(&b, "- `%s` %s.", name, what)
		list := slices.DeleteFunc(importList(p.path(), p.Imports), func(s string) bool {
			return strings.Contains(s, ".") || s == "the standard library only"
		})
		if len(list) > 0 {
			fmt.Fprintf(&b, " Imports %s.", strings.Join(list, ", "))
		}
		b.WriteString("\n")
	}
	return b.String() + "\n"
}

func TestPackageListChecker(t *testing.T) {
	t.Parallel()
	got := packageList([]pkg{
		{ImportPath: "ingot/cmd/x", Name: "main"},
		{ImportPath: "ingot/internal/a", Name: "a", Imports: []string{"os", "ingot/internal/b/c", "golang.org/x/sys"}},
		{ImportPath: "ingot/internal/a/atest", Name: "atest"},
		{ImportPath: "ingot/internal/b/c", Name: "c"},
	}, func(p pkg) string { return "Package " + p.Name + " is this: that. And more." })
	const want = "\n### a\n\n- `a` is this: that. Imports b/c.\n" + "\n### b\n\n- `b/c` is this: that.\n\n"
	if got != want {
		t.Errorf("the list is\n%s\nwant\n%s", got, want)
	}
}
