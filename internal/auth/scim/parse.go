package scim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds on a filter. Parse refuses anything beyond them.
const (
	MaxLength      = 16 << 10 // bytes of filter text
	MaxComparisons = 500      // tests in one filter
	MaxNesting     = 50       // parentheses inside each other
)

// SyntaxError says what is wrong with the text of a filter, and where.
type SyntaxError struct {
	Pos int // offset in bytes, from 0
	Msg string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid filter at position %d: %s", e.Pos, e.Msg)
}

// Parse reads a filter. Every error it returns is a *[SyntaxError].
func Parse(filter string) (Expr, error) {
	if len(filter) > MaxLength {
		return nil, syntaxErrorf(MaxLength, "the filter is longer than %d bytes", MaxLength)
	}
	if i := invalidUTF8(filter); i >= 0 {
		return nil, syntaxErrorf(i, "the filter is not valid UTF-8")
	}
	p := parser{src: filter}
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.skipSpace(); p.pos < len(p.src) {
		return nil, syntaxErrorf(p.pos, `expected "and", "or" or the end of the filter, found %s`, p.next())
	}
	return e, nil
}

func syntaxErrorf(pos int, format string, args ...any) error {
	return &SyntaxError{Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return i
		}
	}
	return -1
}

// parser is a recursive descent parser, one method per level of precedence. It
// recurses only into parentheses, which MaxNesting bounds.
type parser struct {
	src         string
	pos         int
	nesting     int
	comparisons int
}

func (p *parser) or() (Expr, error) {
	left, err := p.and()
	for err == nil && p.keyword("or") {
		var right Expr
		right, err = p.and()
		left = Or{Left: left, Right: right}
	}
	if err != nil {
		return nil, err
	}
	return left, nil
}

func (p *parser) and() (Expr, error) {
	left, err := p.atom()
	for err == nil && p.keyword("and") {
		var right Expr
		right, err = p.atom()
		left = And{Left: left, Right: right}
	}
	if err != nil {
		return nil, err
	}
	return left, nil
}

// atom reads a group, a negation or a comparison.
func (p *parser) atom() (Expr, error) {
	p.skipSpace()
	if p.at('(') {
		return p.group()
	}
	start := p.pos
	switch word := p.word(); word {
	case "":
		return nil, syntaxErrorf(start, `expected an attribute name, "not" or "(", found %s`, p.next())
	case "and", "or":
		return nil, syntaxErrorf(start, `expected an attribute name, "not" or "(", found the keyword %q`, word)
	case "not":
		p.skipSpace()
		if !p.at('(') {
			return nil, syntaxErrorf(p.pos, `expected "(" after "not", found %s`, p.next())
		}
		x, err := p.group()
		if err != nil {
			return nil, err
		}
		return Not{X: x}, nil
	default:
		return p.compare(start, word)
	}
}

// group reads a filter in parentheses; the parser stands on the opening one.
func (p *parser) group() (Expr, error) {
	open := p.pos
	if p.nesting == MaxNesting {
		return nil, syntaxErrorf(open, "parentheses are nested more than %d deep", MaxNesting)
	}
	p.nesting++
	p.pos++
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	p.skipSpace()
	if !p.at(')') {
		return nil, syntaxErrorf(p.pos, `expected "and", "or" or ")" to close the "(" at position %d, found %s`,
			open, p.next())
	}
	p.pos++
	p.nesting--
	return e, nil
}

// compare reads what follows the attribute name that began at start.
func (p *parser) compare(start int, attr string) (Expr, error) {
	if p.comparisons == MaxComparisons {
		return nil, syntaxErrorf(start, "the filter has more than %d comparisons", MaxComparisons)
	}
	p.comparisons++

	p.skipSpace()
	opStart := p.pos
	word := p.word()
	if word == "" {
		return nil, syntaxErrorf(opStart, "expected an operator after %s, found %s", quote(attr), p.next())
	}
	op, ok := opNamed(word)
	if !ok {
		return nil, syntaxErrorf(opStart, "unknown operator %s: use one of %s", quote(word), strings.Join(opNames[Eq:], ", "))
	}
	if op == Pr {
		return Compare{Attr: attr, Op: op}, nil
	}
	v, err := p.value(op)
	if err != nil {
		return nil, err
	}
	return Compare{Attr: attr, Op: op, Value: v}, nil
}

