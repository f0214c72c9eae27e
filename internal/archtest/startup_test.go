package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

const startupReason = "every run of the program does it, also of a client command that never uses it; use " +
	"pattern.OnUse, or sync.OnceValue for templates"

// TestStartup checks that no package compiles patterns or parses templates when the program starts.
func TestStartup(t *testing.T) {
	t.Parallel()
	checkProgram(t, startupReason, set{"internal/...", "cmd/ingot/..."}, checkStartup)
}

// checkProgram checks the sources of packages that are linked into programs.
func checkProgram(t *testing.T, reason string, of set, check func(f *ast.File) map[token.Pos]string) {
	t.Helper()
	var violations []string
	for _, p := range packages(t) {
		if !of.has(p.path()) || p.forTests() {
			continue
		}
		for _, name := range p.sources() {
			found, err := checkFile(path.Join(p.path(), name), read(t, p.Dir, name), check)
			if err != nil {
				t.Error(err)
			}
			violations = append(violations, found...)
		}
	}
	report(t, reason, violations)
}

func checkFile(name string, source []byte, check func(f *ast.File) map[token.Pos]string) (found []string, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for at, what := range check(f) {
		found = append(found, fmt.Sprintf("%s: %s", files.Position(at), what))
	}
	return found, nil
}

// checkStartup finds calls in the initial values of variables of a package, outside of functions.
func checkStartup(f *ast.File) map[token.Pos]string {
	found := map[token.Pos]string{}
	for _, d := range f.Decls {
		declared, ok := d.(*ast.GenDecl)
		if !ok || declared.Tok != token.VAR {
			continue
		}
		ast.Inspect(declared, func(n ast.Node) bool {
			if _, ok := n.(*ast.FuncLit); ok {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			of, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			in, ok := of.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch what := in.Name + "." + of.Sel.Name; what {
			case "regexp.MustCompile", "regexp.MustCompilePOSIX", "template.Must":
				found[call.Pos()] = what + " at package level"
			}
			return true
		})
	}
	return found
}

// TestStartupRules checks the checks.
func TestStartupRules(t *testing.T) {
	t.Parallel()
	checkRule(t, checkStartup, []ruleCase{
		{"var x = regexp.MustCompile(`a`)", "regexp.MustCompile"},
		{"var (\n\ta = 1\n\tb = []any{regexp.MustCompile(`a`)}\n)", "regexp.MustCompile"},
		{"var x = template.Must(template.New(``), nil)", "template.Must"},
		{"var x = pattern.OnUse(`a`)", ""},
		{"var x = func() any { return regexp.MustCompile(`a`) }", ""},
		{"func f() { regexp.MustCompile(`a`) }", ""},
	})
}

// ruleCase is a source, and what a rule finds in it, "" for nothing.
type ruleCase struct{ source, want string }

// checkRule checks a check.
func checkRule(t *testing.T, check func(f *ast.File) map[token.Pos]string, cases []ruleCase) {
	t.Helper()
	for _, c := range cases {
		found, err := checkFile("x.go", []byte("package x\n"+c.source), check)
		if err != nil {
			t.Fatal(err)
		}
		if (c.want == "") != (len(found) == 0) || !strings.Contains(strings.Join(found, "\n"), c.want) {
			t.Errorf("%s: found %q, want %q", c.source, found, c.want)
		}
	}
}
