package db

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/maypok86/otter/v2"
)

// statement is a query in the syntax of one database.
type statement struct {
	text string
	args int // number of placeholders
	err  error
}

// rebinder translates queries and caches the results, including errors.
type rebinder struct {
	dialect Dialect
	known   *otter.Cache[string, *statement]
}

const knownStatements = 1024

func newRebinder(d Dialect) *rebinder {
	return &rebinder{d, otter.Must(&otter.Options[string, *statement]{MaximumSize: knownStatements})}
}

func (r *rebinder) rebind(query string) statement {
	s, ok := r.known.GetIfPresent(query)
	if !ok {
		fresh := rebind(query, r.dialect)
		s = &fresh // pointers share the code of other caches: a cache of structs adds 270 KB of it
		r.known.Set(query, s)
	}
	return *s
}

func rebind(query string, d Dialect) statement {
	var out strings.Builder
	out.Grow(len(query) + 16)
	var args int
	var ended bool // a semicolon was seen
	var word string
	for _, tok := range scan(query) {
		if ended && tok.kind != comment && tok.kind != space {
			return statement{err: errors.New("more than one statement in a query")}
		}
		text := tok.text
		switch tok.kind {
		case placeholder:
			args++
			switch {
			case d == Postgres:
				text = "$" + strconv.Itoa(args)
			case strings.EqualFold(word, "LIMIT"):
				// For a plain LIMIT ?, SQLite looks at the value when it plans, and so prepares the statement
				// again for every execution. It does not look into an expression.
				text = "+?"
			}
		case doubled:
			text = "?"
			if d == SQLite {
				return statement{err: errors.New("?? is for PostgreSQL operators, SQLite has no operator with a question mark")}
			}
		case numbered:
			return statement{err: fmt.Errorf("placeholder %s is numbered, use plain ?", text)}
		case unended:
			return statement{err: errors.New("unterminated quote or comment, or a nested comment")}
		case semicolon:
			ended = true
		case quoted:
			if d == SQLite && isByteCollation(word, text) {
				text = "BINARY"
			}
		}
		if tok.kind != space && tok.kind != comment {
			word = tok.text
		}
		out.WriteString(text)
	}
	return statement{text: out.String(), args: args}
}

// forSQLite replaces COLLATE "C", which SQLite does not know by that name, by
// COLLATE BINARY, in any number of statements, such as migrations.
func forSQLite(text string) string {
	if !strings.Contains(text, `"C"`) {
		return text
	}
	var out strings.Builder
	var word string
	for _, tok := range scan(text) {
		if tok.kind == quoted && isByteCollation(word, tok.text) {
			tok.text = "BINARY"
		}
		if tok.kind != space && tok.kind != comment {
			word = tok.text
		}
		out.WriteString(tok.text)
	}
	return out.String()
}

func isByteCollation(word, name string) bool {
	return name == `"C"` && strings.EqualFold(word, "COLLATE")
}

type tokenKind int

const (
	other       tokenKind = iota // a word, a number or a sign
	space                        // white space
	comment                      // -- to the end of the line, or /* */
	quoted                       // '…', E'…', "…" or $tag$…$tag$
	placeholder                  // ?
	doubled                      // ??
	numbered                     // ?1 or $1
	semicolon                    //
	unended                      // a quote or comment that is never closed
)

type token struct {
	kind tokenKind
	text string
}

// scan splits SQL into tokens, as finely as finding placeholders requires.
// Concatenated, the tokens are the text.
func scan(s string) []token {
	var tokens []token
	for len(s) > 0 {
		kind, n := next(s)
		// A backslash escapes only in E'…' strings: the E is a word by itself here.
		if kind == quoted && s[0] == '\'' && len(tokens) > 0 && strings.EqualFold(tokens[len(tokens)-1].text, "E") {
			kind, n = quote(s, '\'', true)
		}
		if n <= 0 {
			kind, n = unended, len(s)
		}
		tokens = append(tokens, token{kind, s[:n]})
		s = s[n:]
	}
	return tokens
}

// next returns the kind and length of the first token. A length of 0 means that
// it is not terminated.
func next(s string) (tokenKind, int) {
	c := s[0]
	switch {
	case isSpace(c):
		return space, span(s, isSpace)
	case isWord(c):
		return other, span(s, isWordOrDollar)
	case c == ';':
		return semicolon, 1
	case c == '\'' || c == '"':
		return quote(s, c, false)
	case strings.HasPrefix(s, "--"):
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			return comment, i + 1
		}
		return comment, len(s)
	case strings.HasPrefix(s, "/*"):
		return comment, blockComment(s)
	case c == '?':
		switch {
		case strings.HasPrefix(s, "??"):
			return doubled, 2
		case len(s) > 1 && isDigit(s[1]):
			return numbered, 1 + span(s[1:], isDigit)
		}
		return placeholder, 1
	case c == '$':
		return dollar(s)
	}
	return other, 1
}

func quote(s string, q byte, backslash bool) (tokenKind, int) {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && backslash:
			i++
		case s[i] == q && i+1 < len(s) && s[i+1] == q:
			i++
		case s[i] == q:
			return quoted, i + 1
		}
	}
	return unended, 0
}

// blockComment returns the length of a comment, or 0 when it is not terminated
// or contains another one: PostgreSQL nests comments, SQLite does not.
func blockComment(s string) int {
	end := strings.Index(s[2:], "*/")
	if end < 0 || strings.Contains(s[2:2+end], "/*") {
		return 0
	}
	return end + 4
}

func dollar(s string) (tokenKind, int) {
	if len(s) > 1 && isDigit(s[1]) {
		return numbered, 1 + span(s[1:], isDigit)
	}
	n := 1 + span(s[1:], isWord)
	if n >= len(s) || s[n] != '$' {
		return other, 1
	}
	tag := s[:n+1]
	end := strings.Index(s[len(tag):], tag)
	if end < 0 {
		return unended, 0
	}
	return quoted, end + 2*len(tag)
}

func span(s string, in func(byte) bool) int {
	for i := range len(s) {
		if !in(s[i]) {
			return i
		}
	}
	return len(s)
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
func isWordOrDollar(c byte) bool { return c == '$' || isWord(c) }
