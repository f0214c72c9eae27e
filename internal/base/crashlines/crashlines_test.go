package crashlines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCause reads what runtimes wrote when apps crashed (testdata, captured from real ones).
func TestCause(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"node-type":      "TypeError: Cannot read properties of undefined (reading 'host')",
		"node-module":    "Error: Cannot find module 'express'",
		"node-rejection": "Error: connect ECONNREFUSED 127.0.0.1:5432",
		"node-syntax":    "SyntaxError: Unexpected token ';'",
		"java-cause":     "Caused by: java.lang.IllegalStateException: no database configured",
		"java-npe":       `Exception in thread "main" java.lang.NullPointerException: Cannot invoke "Object.toString()" because "<local1>" is null`,
		"python-chain":   "KeyError: 'PORT'",
		"python-own":     "Improper: SECRET_KEY must not be empty",
		"python-module":  "ModuleNotFoundError: No module named 'flask_missing'",
		"go-panic":       "panic: assignment to entry in nil map",
		"go-fatal":       "2026/11/17 08:42:28 FATAL: dial tcp 127.0.0.1:5432: connection refused",
		"shell-missing":  "bash: line 1: ./nothing: No such file or directory",
		"plain":          "",
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %v; want %d", len(files), err, len(want))
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
		if _, _, got := Explain(lines); got != want[name] {
			t.Errorf("%s: cause %q, want %q", name, got, want[name])
		}
	}
	for line, found := range map[string]bool{
		"app.rb:3:in 'Object#main': undefined method 'x' for nil (NoMethodError)":         true,
		"PHP Fatal error:  Uncaught Error: Call to undefined function f() in index.php:3": true,
		"    at Error (native)":        false,
		"GET /error 200":               true, // better than nothing
		"listening on 8080":            false,
		"org.foo.BarException: broken": true,
	} {
		if _, _, got := Explain([]string{"hello", line, "bye"}); (got == line) != found {
			t.Errorf("%q is recognised as %q, want %v", line, got, found)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	const pre, start = "Invoking pre-start scripts.", "Invoking start command."
	long := append([]string{pre, start}, strings.Split(strings.Repeat("x\n", 100)+"Exit status 1", "\n")...)
	for _, test := range []struct {
		name       string
		lines      []string
		begin, end int
	}{
		{"nothing", nil, 0, 0},
		{"only starts", []string{pre, start}, 0, 0},
		{"no start is known", []string{"a", "Exit status 1"}, 0, 2},
		{"one life", []string{pre, start, "a", "Exit status 1"}, 2, 4},
		{"the last of two", []string{pre, start, "a", "Exit status 1", pre, start, "b", "Exit status 2"}, 6, 8},
		{"started again", []string{pre, start, "a", "Exit status 1", pre, start}, 2, 4},
		{"started again and writing", []string{pre, start, "a", "Exit status 1", pre, start, "b"}, 2, 4},
		{"still running", []string{pre, start, "a"}, 2, 3},
		{"an error before the start", []string{"a", pre, start, "Exit status 1"}, 0, 4},
		{"an error before the second start", []string{pre, start, "a", "Exit status 1", pre, "b", start, "Exit status 1"}, 5,
			8},
		{"the life before has no end", []string{pre, start, "a", pre, start, "b"}, 5, 6},
		{"long", long, 103 - Most, 103},
	} {
		if begin, end, _ := Explain(test.lines); begin != test.begin || end != test.end {
			t.Errorf("%s: lines %d to %d, want %d to %d", test.name, begin, end, test.begin, test.end)
		}
	}
}