// value reads the right-hand side of op.
func (p *parser) value(op Op) (Value, error) {
	p.skipSpace()
	if p.at('"') || p.at('\'') {
		return p.str()
	}
	start := p.pos
	for p.pos < len(p.src) && strings.IndexByte(" \t\r\n()\"'", p.src[p.pos]) < 0 {
		p.pos++
	}
	word := p.src[start:p.pos]
	switch lowerASCII(word) {
	case "":
		return nil, syntaxErrorf(start, "expected a value after %q", op)
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil // no error: nil is how a Value spells null
	}
	// JSON that begins with a digit or a minus sign can only be a number.
	if c := word[0]; (c == '-' || '0' <= c && c <= '9') && json.Valid([]byte(word)) {
		f, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, syntaxErrorf(start, "the number %s is out of range", quote(word))
		}
		return f, nil
	}
	return nil, syntaxErrorf(start,
		"expected a value after %q: a string in quotes, a number, true, false or null, found %s", op, quote(word))
}

// str reads a quoted string; the parser stands on the opening quote.
func (p *parser) str() (Value, error) {
	open := p.pos
	end := p.src[open]
	var b strings.Builder
	for p.pos++; p.pos < len(p.src); p.pos++ {
		switch c := p.src[p.pos]; {
		case c == end:
			p.pos++
			return b.String(), nil
		case c < ' ':
			return nil, syntaxErrorf(p.pos, "control characters in a string must be escaped")
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return nil, err
			}
			b.WriteRune(r)
		default:
			b.WriteByte(c)
		}
	}
	return nil, syntaxErrorf(open, "the string that starts here has no closing %c", end)
}

// escape reads an escape sequence from its backslash on and leaves the parser
// on the last character of it.
func (p *parser) escape() (rune, error) {
	start := p.pos
	p.pos++
	if p.pos == len(p.src) {
		return 0, syntaxErrorf(start, "unfinished escape sequence")
	}
	switch c := p.src[p.pos]; c {
	case '"', '\'', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return p.unicodeEscape(start)
	default:
		return 0, syntaxErrorf(start, "unknown escape sequence: after a backslash comes one of \" ' \\ / b f n r t u")
	}
}

// unicodeEscape reads the rest of a \uXXXX escape, or of two that make a
// surrogate pair; the parser stands on the first "u".
func (p *parser) unicodeEscape(start int) (rune, error) {
	r, ok := p.hex4()
	if !ok {
		return 0, syntaxErrorf(start, `expected four hexadecimal digits after \u`)
	}
	if r == 0 {
		// PostgreSQL cannot hold it in text, so nothing could match.
		return 0, syntaxErrorf(start, `the character \u0000 is not allowed`)
	}
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if strings.HasPrefix(p.src[p.pos+1:], `\u`) {
		p.pos += 2
		if low, ok := p.hex4(); ok {
			if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
				return full, nil
			}
		}
	}
	return 0, syntaxErrorf(start, `\u surrogate without its other half`)
}

// hex4 reads the four digits that follow the parser's position and leaves it on
// the last of them.
func (p *parser) hex4() (rune, bool) {
	if p.pos+4 >= len(p.src) {
		return 0, false
	}
	n, err := strconv.ParseUint(p.src[p.pos+1:p.pos+5], 16, 16)
	if err != nil {
		return 0, false
	}
	p.pos += 4
	return rune(n), true
}

func (p *parser) skipSpace() {
	for p.at(' ') || p.at('\t') || p.at('\r') || p.at('\n') {
		p.pos++
	}
}

func (p *parser) at(c byte) bool { return p.pos < len(p.src) && p.src[p.pos] == c }

// word takes a run of the characters that names consist of, in lower case.
func (p *parser) word() string {
	start := p.pos
	for p.pos < len(p.src) && isNameByte(p.src[p.pos]) {
		p.pos++
	}
	return lowerASCII(p.src[start:p.pos])
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("_-.:$", c) >= 0
}

// keyword takes the next word if it is the one given.
func (p *parser) keyword(want string) bool {
	p.skipSpace()
	start := p.pos
	if p.word() == want {
		return true
	}
	p.pos = start
	return false
}

// next describes what the parser stands on, for an error message.
func (p *parser) next() string {
	if p.pos >= len(p.src) {
		return "the end of the filter"
	}
	here := p.pos
	word := p.word()
	p.pos = here
	if word == "" {
		_, size := utf8.DecodeRuneInString(p.src[here:])
		return quote(p.src[here : here+size])
	}
	return quote(p.src[here : here+len(word)])
}

// quote quotes text from the filter, shortened so that messages stay readable.
func quote(s string) string {
	const limit = 40
	n := 0
	for i := range s {
		if n++; n > limit {
			return strconv.Quote(s[:i] + "…")
		}
	}
	return strconv.Quote(s)
}
