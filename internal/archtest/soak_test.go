package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const soakReason = "'make soak' runs the tests whose name contains Soak: the long form of another one is never run"

// TestSoakNames checks the names of tests that have a long form.
func TestSoakNames(t *testing.T) {
	t.Parallel()
	dir := root(t)
	var violations []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "soak_test.go" &&
			filepath.Base(filepath.Dir(path)) == "archtest":
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		found, err := checkSoak(name, source)
		violations = append(violations, found...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	report(t, soakReason, violations)
}

// checkSoak returns a line for each test of a file that reads INGOT_SOAK and is not named
// after it.
func checkSoak(name string, source []byte) (violations []string, err error) {
	variable := []byte(`"INGOT_SOAK"`)
	if !bytes.Contains(source, variable) {
		return nil, nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(fn.Name.Name, "Test") || strings.Contains(fn.Name.Name, "Soak") {
			continue
		}
		if bytes.Contains(source[files.Position(fn.Pos()).Offset:files.Position(fn.End()).Offset], variable) {
			violations = append(violations, fmt.Sprintf("%s: %s reads INGOT_SOAK", files.Position(fn.Pos()), fn.Name.Name))
		}
	}
	return violations, nil
}

func TestSoakNamesChecker(t *testing.T) {
	t.Parallel()
	source := `package a
func times() string { return os.Getenv("INGOT_SOAK") }
func TestSoakA(t *testing.T) { os.Getenv("INGOT_SOAK") }
func TestB(t *testing.T) { os.Getenv("INGOT_SOAK") }
func TestC(t *testing.T) {}
`
	got, err := checkSoak("a_test.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, got, "a_test.go:4 TestB")
}
