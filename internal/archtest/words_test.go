package archtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const wordsReason = "a file has to mean the same on every machine: it contains no local paths and no module proxies"

// unwanted lists what must not be in a tracked file. The patterns do not match
// this file itself.

var unwanted = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a module proxy's host name", regexp.MustCompile(`\b(proxy|sum)[.]golang\b`)},
	{"an absolute path of one machine", regexp.MustCompile(`(^|[^\w./$})*-])/(work|root)[/]`)},
	// The home of an app in its container is part of the platform's contract.
	{"someone's home folder", regexp.MustCompile(`(^|[^\w./$})*-])/home/([^v/\s]|v[^c/\s])\w*[/]`)},
}

// TestUnwantedWords reads every file that git would commit.
func TestUnwantedWords(t *testing.T) {
	t.Parallel()
	var violations []string
	for name, content := range tracked(t) {
		violations = append(violations, checkWords(name, content)...)
	}
	report(t, wordsReason, violations)
}

// tracked returns the contents of the files that git would commit, by name.
func tracked(t *testing.T) map[string][]byte {
	t.Helper()
	dir := root(t)
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		t.Skip("not a git checkout: the tracked files are not known")
	}
	files := map[string][]byte{}
	for _, name := range strings.Split(string(command(t, "git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")), "\x00") {
		full := filepath.Join(dir, name)
		if info, err := os.Lstat(full); err != nil || !info.Mode().IsRegular() {
			continue // deleted, or a link
		}
		content, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = content
	}
	return files
}

const plainReason = "readers know the words of Cloud Foundry, Unix and Go; a private metaphor for one of them has to " +
	"be explained to each"

// plainFolders are the files and folders whose language has been checked. Add a
// folder once it has none of the private words; none may return then.
var plainFolders = []string{
	"internal/", "cmd/", "e2e/", "samples/", "bench/", "cluster/", "vm/", "stack/", "scripts/", "packaging/", "docs/",
	"Makefile", "README.md", "SECURITY.md",
}

// notPlain are the exceptions below plainFolders.
var notPlain = map[string]string{
	"internal/archtest/words_":                 "lists the words",
	"internal/console/apps/assets/xterm":       "released files of another project, with their licence",
	"internal/base/daemon/":                    "runs servers as the Unix user nobody",
	"internal/notify/notifydb/":                "a column of its table is called lane",
	"docs/decisions/0010-wings.md":             "names packages by their old names",
	"internal/platform/platformdb/migrations/": "a migration is not edited once it was applied",
}

// private finds words that are not used for what this project does, or not in the
// way a Go engineer would.
var private = regexp.MustCompile(
	`\b([Ww]hoever|[Ss]omebody|[Nn]obody|[Ff]urnish\w*|[Hh]erald|[Pp]arcels?|[Ll]etters?|breath|in vain|[Ll]anes?|of ours|the house|` +
		`(tells?|says?) whether|counts from the next start|is there already|(a|its|no|free|good) places?)\b`)

// literal is a quoted word, which may be test data, or a property of CSS.
var literal = regexp.MustCompile(`["“][^"” ]*["”]|letter-spacing`)

// TestPlainEnglish reads the files of plainFolders that git would commit.
func TestPlainEnglish(t *testing.T) {
	t.Parallel()
	var violations []string
	for name, content := range tracked(t) {
		if plain(name) {
			violations = append(violations, checkPlain(name, content)...)
		}
	}
	report(t, plainReason, violations)
}

func plain(name string) bool {
	below := func(folder string) bool { return strings.HasPrefix(name, folder) }
	for folder := range notPlain {
		if below(folder) {
			return false
		}
	}
	return slices.ContainsFunc(plainFolders, below)
}

// checkPlain returns a line for each private word.
func checkPlain(name string, content []byte) []string {
	var violations []string
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if word := private.Find(literal.ReplaceAll(line, nil)); word != nil {
			violations = append(violations, fmt.Sprintf("%s:%d: %q: %s", name, number, word, bytes.TrimSpace(line)))
		}
	}
	return violations
}

func TestPlainEnglishChecker(t *testing.T) {
	t.Parallel()
	expect(t, checkPlain("a.go", []byte("// Whoever asks\n// it tells whether\n// a place for it\nfurnish()\n")),
		"a.go:1 Whoever", "a.go:2 whether", "a.go:3 place", "a.go:4 furnish")
	expect(t, checkPlain("a.go", []byte("user := \"nobody\"\nhttp.NoBody\n// in place of it\n// reports whether\n")))
	if plain("docs/decisions/0010-wings.md") || plain("go.mod") || !plain("docs/logs.md") {
		t.Error("plain does not follow plainFolders and notPlain")
	}
}

// checkWords returns a line for each unwanted match. It ignores binary files,
// recognized by their zero bytes.
func checkWords(name string, content []byte) []string {
	if bytes.IndexByte(content, 0) >= 0 {
		return nil
	}
	var violations []string
	number := 0
	for line := range bytes.Lines(content) {
		number++
		for _, u := range unwanted {
			if u.pattern.Match(line) {
				violations = append(violations, fmt.Sprintf("%s:%d: %s: %s", name, number, u.what, bytes.TrimSpace(line)))
			}
		}
	}
	return violations
}

func TestUnwantedWordsChecker(t *testing.T) {
	t.Parallel()
	bad := strings.NewReplacer("PROXY", "proxy"+".golang.org", "WORK", "/wo"+"rk/", "ROOT", "/ro"+"ot/", "HOME",
		"/ho"+"me/anna/")
	expect(t,
		checkWords("a.md", []byte(bad.Replace("fine\nfrom https://PROXY,direct\nWORKmain\ncd ROOT.cache\n\"HOMEx\"\n"))),
		"a.md:2 proxy", "a.md:3 path", "a.md:4 path", "a.md:5 home")
	expect(t, checkWords("a.md", []byte(bad.Replace("dirWORKx ./xROOTfs ${DIR}ROOT /home/vcap/app /api/v1WORKx\n"))))
	expect(t, checkWords("a.bin", []byte(bad.Replace("\x00 WORK"))))
}
