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

// TestNamesInDocuments checks the names in code spans of every document and in the comments of
// sources, scripts and workflows: files and folders of this tree, identifiers of its packages, tests and make
// targets exist.
func TestNamesInDocuments(t *testing.T) {
	t.Parallel()
	dir := root(t)
	known, texts, err := readNames(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 100 || len(known.identifiers) < 50 || len(known.targets) < 20 {
		t.Errorf("only %d texts, %d packages and %d targets were found",
			len(texts), len(known.identifiers), len(known.targets))
	}
	var violations []string
	for name, text := range texts {
		switch {
		case name == "internal/archtest/names_test.go": // has made-up names
		case path.Ext(name) != ".md":
			violations = append(violations, known.checkComments(name, text)...)
		case name != "CHANGELOG.md": // the history names files of its time
			violations = append(violations, known.check(name, text)...)
		}
	}
	slices.Sort(violations)
	report(t, namesReason, violations)
}

// names are the names that exist in this tree.
type names struct {
	paths       map[string]bool            // of files and folders
	files       map[string]bool            // names of files without their folders
	identifiers map[string]map[string]bool // exported ones, with those of fields and methods, by package name
	tests       map[string]bool
	imported    map[string]bool // names of other packages
	targets     map[string]bool // of the Makefile
}

func newNames() names {
	return names{
		paths: map[string]bool{}, files: map[string]bool{}, identifiers: map[string]map[string]bool{},
		tests: map[string]bool{}, imported: map[string]bool{}, targets: map[string]bool{},
	}
}

// readNames returns the names of the tree in a folder, and the texts that name them.
func readNames(dir string) (names, map[string]string, error) {
	n, texts := newNames(), map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".tools", "node_modules", "vendor", "bin", "dist"},
			entry.Name()) {
			return filepath.SkipDir
		}
		relative, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		n.paths[name], n.files[entry.Name()] = true, true
		if !entry.Type().IsRegular() || !namesThings.MatchString(name) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		texts[name] = string(text)
		switch {
		case path.Ext(name) == ".go":
			n.declare(string(text))
		case name == "Makefile":
			for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
				n.targets[m[1]] = true
			}
		}
		return nil
	})
	return n, texts, err
}

var (
	// Documents, sources, and what builds and tests them.
	namesThings = regexp.MustCompile(`\.(?:md|go)$|^(?:Makefile$|\.ci/|\.github/workflows/|scripts/)`)

	packageClause = regexp.MustCompile(`(?m)^package (\w+)`)
	declaration   = regexp.MustCompile(`(?m)^(?:func (?:\([^)]+\) )?|type |var |const |\t)([A-Z]\w*)`)
	fieldList     = regexp.MustCompile(`(?m)^\t([A-Z]\w*(?:, [A-Z]\w*)+) `)
	importedPath  = regexp.MustCompile(`(?m)^\t(?:(\w+) )?"(?:[\w.-]+/)*?([\w-]+)(?:/v\d+|\.v\d+)?"$`)
	testFunction  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	makeTarget    = regexp.MustCompile(`(?m)^([a-z][\w-]*):`)
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
		`^(?:internal|cmd|e2e|scripts|packaging|bench|stack|cluster|vm|release|tools|docs|samples|\.github)/[\w./-]+$`)
	// A package without the folder internal, as documents name them.
	packagePath = regexp.MustCompile(
		`^(?:platform|auth|notify|broker|console|cli|server|base|system|archtest)(?:/[a-z0-9]+)+$`)
	sourceFile  = regexp.MustCompile(`^(?:[\w-]+/)*[\w-]+\.(?:go|md)$`)
	qualified   = regexp.MustCompile(`^([a-z]\w+)\.([A-Z]\w*[a-z]\w*)`)
	nameOfATest = regexp.MustCompile(`^(?:[\w/-]+\.)?((?:Test|Fuzz)[A-Z]\w*)$`)
	target      = regexp.MustCompile(`^make ([a-z][\w-]*(?: [a-z][\w-]*)*)(?: [A-Z]+=.*)?$`)
	// Written by a build or a run, or a placeholder.
	builtOrLater = regexp.MustCompile(`^(?:bin/|bench/results)|\b(?:NNNN|NAME)\b`)
)

