package template

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/pattern"
)

var (
	// activeCSS matches style sheets that run code in old browsers, which are
	// still used to read mail.
	activeCSS = pattern.OnUse(
		`expression\s*\(|-moz-binding|-o-link|(^|[^a-z-])(-ms-)?behaviou?r\s*:|(java|vb|live|ecma)script\s*:|mocha\s*:|<[a-z/?]|<![^-]`)
	// drawing matches the declaration that enables Outlook's drawings, which is
	// not a script. It must match a whole declaration, which could have several
	// addresses.
	drawing = pattern.OnUse(`behavior\s*:\s*url\(\s*['"]?#default#vml['"]?\s*\)\s*(!\s*important\s*)?(;|\}|$)`)
	comment = pattern.OnUse(`(?s)/\*.*?(\*/|$)`)
)

// cleanCSS removes active declarations and rules, and keeps the rest unchanged.
func cleanCSS(s string) string {
	if !cssActive(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		n := cssChunk(s)
		chunk := s[:n]
		s = s[n:]
		if cssActive(chunk) {
			// Keep the delimiter, so that the following text keeps its meaning.
			chunk = chunk[len(strings.TrimRight(chunk, ";{}")):]
		}
		b.WriteString(chunk)
	}
	// Harmless parts may be active together.
	if out := b.String(); !cssActive(out) && strings.Trim(out, " ;\t\r\n") != "" {
		return out
	}
	return ""
}

// cssChunk returns the length of the text up to and including the next ; { or }
// that is not in quotes, parentheses or a comment.
func cssChunk(s string) int {
	parens := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"', '\'':
			n := quotedLength(s[i:], s[i])
			if n < 0 {
				return len(s)
			}
			i += n - 1
		case '(':
			parens++
		case ')':
			parens = max(0, parens-1)
		case '/':
			if strings.HasPrefix(s[i:], "/*") {
				end := strings.Index(s[i+2:], "*/")
				if end < 0 {
					return len(s)
				}
				i += 2 + end + 1
			}
		case '{', '}':
			return i + 1
		case ';':
			if parens == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// cssActive reports whether a style sheet is active, whether its comments are
// parsed as comments or as part of quoted text.
func cssActive(s string) bool {
	if plainCSS(s) {
		return false
	}
	plain := unescapeCSS(s)
	if plainActive(plain) || plainActive(strings.Map(dropSpace, plain)) {
		return true
	}
	if !strings.Contains(s, "/*") {
		return false
	}
	plain = unescapeCSS(comment().ReplaceAllString(s, ""))
	return plainActive(plain) || plainActive(strings.Map(dropSpace, plain))
}

// plainCSS is a fast check for most style attributes: it reports whether there
// is no address, call, escape or rule.
func plainCSS(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == '(' || c == '\\' || c == '@' || c == '<' || c >= utf8.RuneSelf || c == '/' {
			return false
		}
	}
	lower := strings.ToLower(s)
	return !strings.Contains(lower, "binding") && !strings.Contains(lower, "behavi") &&
		!strings.Contains(lower, "-o-link") &&
		!strings.Contains(lower, "script") && !strings.Contains(lower, "mocha")
}

func dropSpace(r rune) rune {
	if unicode.IsSpace(r) {
		return -1
	}
	return r
}

func plainActive(s string) bool {
	s = drawing().ReplaceAllString(s, "")
	if activeCSS().MatchString(s) {
		return true
	}
	for {
		_, rest, ok := strings.Cut(s, "url(")
		if !ok {
			break
		}
		arg, after, _ := strings.Cut(rest, ")")
		arg = strings.Trim(stripIgnored(arg), `"'`)
		if !addressAllowed(arg, imageSchemes) && (scheme(arg) != "data" || !isFont(strings.TrimPrefix(arg, "data:"))) {
			return true
		}
		s = after
	}
	return false
}

// unescapeCSS replaces escapes and full-width characters by what they stand for,
// in lower case, and removes invisible characters.
func unescapeCSS(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if r == '\\' {
			r, n = cssEscape(s[i:])
			i += n
		}
		if r >= 0xFF01 && r <= 0xFF5E {
			r -= 0xFF01 - '!'
		}
		if r < 0 || r < ' ' && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r) {
			continue
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// cssEscape parses the text after a backslash: up to six hexadecimal digits and a
// space, or any character. An escaped line break is dropped.
func cssEscape(s string) (rune, int) {
	n := 0
	for n < 6 && n < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[n]) >= 0 {
		n++
	}
	if n == 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == '\n' || r == '\r' || size == 0 {
			return -1, size
		}
		return r, size
	}
	code, _ := strconv.ParseInt(s[:n], 16, 32) // of at most six digits
	if n < len(s) && strings.IndexByte(" \t\r\n\f", s[n]) >= 0 {
		n++
	}
	return rune(code), n
}

// cssValue returns the part of a value that may be inserted into a style: words,
// numbers, colours. Other characters could begin a declaration and are dropped.
func cssValue(s string) string {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(" #%.,_-", c) < 0 {
			return ""
		}
	}
	lower := strings.ToLower(s)
	for _, word := range []string{"expression", "binding", "behavi", "script", "import", "url", "mocha", "link"} {
		if strings.Contains(lower, word) {
			return ""
		}
	}
	return s
}
