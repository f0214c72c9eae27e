package promql

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// kind is the kind of a token.
type kind int

const (
	end kind = iota
	word
	number
	text
	duration
	mark // operators and brackets
)

type lexeme struct {
	kind kind
	text string
	num  float64
	span time.Duration
	at   int
}

// marks are the operators and brackets, longer ones first.
var marks = []string{"==", "!=", ">=", "<=", "=~", "!~", "+", "-", "*", "/", "%", "^", ">", "<", "=", "(", ")", "{",
	"}", "[", "]", ","}

// maxQuery limits the length of a query.
const maxQuery = 4096

// lex splits a query into tokens.
func lex(q string) ([]lexeme, error) {
	if len(q) > maxQuery {
		return nil, fmt.Errorf("parse error: the query is longer than %d characters", maxQuery)
	}
	var out []lexeme
	for i := 0; i < len(q); {
		switch c := q[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '"' || c == '\'' || c == '`':
			s, n, err := quoted(q[i:])
			if err != nil {
				return nil, fmt.Errorf("parse error at char %d: %w", i+1, err)
			}
			out = append(out, lexeme{kind: text, text: s, at: i})
			i += n
		case c >= '0' && c <= '9' || c == '.':
			t, n, err := numeral(q[i:])
			if err != nil {
				return nil, fmt.Errorf("parse error at char %d: %w", i+1, err)
			}
			t.at = i
			out = append(out, t)
			i += n
		case isLetter(c):
			n := i + 1
			for n < len(q) && (isLetter(q[n]) || q[n] >= '0' && q[n] <= '9') {
				n++
			}
			out = append(out, lexeme{kind: word, text: q[i:n], at: i})
			i = n
		default:
			m := markAt(q[i:])
			if m == "" {
				return nil, fmt.Errorf("parse error at char %d: unexpected character %q", i+1, c)
			}
			out = append(out, lexeme{kind: mark, text: m, at: i})
			i += len(m)
		}
	}
	return append(out, lexeme{kind: end, text: "end of input", at: len(q)}), nil
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
}

func markAt(q string) string {
	for _, m := range marks {
		if strings.HasPrefix(q, m) {
			return m
		}
	}
	return ""
}

// quoted returns the string literal at the start of q and its length.
func quoted(q string) (string, int, error) {
	for i := 1; i < len(q); i++ {
		switch {
		case q[i] == '\\' && q[0] != '`':
			i++
		case q[i] == q[0]:
			if q[0] == '`' {
				return q[1:i], i + 1, nil
			}
			inner := strings.ReplaceAll(q[1:i], `\'`, `'`)
			if q[0] == '\'' {
				inner = strings.ReplaceAll(inner, `"`, `\"`)
			}
			s, err := strconv.Unquote(`"` + inner + `"`)
			return s, i + 1, err
		}
	}
	return "", 0, fmt.Errorf("unterminated quoted string")
}

// units of durations, longer ones first.
var units = []struct {
	name string
	span time.Duration
}{
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
	{"w", 7 * 24 * time.Hour}, {"y", 365 * 24 * time.Hour},
}

// numeral returns the number or duration at the start of q and its length.
func numeral(q string) (lexeme, int, error) {
	n := 0
	for n < len(q) && (q[n] >= '0' && q[n] <= '9' || q[n] == '.') {
		n++
	}
	if n < len(q) && (q[n] == 'e' || q[n] == 'E') {
		m := n + 1
		if m < len(q) && (q[m] == '+' || q[m] == '-') {
			m++
		}
		for m < len(q) && q[m] >= '0' && q[m] <= '9' {
			m++
			n = m
		}
	}
	if n < len(q) && isLetter(q[n]) {
		span, m, err := parseSpan(q)
		return lexeme{kind: duration, text: q[:m], span: span}, m, err
	}
	v, err := strconv.ParseFloat(q[:n], 64)
	return lexeme{kind: number, text: q[:n], num: v}, n, err
}

// parseSpan returns the duration at the start of q, such as 1h30m, and its length.
func parseSpan(q string) (span time.Duration, n int, err error) {
	for n < len(q) && q[n] >= '0' && q[n] <= '9' {
		m := n
		for m < len(q) && q[m] >= '0' && q[m] <= '9' {
			m++
		}
		count, err := strconv.ParseInt(q[n:m], 10, 32)
		if err != nil {
			return 0, m, fmt.Errorf("bad duration %q", q[:m])
		}
		found := false
		for _, u := range units {
			if strings.HasPrefix(q[m:], u.name) {
				span, n, found = span+time.Duration(count)*u.span, m+len(u.name), true
				break
			}
		}
		if !found {
			return 0, m, fmt.Errorf("bad duration %q", q[:min(m+1, len(q))])
		}
	}
	if span <= 0 || n < len(q) && isLetter(q[n]) {
		return 0, max(n, 1), fmt.Errorf("bad duration %q", q[:n])
	}
	return span, n, nil
}

// ParseStep parses the step of a range query: a duration such as 15s, or seconds.
func ParseStep(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		if seconds <= 0 || seconds > 1e9 {
			return 0, fmt.Errorf("the step must be greater than zero")
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}
	span, n, err := parseSpan(s)
	if err != nil || n != len(s) {
		return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
	}
	return span, nil
}