// check returns a line for each name in the code spans of a document that this tree does not have.
func (n names) check(document, text string) (violations []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		what := n.missing(m[1])
		q := qualified.FindStringSubmatch(m[1])
		if what == "" && q != nil && n.identifiers[q[1]] == nil && !n.imported[q[1]] {
			what = "package of"
		}
		if what != "" {
			violations = append(violations, fmt.Sprintf("%s: there is no %s %s", document, what, m[1]))
		}
	}
	return violations
}

// comment is a line of a source, a script or a workflow that is a comment, or ends with one.
var comment = regexp.MustCompile(`(?m)(?:^|\s)(?://|#) (.*)$`)

// checkComments returns a line for each name in comments that this tree does not have.
func (n names) checkComments(name, text string) (violations []string) {
	for _, m := range comment.FindAllStringSubmatch(text, -1) {
		for _, word := range strings.Fields(m[1]) {
			word = strings.TrimSuffix(strings.TrimRight(strings.Trim(word, "`'\"()[]"), "`'\"().,:;"), "'s")
			if what := n.missing(word); what != "" {
				violations = append(violations, fmt.Sprintf("%s: there is no %s %s: %s", name, what, word, m[1]))
			}
		}
	}
	return violations
}

// missing says what kind of name a word is if this tree does not have it, and nothing if it has, or if the
// word is no name.
func (n names) missing(word string) string {
	if t := nameOfATest.FindStringSubmatch(word); t != nil {
		return unless(n.tests[t[1]], "test")
	}
	if t := target.FindStringSubmatch(word); t != nil {
		unknown := func(name string) bool { return !n.targets[name] }
		return unless(!slices.ContainsFunc(strings.Fields(t[1]), unknown), "target")
	}
	switch {
	case sourceFile.MatchString(word) && !strings.Contains(word, "/"):
		return unless(n.files[word] || builtOrLater.MatchString(word), "file")
	case sourceFile.MatchString(word), sourcePath.MatchString(word):
		return unless(n.hasPath(strings.TrimSuffix(word, "/")) || builtOrLater.MatchString(word), "file or folder")
	case packagePath.MatchString(word):
		return unless(n.hasPath("internal/"+word), "package")
	}
	q := qualified.FindStringSubmatch(word)
	if q == nil {
		return ""
	}
	in, ours := n.identifiers[q[1]]
	return unless(!ours || in[q[2]], "identifier")
}

func unless(exists bool, what string) string {
	if exists {
		return ""
	}
	return what
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
	n := newNames()
	n.paths = map[string]bool{"internal/a/b.go": true, "internal/a": true, "internal/base/web": true}
	n.files = map[string]bool{"b.go": true, "a": true, "web": true}
	n.targets = map[string]bool{"up": true, "test": true}
	n.declare("package store\n\nimport (\n\t\"net/http\"\n)\n\ntype Store struct {\n\tFirst, Second int\n}\n\nfunc (s " +
		"*Store) View() {}\nfunc TestView(t *testing.T) {}\n")
	for text, want := range map[string]int{
		"`b.go`": 0, "`c.go`": 1, "`a/b.go`": 0, "`a/c.go`": 1, "`internal/a`": 0, "`internal/c`": 1,
		"`store.Store`": 0, "`store.View`": 0, "`store.Second`": 0, "`store.Gone`": 1, "`http.Server`": 0, "`gone.Server`": 1,
		"`api.DOMAIN`": 0,
		"`TestView`":   0, "`a.TestView`": 0, "`TestGone`": 1, "`cf push`": 0, "```\n`c.go`\n```": 0, "c.go": 0,
		"`c.md`": 1, "`base/web`": 0, "`base/gone`": 1, "`make up test`": 0, "`make gone`": 1, "`make test ARGS=x`": 0,
	} {
		if got := n.check("doc.md", text); len(got) != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int{
		"// See b.go, and (c.go).": 1, "x() // as TestGone does": 1, "// a store.Store, no http.Server": 0, "c.go": 0,
		"// as docs/gone.md says": 1, "# scripts/gone is next": 1, "// in .tools/bin, bin/report.md": 0,
		"// a.TestView": 0, "// a store.Gone": 1,
	} {
		if got := n.checkComments("a.go", text); len(got) != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}
