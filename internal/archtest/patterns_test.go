package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"testing"
)

const patternReason = "pattern.OnUse compiles a pattern when it is used: an invalid one would panic then, " +
	"in front of a user"

// TestPatterns compiles every pattern that the program compiles when it is used.
func TestPatterns(t *testing.T) {
	t.Parallel()
	compiled := 0
	var violations []string
	of := set{"internal/...", "cmd/..."}
	for _, p := range packages(t) {
		if !of.has(p.path()) || p.forTests() {
			continue
		}
		files, sources, constants := token.NewFileSet(), []*ast.File{}, map[string]ast.Expr{}
		for _, name := range p.sources() {
			f, err := parser.ParseFile(files, path.Join(p.path(), name), read(t, p.Dir, name), parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, f)
			addConstants(constants, f)
		}
		for _, f := range sources {
			found, n := checkPatterns(f, constants)
			compiled += n
			for at, what := range found {
				violations = append(violations, fmt.Sprintf("%s: %s", files.Position(at), what))
			}
		}
	}
	if compiled < 40 {
		t.Errorf("only %d patterns were found", compiled)
	}
	report(t, patternReason, violations)
}

// addConstants adds the values of constants of a file, and the initial ones of variables, outside of functions, by
// their names.
func addConstants(to map[string]ast.Expr, f *ast.File) {
	for _, d := range f.Decls {
		declared, ok := d.(*ast.GenDecl)
		if !ok || declared.Tok != token.CONST && declared.Tok != token.VAR {
			continue
		}
		for _, one := range declared.Specs {
			of, ok := one.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, name := range of.Names {
				if i < len(of.Values) {
					to[name.Name] = of.Values[i]
				}
			}
		}
	}
}

// checkPatterns finds patterns that are not valid, and those that are not constant; n is how many there are.
func checkPatterns(f *ast.File, constants map[string]ast.Expr) (found map[token.Pos]string, n int) {
	found = map[token.Pos]string{}
	ast.Inspect(f, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		of, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || of.Sel.Name != "OnUse" {
			return true
		}
		n++
		text, ok := constantText(call.Args[0], constants)
		if !ok {
			found[call.Pos()] = "the pattern is not a constant of its package, so it cannot be checked"
		} else if _, err := regexp.Compile(text); err != nil {
			found[call.Pos()] = fmt.Sprintf("the pattern %s is not valid: %v", text, err)
		}
		return true
	})
	return found, n
}

// constantText returns the value of a string literal or constant, or of several that are joined.
func constantText(e ast.Expr, constants map[string]ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return constantText(e.X, constants)
	case *ast.Ident:
		if of := constants[e.Name]; of != nil {
			return constantText(of, constants)
		}
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := constantText(e.X, constants)
		right, also := constantText(e.Y, constants)
		return left + right, ok && also && e.Op == token.ADD
	}
	return "", false
}

// TestPatternsChecker tests the check itself.
func TestPatternsChecker(t *testing.T) {
	t.Parallel()
	for source, problems := range map[string]int{
		"var p = pattern.OnUse(`a(b)`)": 0, `var p = pattern.OnUse("a" + ("b+"))`: 0,
		"var p = pattern.OnUse(`a(b`)": 1, "var p = pattern.OnUse(text)": 1, "const c = `(`\n\nvar p = pattern.OnUse(c)": 1,
		"const c = `)`\n\nvar p = pattern.OnUse(`(` + c)": 0, `var p = pattern.OnUse("a" + b)`: 1,
	} {
		found, err := checkFile("a.go", []byte("package a\n\n"+source+"\n"), func(f *ast.File) map[token.Pos]string {
			constants := map[string]ast.Expr{}
			addConstants(constants, f)
			all, _ := checkPatterns(f, constants)
			return all
		})
		if err != nil || len(found) != problems {
			t.Errorf("%s: %q, %v, want %d problems", source, found, err, problems)
		}
	}
}
