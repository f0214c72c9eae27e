package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const namesReason = "a document that names a file, a folder or an identifier of the source misleads its readers when " +
	"the thing is gone"

// TestNamesInDocuments checks the names in code spans of every document: files and folders of
// this tree, identifiers of its packages, and tests exist.
func TestNamesInDocuments(t *testing.T) {
	t.Parallel()
	dir := root(t)
	known, documents, err := readNames(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(documents) < 10 || len(known.identifiers) < 50 {
		t.Errorf("only %d documents and %d packages were found", len(documents), len(known.identifiers))
	}
	var violations []string
	for name, text := range documents {
		// The history names what was there then.
		if name != "CHANGELOG.md" {
			violations = append(violations, known.check(name, text)...)
		}
	}
	slices.Sort(violations)
	report(t, namesReason, violations)
}

// names are those of this tree.
type names struct {
	paths       map[string]bool            // of files and folders
	files       map[string]bool            // names of files without their folders
	identifiers map[string]map[string]bool // exported ones, with those of fields and methods, by package name
	tests       map[string]bool
	imported    map[string]bool // names of other packages
}

func readNames(dir string) (names, map[string]string, error) {
	n := names{map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}}
	documents := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".tools", "node_modules", "vendor", "bin", "dist"},
			entry.Name()) {
			return filepath.SkipDir
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		n.paths[filepath.ToSlash(name)], n.files[entry.Name()] = true, true
		ext := filepath.Ext(file)
		if !entry.Type().IsRegular() || ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if ext == ".md" {
			documents[filepath.ToSlash(name)] = string(text)
		} else {
			n.declare(string(text))
		}
		return nil
	})
	return n, documents, err
}

var (
	packageClause = regexp.MustCompile(`(?m)^package (\w+)`)
	declaration   = regexp.MustCompile(`(?m)^(?:func (?:\([^)]+\) )?|type |var |const |\t)([A-Z]\w*)`)
	fieldList     = regexp.MustCompile(`(?m)^\t([A-Z]\w*(?:, [A-Z]\w*)+) `)
	importedPath  = regexp.MustCompile(`(?m)^\t(?:(\w+) )?"(?:[\w.-]+/)*?([\w-]+)(?:/v\d+|\.v\d+)?"$`)
	testFunction  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
)

// declare notes the names that a source file declares.
func (n names) declare(source string) {
	m := packageClause.FindStringSubmatch(source)
	if m == nil {
		return
	}
	in := n.identifiers[m[1]]
	if in == nil {
		in = map[string]bool{}
		n.identifiers[m[1]] = in
	}
	for _, d := range declaration.FindAllStringSubmatch(source, -1) {
		in[d[1]] = true
	}
	for _, d := range fieldList.FindAllStringSubmatch(source, -1) {
		for _, field := range strings.Split(d[1], ", ") {
			in[field] = true
		}
	}
	for _, d := range importedPath.FindAllStringSubmatch(source, -1) {
		n.imported[d[1]], n.imported[d[2]] = true, true
	}
	for _, d := range testFunction.FindAllStringSubmatch(source, -1) {
		n.tests[d[1]] = true
	}
}

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	codeBlock  = regexp.MustCompile("(?s)```.*?```")
	sourcePath = regexp.MustCompile(
		`^(?:internal|cmd|e2e|scripts|packaging|bench|stack|cluster|release|tools)/[\w./-]+$`)
	sourceFile   = regexp.MustCompile(`^(?:[\w-]+/)*[\w-]+\.go$`)
	qualified    = regexp.MustCompile(`^([a-z]\w+)\.([A-Z]\w*[a-z]\w*)`)
	nameOfATest  = regexp.MustCompile(`^(?:[\w/-]+\.)?((?:Test|Fuzz)[A-Z]\w*)$`)
	builtOrLater = regexp.MustCompile(`^bench/results`)
)

// check returns a line for each name of a document that this tree does not have.
func (n names) check(document, text string) (violations []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		span := m[1]
		missing := func(what string) {
			violations = append(violations, fmt.Sprintf("%s: there is no %s %s", document, what, span))
		}
		if t := nameOfATest.FindStringSubmatch(span); t != nil {
			if !n.tests[t[1]] {
				missing("test")
			}
			continue
		}
		switch {
		case sourceFile.MatchString(span) && !strings.Contains(span, "/"):
			if !n.files[span] {
				missing("file")
			}
		case sourceFile.MatchString(span), sourcePath.MatchString(span):
			if !n.hasPath(strings.TrimSuffix(span, "/")) && !builtOrLater.MatchString(span) {
				missing("file or folder")
			}
		default:
			q := qualified.FindStringSubmatch(span)
			if q == nil {
				continue
			}
			in, ours := n.identifiers[q[1]]
			if ours && !in[q[2]] {
				missing("identifier")
			} else if !ours && !n.imported[q[1]] {
				missing("package of")
			}
		}
	}
	return violations
}

// hasPath reports whether a path is one of this tree, or the end of one: documents leave out what
// their readers know.
func (n names) hasPath(name string) bool {
	if n.paths[name] {
		return true
	}
	if !n.files[path.Base(name)] {
		return false
	}
	for known := range n.paths {
		if strings.HasSuffix(known, "/"+name) {
			return true
		}
	}
	return false
}

// The check finds what it is for.
func TestNamesCheck(t *testing.T) {
	t.Parallel()
	n := names{
		paths: map[string]bool{"internal/a/b.go": true, "internal/a": true}, files: map[string]bool{"b.go": true, "a": true},
		identifiers: map[string]map[string]bool{}, tests: map[string]bool{}, imported: map[string]bool{},
	}
	n.declare("package store\n\nimport (\n\t\"net/http\"\n)\n\ntype Store struct {\n\tFirst, Second int\n}\n\nfunc (s " +
		"*Store) View() {}\nfunc TestView(t *testing.T) {}\n")
	for text, want := range map[string]int{
		"`b.go`": 0, "`c.go`": 1, "`a/b.go`": 0, "`a/c.go`": 1, "`internal/a`": 0, "`internal/c`": 1,
		"`store.Store`": 0, "`store.View`": 0, "`store.Second`": 0, "`store.Gone`": 1, "`http.Server`": 0, "`gone.Server`": 1,
		"`api.DOMAIN`": 0,
		"`TestView`":   0, "`a.TestView`": 0, "`TestGone`": 1, "`cf push`": 0, "```\n`c.go`\n```": 0, "c.go": 0,
	} {
		if got := n.check("doc.md", text); len(got) != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}
