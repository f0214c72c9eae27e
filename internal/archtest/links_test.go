package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const linksReason = "readers follow the links between the documents, and moving a document breaks them"

// TestLinks follows every relative link of every document: its file exists, and
// so does its heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir := root(t)
	var violations []string
	documents := 0
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (slices.Contains([]string{".git", ".tools", "node_modules", "vendor", "bin", "dist"},
			entry.Name())) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" || !entry.Type().IsRegular() {
			return nil
		}
		documents++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		violations = append(violations, checkLinks(name, string(content), func(file string) (string, error) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				_, err = os.Stat(filepath.Join(dir, file)) // a folder is allowed
			}
			return string(text), err
		})...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if documents < 10 {
		t.Errorf("only %d documents were found", documents)
	}
	report(t, linksReason, violations)
}

var (
	// A link or a picture of Markdown, and the attributes of HTML.
	link = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)|(?:src|href)="([^"]+)"`)
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// checkLinks returns a line for each broken link of a document.
func checkLinks(name, text string, read func(file string) (string, error)) []string {
	var violations []string
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		target := m[1] + m[2]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, heading, _ := strings.Cut(target, "#")
		other := text
		if file != "" {
			path := filepath.Join(filepath.Dir(name), file)
			var err error
			if other, err = read(path); err != nil {
				violations = append(violations, fmt.Sprintf("%s: the target of the link %s does not exist", name, target))
				continue
			}
		}
		if heading != "" && !slices.Contains(headings(other), heading) {
			violations = append(violations, fmt.Sprintf("%s: the heading of the link %s does not exist", name, target))
		}
	}
	return violations
}

// headings returns the anchors of a document's headings: lower case, without
// punctuation, dashes for spaces.
func headings(text string) []string {
	var all []string
	for line := range strings.SplitSeq(code.ReplaceAllStringFunc(text,
		func(c string) string { return strings.Trim(c, "`") }), "\n") {
		title := strings.TrimLeft(line, "#")
		if title == line {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return all
}

func TestCheckLinks(t *testing.T) {
	t.Parallel()
	read := func(file string) (string, error) {
		if file == filepath.Join("docs", "b.md") {
			return "# The `b` file, again\n", nil
		}
		return "", os.ErrNotExist
	}
	for text, want := range map[string]int{
		"[x](b.md)": 0, "[x](b.md#the-b-file-again)": 0, "[x](b.md#nothing)": 1, "[x](c.md)": 1,
		"[x](https://example.com/c.md)": 0, "`[x](c.md)`": 0,
		"```\n[x](c.md)\n```": 0, "![x](c.png)": 1, `<img src="c.png">`: 1, "# Here\n[x](#here)": 0, "[x](#there)": 1,
		`[x](b.md "title")`: 0,
	} {
		if got := checkLinks(filepath.Join("docs", "a.md"), text, read); len(got) != want {
			t.Errorf("bad links of %s are %v, want %d", text, got, want)
		}
	}
}
