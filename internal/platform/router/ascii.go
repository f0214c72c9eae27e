package router

import "strconv"

// The classes of bytes in heads.
const (
	classToken    = 1 << iota // in names
	classVisible              // in targets
	classText                 // in values
	classHost                 // in names of hosts, with a port
	classUnquoted             // the same in quotes and without
)

var classes = func() (c [256]uint8) {
	for b := 0x21; b < 0x7f; b++ {
		c[b] = classVisible | classText
	}
	for b := 0x80; b < 0x100; b++ {
		c[b] = classText
	}
	c[' '], c['\t'] = classText, classText
	for b := 0x20; b < 0x7f; b++ {
		if b != '"' && b != '\\' {
			c[b] |= classUnquoted
		}
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		c[b] |= classToken
	}
	for _, b := range []byte("-.:_[]0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		c[b] |= classHost
	}
	return c
}()

func all(b []byte, class uint8) bool {
	for _, c := range b {
		if classes[c]&class == 0 {
			return false
		}
	}
	return true
}

func isToken(b []byte) bool { return len(b) > 0 && all(b, classToken) }
func isHost(b []byte) bool  { return all(b, classHost) }
func isText(b []byte) bool  { return all(b, classText) }

// isPlainTarget tells whether a target is one that everybody reads in the same
// way: escapes are whole, and there is no fragment.
func isPlainTarget(b []byte) bool {
	for i, c := range b {
		if classes[c]&classVisible == 0 || c == '#' {
			return false
		}
		if c == '%' {
			if i+2 >= len(b) {
				return false
			}
			_, first := hexDigit(b[i+1])
			_, second := hexDigit(b[i+2])
			if !first || !second {
				return false
			}
		}
	}
	return true
}

// equalFold compares with a name in small letters.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trimmed is the span without spaces around it.
func trimmed(b []byte, from, to int) span {
	for from < to && (b[from] == ' ' || b[from] == '\t') {
		from++
	}
	for from < to && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	return span{from, to}
}

// decimal reads digits and nothing else, of a number that is not large.
func decimal(b []byte) (int, bool) {
	n, ok := decimal64(b)
	return int(n), ok && n < 1<<31
}

func decimal64(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func appendDecimal(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
