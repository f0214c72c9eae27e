package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const promisesReason = "a promise that no test holds is broken some day; name the test, or list it under Not promised"

// promised are the parts that the page has to have a table for.
var promised = []string{
	"The faults", "API and database", "Apps and instances", "Builds", "Tasks", "Logs", "Log drains", "Blobs", "Routes",
	"TCP routes", "ssh", "Services and the bundled broker",
	"Notifications", "Authorization server", "Alerts", "Docker images", "TLS and certificates", "Backup and restore",
	"Upgrades", "The server itself",
}

// faults are those that the first table has to have a row for.
var faults = []string{"kill -9", "disk full", "read-only disk", "clock ±1 h", "no file descriptors",
	"PostgreSQL restarted"}

// TestPromises checks docs/promises.md: every row of its tables names tests, and they exist.
func TestPromises(t *testing.T) {
	t.Parallel()
	dir := root(t)
	text, err := os.ReadFile(filepath.Join(dir, "docs", "promises.md"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, promisesReason, checkPromises(string(text), func(pkg, test string) bool { return hasTest(dir, pkg, test) }))
}

var (
	namedTest = regexp.MustCompile("`([a-z0-9/-]+)\\.(Test[A-Za-z0-9_]+)`")
	separator = regexp.MustCompile(`^\|[-| ]+\|$`)
)

// checkPromises returns a line for each row without tests and each test that does not exist.
func checkPromises(text string, exists func(pkg, test string) bool) (violations []string) {
	part, header := "", true
	rows := map[string]int{}
	var first []string // faults of the first table
	for i, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("docs/promises.md:%d: ", i+1)
		switch {
		case strings.HasPrefix(line, "## "):
			part, header = strings.TrimPrefix(line, "## "), true
		case separator.MatchString(line):
			header = false
		case !strings.HasPrefix(line, "|") || header:
		default:
			rows[part]++
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			if len(cells) != 3 {
				violations = append(violations, fmt.Sprintf("%sthe row has %d cells, want a fault, a promise and tests", at,
					len(cells)))
				continue
			}
			if part == promised[0] {
				first = append(first, strings.TrimSpace(cells[0]))
			}
			tests := namedTest.FindAllStringSubmatch(cells[2], -1)
			if len(tests) == 0 {
				violations = append(violations, at+"the row names no test")
			}
			for _, m := range tests {
				if !exists(m[1], m[2]) {
					violations = append(violations, fmt.Sprintf("%sthere is no test %s in %s", at, m[2], m[1]))
				}
			}
		}
	}
	for _, p := range promised {
		if rows[p] == 0 {
			violations = append(violations, fmt.Sprintf("docs/promises.md: no row about %q", p))
		}
	}
	for _, f := range faults {
		if !slices.ContainsFunc(first, func(row string) bool { return strings.HasPrefix(row, f) }) {
			violations = append(violations, fmt.Sprintf("docs/promises.md: no row about the fault %q", f))
		}
	}
	return violations
}

// hasTest reports whether the package in a folder, below internal unless it is a module or a
// program of its own, has a test.
func hasTest(dir, pkg, test string) bool {
	folder := filepath.Join(dir, "internal", pkg)
	if pkg == "e2e" || strings.HasPrefix(pkg, "cmd/") {
		folder = filepath.Join(dir, pkg)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	return err == nil && slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains("\n"+string(text), "\nfunc "+test+"(t *testing.T)")
	})
}

// The check finds what it is for.
func TestPromisesCheck(t *testing.T) {
	t.Parallel()
	table := "## Logs\n\n| Fault | Promise | Tests |\n|---|---|---|\n"
	for name, c := range map[string]struct{ row, want string }{
		"good":            {"| kill | nothing is lost | `platform/logs.TestGood`, `e2e.TestGood` |", ""},
		"no test":         {"| kill | nothing is lost | some |", "names no test"},
		"unknown":         {"| kill | nothing is lost | `platform/logs.TestGood`, `e2e.TestBad` |", "no test TestBad in e2e"},
		"too few columns": {"| kill | `e2e.TestGood` |", "2 cells"},
	} {
		var got []string
		for _, v := range checkPromises(table+c.row+"\n", func(_, test string) bool { return test == "TestGood" }) {
			if !strings.Contains(v, "no row about") {
				got = append(got, v)
			}
		}
		if (c.want == "") != (len(got) == 0) || c.want != "" && !strings.Contains(got[0], c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if hasTest(root(t), "archtest", "TestNothing") || !hasTest(root(t), "archtest", "TestPromises") {
		t.Error("hasTest is wrong about this package")
	}
}
