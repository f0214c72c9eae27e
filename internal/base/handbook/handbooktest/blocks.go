package handbooktest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Block is a block of commands in a document.
type Block struct {
	Document string // its path in the source tree
	Anchor   string // of the heading above it
	Number   int    // among the blocks below that heading, from 1
	Language string // console, sh or none
	Lines    []string
}

// Name identifies the block: docs/tls.md#tls/1.
func (b Block) Name() string { return fmt.Sprintf("%s#%s/%d", b.Document, b.Anchor, b.Number) }

// Blocks returns the blocks with commands of README.md and of all documents, in a folder that is the root of
// the source tree. Decisions have none that readers would type.
func Blocks(t testing.TB, root string) []Block {
	t.Helper()
	files := []string{"README.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "decisions" {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []Block
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name))) //nolint:gosec // the source tree
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, blocksOf(name, string(text))...)
	}
	if len(all) < 100 {
		t.Fatalf("only %d blocks were found", len(all))
	}
	return all
}

var fence = regexp.MustCompile("^ *```(\\w*)")

// blocksOf returns the blocks with commands of a document.
func blocksOf(document, text string) (all []Block) {
	var open *Block
	anchor, number := "", 0
	for line := range strings.SplitSeq(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && open == nil:
			open = &Block{Document: document, Anchor: anchor, Language: m[1]}
		case m != nil:
			if open.hasCommands() {
				number++
				open.Number = number
				all = append(all, *open)
			}
			open = nil
		case open != nil:
			open.Lines = append(open.Lines, strings.TrimPrefix(line, "   "[:min(3, len(line)-len(strings.TrimLeft(line, " ")))]))
		case strings.HasPrefix(line, "#"):
			anchor, number = anchorOf(strings.TrimLeft(line, "#")), 0
		}
	}
	return all
}

// hasCommands reports whether readers may type what is in a block.
func (b Block) hasCommands() bool {
	prompt := slices.ContainsFunc(b.Lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	return b.Language == "sh" || prompt
}

// anchorOf returns the anchor of a heading as GitHub makes it.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

var (
	here    = regexp.MustCompile(`<<-?'?(\w+)'?`)
	nested  = regexp.MustCompile(`\$\(((?:ingot|cf) [^()]*)\)`)
	setting = regexp.MustCompile(`^\w+=`)
)

// Commands returns the calls of ingot and cf in the block, as words: the program, and its arguments.
func (b Block) Commands() (all [][]string) {
	for _, line := range b.Typed() {
		for _, m := range nested.FindAllStringSubmatch(line, -1) {
			all = append(all, calls(m[1])...)
		}
		all = append(all, calls(nested.ReplaceAllString(line, "VALUE"))...)
	}
	return all
}

// Typed returns the lines that readers type, continued ones as one, without the content of here-documents.
func (b Block) Typed() (all []string) {
	continued, until := "", ""
	prompts := b.Language != "sh"
	for _, line := range b.Lines {
		if until != "" {
			if strings.TrimSpace(line) == until {
				until = ""
			}
			continue
		}
		rest, prompt := strings.CutPrefix(line, "$ ")
		if prompts && !prompt && continued == "" {
			continue
		}
		line = continued + rest
		if before, ok := strings.CutSuffix(line, `\`); ok {
			continued = before
			continue
		}
		continued = ""
		if m := here.FindStringSubmatch(line); m != nil {
			until = m[1]
		}
		all = append(all, line)
	}
	return all
}

// calls returns the calls in a line of a shell.
func calls(line string) (all [][]string) {
	for _, words := range split(line) {
		for len(words) > 0 && (setting.MatchString(words[0]) || slices.Contains([]string{"sudo", "exec", "if", "!", "then",
			"do"}, words[0])) {
			words = words[1:]
		}
		if len(words) > 0 && slices.Contains([]string{"ingot", "cf", "./ingot"}, words[0]) {
			words[0] = strings.TrimPrefix(words[0], "./")
			all = append(all, words)
		}
	}
	return all
}

// split splits a line of a shell into commands, and those into words without their quotes. What follows a
// redirection or a comment is left out.
func split(line string) [][]string {
	commands := [][]string{nil}
	word, inWord, quote, skip := "", false, rune(0), false
	end := func() {
		if inWord && !skip {
			last := len(commands) - 1
			commands[last] = append(commands[last], word)
		}
		if inWord {
			skip = false
		}
		word, inWord = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			return commands
		case r == ' ' || r == '\t':
			end()
		case r == '|' || r == ';' || r == '&':
			end()
			commands = append(commands, nil)
		case r == '>' || r == '<':
			if word == "1" || word == "2" {
				word, inWord = "", false
			}
			end()
			skip = true
		default:
			word += string(r)
			inWord = true
		}
	}
	end()
	return commands
}
