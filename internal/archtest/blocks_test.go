package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/base/handbook/handbooktest"
)

const (
	blocksFile   = "docs/blocks.txt"
	blocksReason = "readers copy the commands of the documents, and commands that no test runs stop working unnoticed"
)

// TestBlocks compares docs/blocks.txt with the blocks of commands in the documents, and with the tests.
func TestBlocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(blocksFile)))
	if err != nil {
		t.Fatal(err)
	}
	known, _, err := readNames(root(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, blocksReason, checkBlocks(string(text), handbooktest.Blocks(t, root(t)), known.tests))
}

var blockLine = regexp.MustCompile(`^(\S+(?: sh)?) +(run|like|no) (.+)$`)

// checkBlocks returns a line for each block without a line in the table, for each line without a block, and for
// each test that does not exist.
func checkBlocks(table string, blocks []handbooktest.Block, tests map[string]bool) (violations []string) {
	used := map[string]bool{}
	var all []string
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := blockLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			violations = append(violations, fmt.Sprintf("%s: %q is none of: BLOCK run TestName, BLOCK like TestName, BLOCK no "+
				"REASON", blocksFile, line))
			continue
		case m[2] != "no" && !tests[m[3]]:
			violations = append(violations, fmt.Sprintf("%s: there is no test %s", blocksFile, m[3]))
		case used[m[1]]:
			violations = append(violations, fmt.Sprintf("%s: %s is there twice", blocksFile, m[1]))
		}
		used[m[1]] = true
		all = append(all, m[1])
	}
	found := map[string]bool{}
	for _, b := range blocks {
		// A line for the block itself comes before one for its document.
		covered := false
		for _, key := range all {
			if covers(key, b) {
				found[key], covered = true, true
			}
		}
		if !covered {
			violations = append(violations, fmt.Sprintf("%s has no line for a block of commands: add to it \"%s  run "+
				"TestDocumentedBlocks\" if a server with an app shop can run it, otherwise \"like TestName\" or \"no "+
				"REASON\" (the block begins with %q)", blocksFile, b.Name(), strings.Join(b.Lines[:1], "")))
		}
	}
	for _, key := range all {
		if !found[key] {
			violations = append(violations, fmt.Sprintf("%s: there is no block %s; remove the line, or correct the heading or "+
				"the number", blocksFile, key))
		}
	}
	return violations
}

// covers reports whether a line of the table is about a block.
func covers(key string, b handbooktest.Block) bool {
	document, language, all := strings.Cut(key, " ")
	if strings.Contains(key, "#") {
		return key == b.Name()
	}
	match, err := path.Match(document, b.Document)
	return err == nil && match && (!all || language == b.Language)
}

func TestBlocksChecker(t *testing.T) {
	t.Parallel()
	block := func(document, anchor, language string, number int) handbooktest.Block {
		return handbooktest.Block{Document: document, Anchor: anchor, Number: number, Language: language,
			Lines: []string{"$ x"}}
	}
	blocks := []handbooktest.Block{block("docs/a.md", "one", "console", 1), block("docs/a.md", "one", "console", 2),
		block("docs/b.md", "two", "sh", 1), block("docs/c.md", "x", "console", 1)}
	tests := map[string]bool{"TestA": true}
	expect(t, checkBlocks("# x\n\ndocs/a.md#one/1  run TestA\ndocs/a.md#one/2 no it is slow\n"+
		"docs/*.md sh like TestA\ndocs/c.md no x", blocks, tests))
	expect(t, checkBlocks("docs/a.md#one/1 run TestB\ndocs/a.md#one/1 no x\ndocs/a.md#gone/1 no x\nnonsense\n"+
		"docs/c.md no x", blocks, tests), "TestB", "docs/a.md#one/1 twice", "nonsense", "docs/a.md#one/2 run",
		"docs/b.md#two/1", "docs/a.md#gone/1 remove")
}
