package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	maxLines   = 600
	sizeReason = "a longer file does several things and should be split"

	maxSystem    = 5000
	systemReason = "internal/system connects the parts; what they do belongs to a wing, or to internal/server if it is " +
		"about the process"

	maxFunction    = 80
	functionReason = "a longer function does not fit on a screen"

	routesReason = "a route registered here would bypass the authorization table, which only internal/base/web fills " +
		"and checks"
)

// makesRoutes are the functions and types that create routes, by import path and
// name.
var makesRoutes = map[string][]string{
	"net/http":                 {"NewServeMux", "ServeMux", "DefaultServeMux", "HandleFunc", "Handle"},
	"github.com/go-chi/chi/v5": {"NewRouter", "NewMux"},
}

// TestSystemSize checks that the system stays what connects the parts.
func TestSystemSize(t *testing.T) {
	t.Parallel()
	lines := 0
	for _, p := range packages(t) {
		if !system.has(p.path()) {
			continue
		}
		for _, name := range p.sources() {
			lines += bytes.Count(read(t, p.Dir, name), []byte("\n"))
		}
	}
	if lines == 0 || lines > maxSystem {
		report(t, systemReason, []string{fmt.Sprintf("internal/system has %d lines, at most %d", lines, maxSystem)})
	}
}

// TestFunctionSize checks that no function outside of tests is over the limit.
func TestFunctionSize(t *testing.T) {
	t.Parallel()
	var violations []string
	for _, p := range packages(t) {
		if p.forTests() {
			continue
		}
		for _, name := range p.sources() {
			found, err := checkFunctions(path.Join(p.path(), name), read(t, p.Dir, name))
			if err != nil {
				t.Error(err)
			}
			violations = append(violations, found...)
		}
	}
	report(t, functionReason, violations)
}

func checkFunctions(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var violations []string
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if lines := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1; lines > maxFunction {
				violations = append(violations, fmt.Sprintf("%s: %s has %d lines, at most %d", files.Position(fn.Pos()),
					fn.Name.Name, lines, maxFunction))
			}
		}
	}
	return violations, nil
}

func TestFunctionSizeChecker(t *testing.T) {
	t.Parallel()
	body := "package a\n\nfunc f() {\n" + strings.Repeat("\tf()\n", maxFunction-2) + "}\n"
	for source, want := range map[string][]string{body: nil, strings.Replace(body, "{\n", "{\n\tf()\n",
		1): {"a.go:3 f 81"}} {
		got, err := checkFunctions("a.go", []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, got, want...)
	}
}

// TestFileSize checks that no file that is not generated is over the limit.
func TestFileSize(t *testing.T) {
	t.Parallel()
	var violations []string
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.sources(), p.TestGoFiles, p.XTestGoFiles) {
			violations = append(violations, checkSize(path.Join(p.path(), name), read(t, p.Dir, name))...)
		}
	}
	report(t, sizeReason, violations)
}

func checkSize(name string, source []byte) []string {
	if lines := bytes.Count(source, []byte("\n")); lines > maxLines && !isGenerated(source) {
		return []string{fmt.Sprintf("%s: %d lines, at most %d", name, lines, maxLines)}
	}
	return nil
}

func isGenerated(source []byte) bool {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments|parser.PackageClauseOnly)
	return err == nil && ast.IsGenerated(f)
}

// TestRoutes checks that the product's routes are registered through
// internal/base/web.
func TestRoutes(t *testing.T) {
	t.Parallel()
	product := set{"internal/...", "cmd/..."}
	var violations []string
	for _, p := range packages(t) {
		if !product.has(p.path()) || p.forTests() || match("internal/base/web/...", p.path()) {
			continue
		}
		for _, name := range p.sources() {
			found, err := checkRoutes(path.Join(p.path(), name), read(t, p.Dir, name))
			if err != nil {
				t.Error(err)
			}
			violations = append(violations, found...)
		}
	}
	report(t, routesReason, violations)
}

// checkRoutes finds each use of makesRoutes, under any import name.
func checkRoutes(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	imported := map[string]string{} // import path by the name in this file
	var violations []string
	for _, spec := range f.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil || makesRoutes[importPath] == nil {
			continue
		}
		switch {
		case spec.Name == nil && importPath == "net/http":
			imported["http"] = importPath
		case spec.Name == nil:
			imported["chi"] = importPath
		case spec.Name.Name == ".":
			violations = append(violations, fmt.Sprintf("%s: imports %s with a dot", files.Position(spec.Pos()), importPath))
		default:
			imported[spec.Name.Name] = importPath
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && slices.Contains(makesRoutes[imported[x.Name]], selector.Sel.Name) {
			violations = append(violations, fmt.Sprintf("%s: %s.%s outside internal/base/web",
				files.Position(selector.Pos()), x.Name, selector.Sel.Name))
		}
		return true
	})
	return violations, nil
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestFileSizeChecker(t *testing.T) {
	t.Parallel()
	long := "package a\n" + strings.Repeat("// line\n", maxLines)
	expect(t, checkSize("a.go", []byte(long)), "a.go 601")
	expect(t, checkSize("a.go", []byte(strings.TrimSuffix(long, "// line\n"))))
	expect(t, checkSize("a.go", []byte("// Code generated by a tool. DO NOT EDIT.\n"+long)))
}

func TestRoutesChecker(t *testing.T) {
	t.Parallel()
	got, err := checkRoutes("a.go", []byte(`package a

import (
	web "net/http"

	"github.com/go-chi/chi/v5"
	"example.org/other"
)

var mux web.ServeMux

func f(r chi.Router, h web.Handler) {
	chi.NewRouter()
	web.NewServeMux()
	web.HandleFunc("/", nil)
	web.Handle("/", h)
	other.NewRouter()
	r.Handle("/", h)
}
`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "a.go:10 web.ServeMux", "a.go:13 chi.NewRouter", "a.go:14 web.NewServeMux", "a.go:15 web.HandleFunc",
		"a.go:16 web.Handle")

	got, err = checkRoutes("a.go", []byte("package a\n\nimport . \"net/http\"\n\nvar mux = NewServeMux()\n"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "a.go:3 dot")
}
