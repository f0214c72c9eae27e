package archtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const wordsReason = "a file has to mean the same on every machine: it names no one's folders and no one's source of modules"

// unwanted finds what must not be in a tracked file. The patterns are written so
// that this file does not match itself.
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
	dir := root(t)
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		t.Skip("not a git checkout: nothing says which files are tracked")
	}
	var violations []string
	for _, name := range strings.Split(string(command(t, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")), "\x00") {
		full := filepath.Join(dir, name)
		if info, err := os.Lstat(full); err != nil || !info.Mode().IsRegular() {
			continue // deleted, or a link
		}
		content, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		violations = append(violations, checkWords(name, content)...)
	}
	report(t, wordsReason, violations)
}

// checkWords returns a line for each place with something unwanted. Binary files,
// known by their zero bytes, are not looked at.
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
	bad := strings.NewReplacer("PROXY", "proxy"+".golang.org", "WORK", "/wo"+"rk/", "ROOT", "/ro"+"ot/", "HOME", "/ho"+"me/anna/")
	expect(t, checkWords("a.md", []byte(bad.Replace("fine\nfrom https://PROXY,direct\nWORKmain\ncd ROOT.cache\n\"HOMEx\"\n"))),
		"a.md:2 proxy", "a.md:3 path", "a.md:4 path", "a.md:5 home")
	expect(t, checkWords("a.md", []byte(bad.Replace("dirWORKx ./xROOTfs ${DIR}ROOT /home/vcap/app /api/v1WORKx\n"))))
	expect(t, checkWords("a.bin", []byte(bad.Replace("\x00 WORK"))))
}
