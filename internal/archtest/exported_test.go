package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const exportedReason = "a name that only tests use is dead code; delete it, unexport it, or move it to export_test.go"

// elsewhere are names that only programs outside the product use.
var elsewhere = map[string]string{
	"broker.Broker.AdminURL": "bench compares with a database of the same server",
	"template.Clean":         "bench compares it with a library",
}

// TestExportedNames checks that every exported name of the product is used by the
// product: in another package, or at least outside of tests in its own.
func TestExportedNames(t *testing.T) {
	t.Parallel()
	c := newUses(exportData(t))
	var product []pkg
	for _, p := range packages(t) {
		if p.forTests() || !(set{"internal/...", "cmd/..."}).has(p.path()) {
			continue
		}
		if err := c.add(p.ImportPath, p.Dir, p.GoFiles); err != nil {
			t.Error(err)
		}
		if strings.HasPrefix(p.path(), "internal/") {
			product = append(product, p)
		}
	}
	report(t, exportedReason, c.unused(product))
}

// exportData returns the files with the compiler's export data of the packages
// that match patterns, or of all packages, and of those they import.
func exportData(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	files := map[string]string{}
	args := append([]string{"list", "-e", "-export", "-trimpath", "-deps", "-json=ImportPath,Export"}, patterns...)
	for d := json.NewDecoder(bytes.NewReader(command(t, "go", args...))); ; {
		var p struct{ ImportPath, Export string }
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
}

// uses collects which names packages declare and use. Names are kept as text,
// because a package that was read from source and the same one as another
// imports it are different to the type checker.
type uses struct {
	files    *token.FileSet
	importer types.Importer
	declared map[string]token.Position // by key, exported only
	used     map[string]bool           // by key
	// methods are the names of interface methods, which may be called through
	// the interface.
	methods map[string]bool
	seen    map[*types.Package]bool
}

func newUses(export map[string]string) *uses {
	files := token.NewFileSet()
	// Methods of unnamed interfaces in packages errors and net/http.
	unnamed := map[string]bool{"Error": true, "Is": true, "As": true, "Unwrap": true, "FlushError": true}
	return &uses{
		files: files, methods: unnamed, importer: compiled(files, export),
		declared: map[string]token.Position{}, used: map[string]bool{}, seen: map[*types.Package]bool{},
	}
}

// compiled imports packages from the compiler's export data.
func compiled(files *token.FileSet, export map[string]string) types.Importer {
	return importer.ForCompiler(files, runtime.Compiler,
		func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
}

// checkTypes parses and type-checks a package.
func checkTypes(files *token.FileSet, from types.Importer, importPath, dir string,
	names []string) ([]*ast.File, *types.Package, *types.Info, error) {
	var parsed []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, nil, err
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Types: map[ast.Expr]types.TypeAndValue{}}
	checked, err := (&types.Config{Importer: from}).Check(importPath, files, parsed, info)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", importPath, err)
	}
	return parsed, checked, info, nil
}

// add collects the names that a package declares and uses.
func (u *uses) add(importPath, dir string, names []string) error {
	parsed, checked, info, err := checkTypes(u.files, u.importer, importPath, dir, names)
	if err != nil {
		return err
	}
	for id, object := range info.Defs {
		if k := key(object); k != "" && object.Exported() {
			u.declared[k] = u.files.Position(id.Pos())
		}
	}
	for id, object := range info.Uses {
		if k := key(object); k != "" && !isReceiver(parsed, id) {
			u.used[k] = true
		}
	}
	for _, tv := range info.Types {
		u.interfaceMethods(tv.Type)
	}
	u.scan(checked)
	return nil
}

// scan collects the interface methods of a package and of those it imports.
func (u *uses) scan(p *types.Package) {
	if u.seen[p] {
		return
	}
	u.seen[p] = true
	for _, name := range p.Scope().Names() {
		u.interfaceMethods(p.Scope().Lookup(name).Type())
	}
	for _, imported := range p.Imports() {
		u.scan(imported)
	}
}

func (u *uses) interfaceMethods(t types.Type) {
	if t == nil {
		return
	}
	if i, ok := t.Underlying().(*types.Interface); ok {
		for m := range i.Methods() {
			u.methods[m.Name()] = true
		}
	}
}

// key returns the key of a function, type, variable, constant or method of a
// package. Fields, local names and packages have none.
func key(object types.Object) string {
	if object == nil || object.Pkg() == nil {
		return ""
	}
	if f, ok := object.(*types.Func); ok {
		f = f.Origin()
		if receiver := f.Signature().Recv(); receiver != nil {
			t := receiver.Type()
			if p, ok := t.(*types.Pointer); ok {
				t = p.Elem()
			}
			named, ok := t.(*types.Named)
			if !ok {
				return "" // of an interface
			}
			if _, ok := named.Underlying().(*types.Interface); ok {
				return ""
			}
			return object.Pkg().Path() + "." + named.Obj().Name() + "." + f.Name()
		}
	}
	if object.Parent() != object.Pkg().Scope() {
		return ""
	}
	return object.Pkg().Path() + "." + object.Name()
}

// isReceiver reports whether an identifier is the type of a method's receiver,
// which does not count as a use.
func isReceiver(files []*ast.File, id *ast.Ident) bool {
	for _, f := range files {
		if id.Pos() < f.FileStart || id.Pos() >= f.FileEnd {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && id.Pos() >= fn.Recv.Pos() && id.Pos() < fn.Recv.End() {
				return true
			}
		}
	}
	return false
}

// unused returns a line for each exported name of some packages that is not used.
func (u *uses) unused(of []pkg) []string {
	var violations []string
	for _, k := range slices.Sorted(maps.Keys(u.declared)) {
		in := slices.ContainsFunc(of, func(p pkg) bool {
			rest, ok := strings.CutPrefix(k, p.ImportPath+".")
			return ok && !strings.Contains(rest, "/")
		})
		if !in || u.used[k] {
			continue
		}
		parts := strings.Split(k[strings.LastIndex(k, "/")+1:], ".")
		if len(parts) == 3 && u.methods[parts[2]] || elsewhere[strings.Join(parts, ".")] != "" {
			continue
		}
		at := u.declared[k]
		folder := path.Join(inModule(path.Dir(k)), parts[0])
		violations = append(violations, fmt.Sprintf("%s/%s:%d: only tests use %s", folder, filepath.Base(at.Filename),
			at.Line, strings.Join(parts, ".")))
	}
	return violations
}

func TestExportedNamesChecker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const source = `package a

import "io"

type Used struct{}

func New() *Used { return &Used{} }

func (u *Used) Read([]byte) (int, error) { return 0, nil } // implements io.Reader
func (u *Used) Lonely()                  { Alone() }
func (u *Used) Alone()                   {}

type Own interface{ Wanted() }

func (u *Used) Wanted() {}

type Unused struct{}

func (u *Unused) method() {}

func Alone() {}

const Constant = 1

func Forgotten(r io.Reader) Own { New().Alone(); return New() }

var Generic = Map[int]{}

type Map[T any] map[string]T

func (m Map[T]) Get() T { return m[""] }

var _ = Generic.Get()
`
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUses(exportData(t))
	if err := u.add("ingot/internal/a", dir, []string{"a.go"}); err != nil {
		t.Fatal(err)
	}
	expect(t, u.unused([]pkg{{ImportPath: "ingot/internal/a"}}), "internal/a/a.go:23 a.Constant", "a.go:25 a.Forgotten",
		"a.go:17 a.Unused", "a.go:10 a.Used.Lonely")
}
