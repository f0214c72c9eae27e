package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

const (
	truncatedReason = "a reader that stops at a limit without a word passes on a part as if it were all. Read one byte " +
		"more than the limit and return an error, or say in a comment on the line why a part is enough (it contains \"part\")"

	capturedReason = "a transaction may run again, or fail to commit: what its function adds to a variable outside is " +
		"added again, or stays. Reset the variable at the beginning of the function, or assign it after the commit"
)

// TestTruncatedReads checks that nothing is cut off silently when it is read.
func TestTruncatedReads(t *testing.T) {
	t.Parallel()
	checkSources(t, truncatedReason, checkTruncated)
	for source, want := range map[string]int{
		"b, err := io.ReadAll(io.LimitReader(r, 10))":                  1,
		"b, err := io.ReadAll(io.LimitReader(r, most))":                1,
		"b, err := io.ReadAll(io.LimitReader(r, most+1))":              0,
		"b, _ := io.ReadAll(io.LimitReader(r, 10)) // part of a page":  0,
		"n, err := io.Copy(w, io.LimitReader(r, 10))":                  1,
		"_, _ = io.Copy(io.Discard, io.LimitReader(r, 10))":            0,
		"err := json.NewDecoder(io.LimitReader(r, 10)).Decode(&thing)": 0,
	} {
		found, err := checkTruncated("x.go", []byte("package x\nfunc f() {\n"+source+"\n}\n"))
		if err != nil || len(found) != want {
			t.Errorf("%s: found %q, %v, want %d", source, found, err, want)
		}
	}
}

// TestCapturedState checks that functions of transactions can run again.
func TestCapturedState(t *testing.T) {
	t.Parallel()
	checkSources(t, capturedReason, checkCaptured)
	for source, want := range map[string]int{
		"s.Update(ctx, func(tx Tx) error { all = append(all, 1); return nil })":                      1,
		"s.Update(ctx, func(tx Tx) error { all = nil; all = append(all, 1); return nil })":           0,
		"s.Update(ctx, func(tx Tx) error { all := f(); all = append(all, 1); return nil })":          0,
		"s.Update(ctx, func(tx Tx) error { all = all[:0]; all = append(all, 1); return nil })":       0,
		"s.Update(ctx, func(tx Tx) error { n++; return nil })":                                       1,
		"s.commit(ctx, j, func(tx Tx, mine *Job) error { n += 2; return nil })":                      1,
		"s.Update(ctx, func(tx Tx) error { n = 0; n += 2; return nil })":                             0,
		"s.Update(ctx, func(tx Tx) error { for i := 0; i < 3; i++ { }; return nil })":                0,
		"s.Update(ctx, func(tx Tx) error { var n int; n++; return nil })":                            0,
		"s.Update(ctx, func(tx Tx) error { x.n++; return nil })":                                     0,
		"s.Update(ctx, func(tx Tx) error { add := func(n int) { n++ }; add(1); return nil })":        0,
		"s.Update(ctx, func(tx Tx) (n int, err error) { n++; return n, nil })":                       0,
		"s.Update(ctx, func(tx Tx) error { for _, p := range f() { p = append(p, 1) }; return nil})": 0,
	} {
		found, err := checkCaptured("x.go", []byte("package x\nfunc f() {\n"+source+"\n}\n"))
		if err != nil || len(found) != want {
			t.Errorf("%s: found %q, %v, want %d", source, found, err, want)
		}
	}
}

// partial are the lines with a comment that says that a part is enough.
func partial(fset *token.FileSet, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.Contains(c.Text, "part") {
				lines[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

// called returns the name of a called function, with its package or receiver if that is a name.
func called(n ast.Node) (name string, args []ast.Expr) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name, call.Args
	}
	return "." + s.Sel.Name, call.Args
}

func checkTruncated(name string, source []byte) (found []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	allowed := partial(fset, file)
	ast.Inspect(file, func(n ast.Node) bool {
		outer, args := called(n)
		var from ast.Expr
		switch {
		case outer == "io.ReadAll" && len(args) == 1:
			from = args[0]
		case outer == "io.Copy" && len(args) == 2:
			if s, ok := args[0].(*ast.SelectorExpr); ok && s.Sel.Name == "Discard" {
				return true
			}
			from = args[1]
		default:
			return true
		}
		inner, limits := called(from)
		if inner != "io.LimitReader" || len(limits) != 2 {
			return true
		}
		if sum, ok := limits[1].(*ast.BinaryExpr); ok && sum.Op == token.ADD {
			return true
		}
		if at := fset.Position(n.Pos()); !allowed[at.Line] {
			found = append(found, fmt.Sprintf("%s:%d", name, at.Line))
		}
		return true
	})
	return found, nil
}

// transactions are methods whose last argument may be called more than once.
var transactions = map[string]bool{"Update": true, "UpdateLocking": true, "commit": true, "lock": true, "write": true}

func checkCaptured(name string, source []byte) (found []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		method, args := called(n)
		_, method, _ = strings.Cut(method, ".")
		if !transactions[method] || len(args) == 0 {
			return true
		}
		body, ok := args[len(args)-1].(*ast.FuncLit)
		if !ok {
			return true
		}
		for _, at := range grown(body) {
			found = append(found, fmt.Sprintf("%s:%d", name, fset.Position(at).Line))
		}
		return true
	})
	return found, nil
}

// grown returns where a function adds to variables that it neither declares nor resets.
func grown(f *ast.FuncLit) (at []token.Pos) {
	own := map[string]bool{}
	declare := func(names ...ast.Expr) {
		for _, e := range names {
			if id, ok := e.(*ast.Ident); ok {
				own[id.Name] = true
			}
		}
	}
	fields := func(list *ast.FieldList) {
		if list == nil {
			return
		}
		for _, p := range list.List {
			for _, id := range p.Names {
				own[id.Name] = true
			}
		}
	}
	variable := func(e ast.Expr) string {
		if id, ok := e.(*ast.Ident); ok && !own[id.Name] {
			return id.Name
		}
		return ""
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			fields(n.Params)
			fields(n.Results)
		case *ast.RangeStmt:
			declare(n.Key, n.Value)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				own[id.Name] = true
			}
		case *ast.IncDecStmt:
			if variable(n.X) != "" {
				at = append(at, n.Pos())
			}
		case *ast.AssignStmt:
			switch n.Tok {
			case token.DEFINE:
				declare(n.Lhs...)
			case token.ASSIGN:
				for i, to := range n.Lhs {
					if i < len(n.Rhs) && appendsTo(n.Rhs[i], to) {
						if variable(to) != "" {
							at = append(at, n.Pos())
						}
						continue
					}
					declare(to) // a reset
				}
			default:
				if variable(n.Lhs[0]) != "" {
					at = append(at, n.Pos())
				}
			}
		}
		return true
	})
	return at
}

// appendsTo reports whether e is append(to, …).
func appendsTo(e, to ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	f, ok := call.Fun.(*ast.Ident)
	if !ok || f.Name != "append" {
		return false
	}
	first, ok1 := call.Args[0].(*ast.Ident)
	target, ok2 := to.(*ast.Ident)
	return ok1 && ok2 && first.Name == target.Name
}
