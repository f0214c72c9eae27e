package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

const returnsReason = "the language does not define whether the variable is read before or after the call that " +
	"changes it; call first, then return"

// TestReturnOrder checks that no return statement returns a variable and calls, in the same statement, a function
// that gets its address.
func TestReturnOrder(t *testing.T) {
	t.Parallel()
	checkSources(t, returnsReason, checkReturns)
}

func checkReturns(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var violations []string
	ast.Inspect(f, func(n ast.Node) bool {
		statement, ok := n.(*ast.ReturnStmt)
		if !ok {
			return true
		}
		returned := map[string]bool{}
		for _, r := range statement.Results {
			if name, ok := r.(*ast.Ident); ok {
				returned[name.Name] = true
			}
		}
		for _, r := range statement.Results {
			for _, name := range addressed(r) {
				if returned[name] {
					violations = append(violations, fmt.Sprintf("%s: %s is returned beside a call with its address",
						files.Position(statement.Pos()), name))
					return true
				}
			}
		}
		return true
	})
	return violations, nil
}

// addressed returns the variables whose address, or that of a field, an expression takes outside of functions
// in it.
func addressed(e ast.Expr) (names []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		u, ok := n.(*ast.UnaryExpr)
		if !ok || u.Op != token.AND {
			return true
		}
		x := u.X
		for {
			s, ok := x.(*ast.SelectorExpr)
			if !ok {
				break
			}
			x = s.X
		}
		if name, ok := x.(*ast.Ident); ok {
			names = append(names, name.Name)
		}
		return true
	})
	return names
}

func TestReturnOrderChecker(t *testing.T) {
	t.Parallel()
	got, err := checkReturns("a.go", []byte(`package a

func f(row scanner) (p pair, err error) {
	if row.last {
		return p, row.Scan(&p.a, moment{&p.b})
	}
	g := func() (int, error) {
		var n int
		return n, row.Scan(&n)
	}
	if row.first {
		return *new(pair), g2(&p)
	}
	err = row.Scan(&p.a)
	return p, err
}
`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "a.go:5 p", "a.go:9 n")
}
