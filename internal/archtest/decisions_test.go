package archtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	decisionsDir    = "docs/decisions"
	decisionsBegin  = "<!-- decisions: go test ./internal/archtest -update writes this table -->\n"
	decisionsEnd    = "<!-- end of decisions -->\n"
	decisionsReason = "readers find decisions by their titles and must see which still hold; go test " +
		"./internal/archtest -update rewrites the list"
)

// TestDecisions compares the list of decisions with the pages, each of which has a number, a
// title and a status.
func TestDecisions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root(t), filepath.FromSlash(decisionsDir))
	pages, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d decisions found (%v)", len(pages), err)
	}
	var violations []string
	list := "\n| Number | Decision | Status |\n|---|---|---|\n"
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		row, err := decisionRow(filepath.Base(page), string(text))
		if err != nil {
			violations = append(violations, fmt.Sprintf("%s/%s: %v", decisionsDir, filepath.Base(page), err))
			continue
		}
		list += row
	}
	report(t, decisionsReason, violations)
	checkTable(t, decisionsDir+"/README.md", decisionsBegin, list+"\n"+decisionsEnd, decisionsReason)
}

// The first lines of a page: a heading, an empty line, and the status. What follows it in
// the same line is not in the list.
var decisionHead = regexp.MustCompile(
	`^# (\d+)\. ([^\n]+)\n\n((?:Proposed|Accepted|Replaced by \d{4}), \d{4}-\d\d-\d\d)\.[ \n]`)

// decisionRow returns the row of a page in the list.
func decisionRow(name, text string) (string, error) {
	m := decisionHead.FindStringSubmatch(text)
	if m == nil {
		return "",
			errors.New(`it does not begin with "# N. Title", an empty line and a status such as "Accepted, 2026-11-15."`)
	}
	if n, err := strconv.Atoi(m[1]); err != nil || !strings.HasPrefix(name, fmt.Sprintf("%04d-", n)) {
		return "", fmt.Errorf("its heading has the number %s", m[1])
	}
	return fmt.Sprintf("| %s | [%s](%s) | %s |\n", m[1], m[2], name, m[3]), nil
}

func TestDecisionRow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# 7. Seven\n\nAccepted, 2026-11-15.\n": "| 7 | [Seven](0007-seven.md) | Accepted, 2026-11-15 |\n",
		"# 7. Seven\n\nReplaced by 0008, 2026-11-16. A mistake.\n": "| 7 | [Seven](0007-seven.md) | Replaced by 0008, " +
			"2026-11-16 |\n",
		"# 8. Seven\n\nAccepted, 2026-11-15.\n":    "",
		"# 0007: Seven\n\nAccepted, 2026-11-15.\n": "",
		"# 7. Seven\n\nStatus: accepted\n":         "",
		"# 7. Seven\n\n## Why\n":                   "",
	} {
		if got, err := decisionRow("0007-seven.md", text); got != want || (err == nil) != (want != "") {
			t.Errorf("the row of %q is %q (%v), want %q", text, got, err, want)
		}
	}
}
