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
	tableBegin       = "<!-- packages: go test ./internal/archtest -update writes this table -->\n"
	tableEnd         = "<!-- end of packages -->\n"
	tableReason      = "who looks for the place of something begins with this table; go test ./internal/archtest -update writes it anew"
	mostWings        = 9
)

// TestArchitectureTable holds the table of packages in docs/architecture.md
// against the tree.
func TestArchitectureTable(t *testing.T) {
	t.Parallel()
	all := packages(t)
	table := packageTable(all, func(p pkg) string {
		return packageComment(t, filepath.Join(p.Dir, "doc.go"))
	})
	file := filepath.Join(root(t), architectureFile)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(content), tableBegin)
	_, tail, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table of packages", architectureFile)
	}
	want := head + tableBegin + table + tableEnd + tail
	switch {
	case want == string(content):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	default:
		report(t, tableReason, []string{architectureFile + ": the table of packages is not what the tree is"})
	}
}

// TestWings sees that the top of internal can be read at a glance.
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
		report(t, "the folders of internal are the parts of the product, as many as one keeps in mind", []string{fmt.Sprintf("internal has %d folders, at most %d are wanted", len(tops), mostWings)})
	}
}

// packageTable lists the packages below internal that the product has.
func packageTable(all []pkg, comment func(pkg) string) string {
	var b strings.Builder
	wing := ""
	for _, p := range all {
		name, ok := strings.CutPrefix(p.path(), "internal/")
		if !ok || p.forTests() || p.Name == "main" {
			continue
		}
		if top, _, _ := strings.Cut(name, "/"); top != wing {
			wing = top
			fmt.Fprintf(&b, "\n| `%s` | | imports |\n|---|---|---|\n", wing)
		}
		var d doc.Package
		what := strings.TrimSuffix(d.Synopsis(comment(p)), ".")
		what = strings.TrimSuffix(strings.TrimPrefix(what, "Package "+p.Name+" "), ":")
		list := importList(p.path(), p.Imports)
		list = slices.DeleteFunc(list, func(s string) bool { return strings.Contains(s, ".") || s == "the standard library only" })
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.ReplaceAll(what, "|", `\|`), strings.Join(list, ", "))
	}
	return b.String() + "\n"
}

func TestPackageTableChecker(t *testing.T) {
	t.Parallel()
	got := packageTable([]pkg{
		{ImportPath: "ingot/cmd/x", Name: "main"},
		{ImportPath: "ingot/internal/a", Name: "a", Imports: []string{"os", "ingot/internal/b/c", "golang.org/x/sys"}},
		{ImportPath: "ingot/internal/a/atest", Name: "atest"},
		{ImportPath: "ingot/internal/b/c", Name: "c"},
	}, func(p pkg) string { return "Package " + p.Name + " is | this: that. And more." })
	const want = "\n| `a` | | imports |\n|---|---|---|\n| `a` | is \\| this: that | b/c |\n" +
		"\n| `b` | | imports |\n|---|---|---|\n| `b/c` | is \\| this: that |  |\n\n"
	if got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
