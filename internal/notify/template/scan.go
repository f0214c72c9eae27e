package template

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a template's source. They limit the parser's recursion and the size
// of a program; real templates are far below.
const (
	maxSource  = 1 << 20
	maxActions = 5000
	maxParens  = 50
	maxBlocks  = 100
)

// problem is an error in a template, with its position.
type problem struct {
	at     int // offset in the source
	syntax bool
	what   string
	// origin is where it is if not in the part itself.
	origin *origin
}

func (p *problem) Error() string { return p.what }

func syntaxProblem(at int, format string, args ...any) *problem {
	return &problem{at: at, syntax: true, what: fmt.Sprintf(format, args...)}
}

func otherProblem(at int, format string, args ...any) *problem {
	return &problem{at: at, what: fmt.Sprintf(format, args...)}
}

// lineColumn formats an offset as line:column.
func lineColumn(source string, at int) string {
	line, column := place(source, at)
	return fmt.Sprintf("%d:%d", line, column)
}

// place returns the line and column of an offset, both from 1, columns in
// characters.
func place(source string, at int) (line, column int) {
	before := source[:min(max(at, 0), len(source))]
	line = strings.Count(before, "\n") + 1
	return line, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

// action is the text between {{ and }}, with its position.
type action struct {
	at, end int // of the whole, with its braces
	word    string
}

// scan finds the actions of a source. The parser reports only the line of an
// error; scan also rejects deep nesting and unsupported statements before the
// parser sees them.
func scan(source string) ([]action, *problem) {
	if len(source) > maxSource {
		return nil, otherProblem(0, "it is longer than the %d bytes allowed", maxSource)
	}
	var (
		all  []action
		open []action
		deep int
	)
	for at := 0; ; {
		i := strings.Index(source[at:], "{{")
		if i < 0 {
			break
		}
		at += i
		end, p := actionEnd(source, at)
		if p != nil {
			return nil, p
		}
		a := action{at: at, end: end, word: firstWord(source[at:end])}
		all = append(all, a)
		at = end
		if len(all) > maxActions {
			return nil, otherProblem(a.at, "there are more than the %d actions allowed", maxActions)
		}
		switch a.word {
		case "break", "continue":
			return nil, otherProblem(a.at, "%q is not available here: templates show values, and have if, else, with, range, "+
				"template, block, define and end", a.word)
		case "if", "with", "range", "block", "define":
			open = append(open, a)
			deep++
		case "else":
			if len(open) == 0 {
				return nil, syntaxProblem(a.at, "else without if, with or range")
			}
			deep++ // an "else if" nests one level deeper, without an end of its own
		case "end":
			if len(open) == 0 {
				return nil, syntaxProblem(a.at, "end without if, with or range")
			}
			open = open[:len(open)-1]
			if len(open) == 0 {
				deep = 0
			}
		}
		if deep > maxBlocks {
			return nil, otherProblem(a.at, "if, with, range and block are nested more than %d deep", maxBlocks)
		}
	}
	if len(open) > 0 {
		last := open[len(open)-1]
		return nil, syntaxProblem(last.at, "this {{%s}} has no {{end}}", last.word)
	}
	return all, nil
}

// actionEnd returns the offset after the }} of the action that begins at at.
func actionEnd(source string, at int) (int, *problem) {
	i := at + 2
	body := strings.TrimPrefix(source[i:], "-")
	if trimmed := strings.TrimLeft(body, " \t\r\n"); strings.HasPrefix(trimmed, "/*") {
		j := strings.Index(trimmed, "*/")
		if j < 0 {
			return 0, syntaxProblem(at, "the comment is not closed: */ is missing")
		}
		from := len(source) - len(trimmed) + j + 2
		rest := strings.TrimPrefix(strings.TrimLeft(source[from:], " \t\r\n"), "-")
		if !strings.HasPrefix(rest, "}}") {
			return 0, syntaxProblem(at, "a comment must be alone between its braces")
		}
		return len(source) - len(rest) + 2, nil
	}
	for parens := 0; i < len(source); i++ {
		switch c := source[i]; c {
		case '}':
			if strings.HasPrefix(source[i:], "}}") {
				return i + 2, nil
			}
		case '{':
			if strings.HasPrefix(source[i:], "{{") {
				return 0, syntaxProblem(at, "the braces are not closed: the next {{ follows before }}")
			}
		case '(':
			if parens++; parens > maxParens {
				return 0, otherProblem(i, "parentheses are nested more than %d deep", maxParens)
			}
		case ')':
			parens--
		case '"', '\'', '`':
			n := quotedLength(source[i:], c)
			if n < 0 {
				return 0, syntaxProblem(i, "the string is not closed")
			}
			i += n - 1
		}
	}
	return 0, syntaxProblem(at, "the braces are not closed: }} is missing")
}

// quotedLength returns the length of the literal at the start of s, or -1. Only a
// literal in backquotes may contain line breaks.
func quotedLength(s string, quote byte) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return i + 1
		case quote == '`':
		case s[i] == '\\':
			i++
		case s[i] == '\n':
			return -1
		}
	}
	return -1
}

func firstWord(action string) string {
	s := strings.TrimLeft(strings.TrimPrefix(action[2:], "-"), " \t\r\n")
	for i, r := range s {
		if r < 'a' || r > 'z' {
			return s[:i]
		}
	}
	return s
}
