package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the path of this module.
const module = "ingot"

// pkg describes a package, as listed by the go tool.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string

	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string // for another system; the same rules apply
	TestGoFiles    []string
	XTestGoFiles   []string

	Imports      []string
	TestImports  []string
	XTestImports []string
}

// path is the package's path inside the module: "internal/platform", "." for its root.
func (p pkg) path() string { return inModule(p.ImportPath) }

// sources are the names of the files that are not tests.
func (p pkg) sources() []string {
	var all []string
	all = append(all, p.GoFiles...)
	all = append(all, p.CgoFiles...)
	for _, f := range p.IgnoredGoFiles {
		if !strings.HasSuffix(f, "_test.go") {
			all = append(all, f)
		}
	}
	return all
}

// forTests reports whether a package is only for tests: enginetest, dbtest and
// the packages below them.
func (p pkg) forTests() bool {
	for _, element := range strings.Split(p.path(), "/") {
		if strings.HasSuffix(element, "test") || element == "testkit" {
			return true
		}
	}
	return false
}

// inModule shortens an import path to its path inside the module. Paths of other
// modules and of the standard library stay as they are.
func inModule(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// root returns the folder that contains go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("the module's root was not found: %v", err)
	}
	return dir
}

// command runs a program in the module's root and returns its output.
func command(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root(t)
	// As the product is built, so that the go tool finds it compiled.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return out
}

var listing struct {
	sync.Mutex
	packages []pkg
}

// packages lists every package of the product's module and of those beside it,
// whose paths are below its own: samples, e2e, bench, cluster, vm, stack, release.
func packages(t *testing.T) []pkg {
	t.Helper()
	listing.Lock()
	defer listing.Unlock()
	if listing.packages != nil {
		return listing.packages
	}
	beside, err := filepath.Glob(filepath.Join(root(t), "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for _, file := range append([]string{filepath.Join(root(t), "go.mod")}, beside...) {
		found := packagesIn(t, filepath.Dir(file))
		if len(found) == 0 {
			t.Fatalf("the go tool lists no packages in %s", filepath.Dir(file))
		}
		all = append(all, found...)
	}
	listing.packages = all
	return all
}

// packagesIn lists every package of the module in a folder.
func packagesIn(t *testing.T, dir string) []pkg {
	t.Helper()
	var all []pkg
	// -e: errors in packages are for the compiler to report.
	for d := json.NewDecoder(bytes.NewReader(command(t, "go", "-C", dir, "list", "-e", "-json", "./..."))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestModules checks that the rules apply to the modules beside the product.
func TestModules(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"cmd/ingot", "e2e", "bench", "cluster", "vm", "stack", "release",
		"samples/database-app"} {
		if !slices.ContainsFunc(packages(t), func(p pkg) bool { return p.path() == want }) {
			t.Errorf("packages() does not list %s", want)
		}
	}
}

// report fails the test with one line for each violation, and the rule's reason.
func report(t *testing.T, reason string, violations []string) {
	t.Helper()
	if len(violations) > 0 {
		t.Errorf("%s\n  why: %s", strings.Join(violations, "\n"), reason)
	}
}

// expect compares the violations that a check found in made-up input with those
// wanted, by single words, so that messages may be reworded.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d violations, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		for _, word := range strings.Fields(want[i]) {
			if !strings.Contains(got[i], word) {
				t.Errorf("violation %d is %q, want it to name %q", i, got[i], word)
			}
		}
	}
}
