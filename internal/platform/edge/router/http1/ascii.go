package http1

// Classes of bytes in a message head.
const (
	classToken    = 1 << iota // in names
	classVisible              // in targets
	classText                 // in values
	classHost                 // in host names, with a port
	classUnquoted             // unchanged by quoting
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

// IsToken reports whether b can be the name of a header, or a method.
func IsToken(b []byte) bool { return len(b) > 0 && all(b, classToken) }

func isHost(b []byte) bool { return all(b, classHost) }
func isText(b []byte) bool { return all(b, classText) }

// isPlainTarget reports whether every HTTP implementation reads the target in the same way:
// escapes are complete and there is no fragment.
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

// EqualFold reports whether b equals lower, which is in lower case, ignoring case.
func EqualFold(b []byte, lower string) bool {
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

// trimmed returns the span without surrounding white space.
func trimmed(b []byte, from, to int) Span {
	for from < to && (b[from] == ' ' || b[from] == '\t') {
		from++
	}
	for from < to && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	return Span{from, to}
}

// decimal parses a small number that consists of digits only.
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

// IsUnquoted reports whether quoting would change nothing: s is printable ASCII without
// quotes and backslashes.
func IsUnquoted(s string) bool {
	for i := range len(s) {
		if classes[s[i]]&classUnquoted == 0 {
			return false
		}
	}
	return true
}
