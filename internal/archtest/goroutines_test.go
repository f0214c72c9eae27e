package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"testing"
)

const (
	goroutinesReason = "a panic in a goroutine crashes the whole process, with API, router and authorization server. " +
		"internal/base/background recovers it, so that only one job fails, and counts it"

	deferredReason = "a return statement with an error sets every named result before deferred functions run, so they " +
		"read the zero value. Use a separate variable"
)

// supervised are the packages that are linked into the server.
var supervised = set{"internal/...", "cmd/ingot/..."}

// unsupervised packages may start goroutines directly, each for its reason.
var unsupervised = set{
	"internal/base/background/...", // it is the supervision
	"internal/cli/...",             // the client: a panic ends one command, and the user should see it
	// (ingot-init, ingot-builder, ingot-static and ingot-sftp are processes inside one
	// instance: a panic there ends that instance, and is reported as its crash.)
}

// startsGoroutines are functions that call another one in a new goroutine, by
// import path and name.
var startsGoroutines = map[string][]string{
	"time":    {"AfterFunc"},
	"context": {"AfterFunc"},
}

// startersOnly are packages that do nothing else; singleflight even repeats the
// panic of a call in a goroutine where it cannot be recovered.
var startersOnly = []string{"golang.org/x/sync/errgroup", "golang.org/x/sync/singleflight"}

// TestGoroutines checks that the server starts goroutines only through
// internal/base/background.
func TestGoroutines(t *testing.T) {
	t.Parallel()
	checkSources(t, goroutinesReason, checkGoroutines)
}

// TestDeferredResults checks that no deferred function reads a named result.
func TestDeferredResults(t *testing.T) {
	t.Parallel()
	checkSources(t, deferredReason, checkDeferred)
}

func checkSources(t *testing.T, reason string, check func(name string, source []byte) ([]string, error)) {
	t.Helper()
	var violations []string
	for _, p := range packages(t) {
		if !supervised.has(p.path()) || unsupervised.has(p.path()) || p.forTests() {
			continue
		}
		for _, name := range p.sources() {
			found, err := check(path.Join(p.path(), name), read(t, p.Dir, name))
			if err != nil {
				t.Error(err)
			}
			violations = append(violations, found...)
		}
	}
	report(t, reason, violations)
}

// checkGoroutines finds goroutines that are not started by
// internal/base/background, whose functions take a name as the first argument.
func checkGoroutines(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var violations []string
	add := func(n ast.Node, format string, args ...any) {
		violations = append(violations, fmt.Sprintf("%s: %s", files.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	imported := map[string]string{} // import path by the name in this file
	for _, spec := range f.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		switch {
		case slices.Contains(startersOnly, importPath):
			add(spec, "imports %s: use background.WaitGroup", importPath)
		case startsGoroutines[importPath] == nil:
		case spec.Name == nil:
			imported[path.Base(importPath)] = importPath
		case spec.Name.Name == ".":
			add(spec, "imports %s with a dot", importPath)
		default:
			imported[spec.Name.Name] = importPath
		}
	}
	named := map[*ast.SelectorExpr]bool{} // Go with a name before the function
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "a bare go statement: use background.Go, or the spawn function of background.Part")
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 2 {
				named[s] = true
			}
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			switch {
			case x != nil && slices.Contains(startsGoroutines[imported[x.Name]], n.Sel.Name):
				add(n, "%s.%s: use background.AfterFunc or background.OnDone", x.Name, n.Sel.Name)
			case (n.Sel.Name == "Go" || n.Sel.Name == "TryGo") && !named[n]:
				add(n, "%s of a group that does not recover: use background.WaitGroup", n.Sel.Name)
			}
		}
		return true
	})
	return violations, nil
}

// checkDeferred finds deferred functions that read a named result other than err.
// Assigning to one is allowed.
func checkDeferred(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var violations []string
	ast.Inspect(f, func(n ast.Node) bool {
		var signature *ast.FuncType
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			signature, body = n.Type, n.Body
		case *ast.FuncLit:
			signature, body = n.Type, n.Body
		}
		results := namedResults(signature)
		if body == nil || len(results) == 0 {
			return true
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if _, inner := n.(*ast.FuncLit); inner {
				return false
			}
			d, ok := n.(*ast.DeferStmt)
			if !ok {
				return true
			}
			for _, id := range used(d.Call, results) {
				violations = append(violations, fmt.Sprintf("%s: a deferred function uses the named result %s",
					files.Position(id.Pos()), id.Name))
			}
			return false
		})
		return true
	})
	return violations, nil
}

func namedResults(signature *ast.FuncType) []string {
	if signature == nil || signature.Results == nil {
		return nil
	}
	var names []string
	for _, r := range signature.Results.List {
		for _, id := range r.Names {
			if id.Name != "_" && id.Name != "err" {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

// used returns where names are used other than by assigning to them.
func used(in ast.Node, names []string) []*ast.Ident {
	set := map[*ast.Ident]bool{}
	var found []*ast.Ident
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && (n.Tok == token.ASSIGN || n.Tok == token.DEFINE) {
					set[id] = true
				}
			}
		case *ast.SelectorExpr:
			set[n.Sel] = true // a field or method of the same name
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				set[id] = true
			}
		case *ast.Ident:
			if slices.Contains(names, n.Name) && !set[n] {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

func TestGoroutinesChecker(t *testing.T) {
	t.Parallel()
	got, err := checkGoroutines("a.go", []byte(`package a

import (
	"context"
	"sync"
	clock "time"

	"golang.org/x/sync/errgroup"
	"ingot/internal/base/background"
)

func f(ctx context.Context, g *errgroup.Group, other interface{ AfterFunc(func()) }) {
	go f(ctx, nil, nil)
	go func() {}()
	var wg sync.WaitGroup
	wg.Go(func() {})
	each := wg.Go
	each(func() {})
	g.TryGo(func() error { return nil })
	clock.AfterFunc(0, func() {})
	context.AfterFunc(ctx, func() {})

	background.Go("x", func() {})
	var ours background.WaitGroup
	ours.Go("x", func() {})
	ours.Loop(ctx, "x", func() {})
	run.AfterFunc("x", 0, func() {})
	other.AfterFunc(func() {})
}
`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "a.go:8 errgroup", "a.go:13 bare", "a.go:14 bare", "a.go:16 Go", "a.go:17 Go", "a.go:19 TryGo",
		"a.go:20 clock.AfterFunc", "a.go:21 context.AfterFunc")
}

func TestDeferredResultsChecker(t *testing.T) {
	t.Parallel()
	got, err := checkDeferred("a.go", []byte(`package a

func get() (release func(), err error) {
	release = func() {}
	defer func() {
		if err != nil {
			release()
		}
	}()
	return nil, nil
}

func direct() (unlock func()) {
	defer unlock()
	return nil
}

func literal() any {
	return func() (n int, err error) {
		defer func() { print(n) }()
		return 0, nil
	}
}

func fine(x struct{ n int }) (n int, err error) {
	defer func() {
		if recover() != nil {
			n, err = 0, nil
		}
		print(x.n)
	}()
	release := func() {}
	defer release()
	return 0, nil
}
`))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "a.go:7 release", "a.go:14 unlock", "a.go:20 n")
}
