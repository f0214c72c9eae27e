package archtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxCell      = 300
	tablesReason = "a column without a name has to be guessed, and a cell of several sentences is hard to read: use " +
		"a section or a list"
)

// TestTables checks the tables of every document: each column has a name, and no cell is too long.
func TestTables(t *testing.T) {
	t.Parallel()
	var violations []string
	for name, content := range tracked(t) {
		if path.Ext(name) == ".md" {
			violations = append(violations, checkTables(name, string(content))...)
		}
	}
	report(t, tablesReason, violations)
}

var (
	tableRow  = regexp.MustCompile(`^\s*\|`)
	tableRule = regexp.MustCompile(`^\s*\|[\s:|-]*-[\s:|-]*$`)
	pipe      = strings.NewReplacer(`\|`, "¦")
)

// checkTables returns a line for each column without a name and each long cell.
func checkTables(name, text string) (violations []string) {
	lines := strings.Split(text, "\n")
	inBlock := false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
		}
		if inBlock || !tableRow.MatchString(line) {
			continue
		}
		isHeader := i+1 < len(lines) && tableRule.MatchString(lines[i+1])
		row := strings.TrimSpace(pipe.Replace(line))
		for _, cell := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), "|") {
			cell = strings.TrimSpace(cell)
			switch n := utf8.RuneCountInString(cell); {
			case isHeader && n == 0:
				violations = append(violations, fmt.Sprintf("%s:%d: a column has no name: %s", name, i+1, row))
			case n > maxCell:
				violations = append(violations,
					fmt.Sprintf("%s:%d: a cell has %d characters, at most %d: %s", name, i+1, n, maxCell, cell))
			}
		}
	}
	return violations
}

func TestTablesChecker(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", maxCell)
	for text, want := range map[string][]string{
		"| A | B |\n|---|---|\n| a | |\n":                    nil,
		"| A | |\n|---|---|\n| a | b |\n":                    {"a.md:1 name"},
		"x\n\n  | | B |\n  |:--|--:|\n  | a | b |\n":         {"a.md:3 name"},
		"| A |\n|---|\n| " + long + " |\n":                   nil,
		"| A |\n|---|\n| a |\n| " + long + "x |\n":           {"a.md:4 301"},
		"| A | B |\n|---|---|\n| `x\\|y` | " + long + " |\n": nil,
		"```\n| | |\n|---|---|\n```\n":                       nil,
	} {
		expect(t, checkTables("a.md", text), want...)
	}
}
