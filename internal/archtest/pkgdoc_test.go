package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const pkgdocReason = "readers learn about a package from its comment, and undocumented boundaries are not respected"

// TestPackageComments checks that every package has a package comment, in doc.go
// (a program: in main.go or doc.go), and that an internal package also says what
// it may import.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	var violations []string
	for _, p := range packages(t) {
		names := []string{"doc.go"}
		if p.Name == "main" {
			names = []string{"main.go", "doc.go"}
		}
		var doc string
		for _, name := range names {
			doc += packageComment(t, filepath.Join(p.Dir, name))
		}
		violations = append(violations, checkComment(p, doc)...)
	}
	report(t, pkgdocReason, violations)
}

// packageComment returns the package comment of a file, or "" if the file does
// not exist.
func packageComment(t *testing.T, file string) string {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	return commentText(f)
}

// commentText omits directives, such as build constraints.
func commentText(f *ast.File) string { return strings.TrimSpace(f.Doc.Text()) }

var importWord = regexp.MustCompile(`(?i)\bimport(s|ed|ing)?\b`)

// checkComment returns the violations in the comment of a package.
func checkComment(p pkg, doc string) []string {
	at := p.path()
	switch {
	case doc == "" && p.Name == "main":
		return []string{at + ": no package comment in main.go or doc.go"}
	case doc == "":
		return []string{at + ": no package comment in doc.go"}
	case p.Name != "main" && !strings.HasPrefix(doc, "Package "+p.Name+" "):
		return []string{at + ": the package comment does not begin with \"Package " + p.Name + " \""}
	case strings.HasPrefix(at, "internal/") && p.Name != "main" && !p.forTests() && !importWord.MatchString(doc):
		return []string{at + ": the package comment does not say what the package may import"}
	}
	return nil
}

func TestPackageCommentsChecker(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		p    pkg
		doc  string
		want []string
	}{
		"good": {pkg{ImportPath: "ingot/internal/a", Name: "a"}, "Package a is. It imports nothing.", nil},
		"none": {pkg{ImportPath: "ingot/internal/a", Name: "a"}, "", []string{"internal/a doc.go"}},
		"other name": {pkg{ImportPath: "ingot/internal/a", Name: "a"}, "Package b imports c.",
			[]string{"internal/a begin"}},
		"boundary": {pkg{ImportPath: "ingot/internal/a", Name: "a"}, "Package a is important.",
			[]string{"internal/a import"}},
		"not internal": {pkg{ImportPath: "ingot/e2e", Name: "e2e"}, "Package e2e is.", nil},
		"for tests":    {pkg{ImportPath: "ingot/internal/atest", Name: "atest"}, "Package atest is.", nil},
		"program":      {pkg{ImportPath: "ingot/cmd/a", Name: "main"}, "A does things.", nil},
		"bare program": {pkg{ImportPath: "ingot/cmd/a", Name: "main"}, "", []string{"cmd/a main.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, checkComment(test.p, test.doc), test.want...)
		})
	}
}
