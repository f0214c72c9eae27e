package compose

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	lineLength = 76 // where lines are folded
	wordLength = 75 // of one encoded word, RFC 2047
)

// clean makes s a single line: each run of white space and control characters
// becomes a space, invalid UTF-8 the replacement character.
func clean(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.IsControl(r) || unicode.IsSpace(r) || r == '\u2028' || r == '\u2029' {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// plain reports whether s can be used in a header as is: printable ASCII,
// single spaces, and nothing that looks like an encoded word.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ':
			if i == 0 || i == len(s)-1 || s[i-1] == ' ' {
				return false
			}
		case c < ' ' || c >= 0x7f:
			return false
		}
	}
	return !strings.Contains(s, "=?")
}

// appendText appends a header of free text, folded and encoded if necessary.
func appendText(h []byte, name, value string) []byte {
	h = append(h, name...)
	h = append(h, ':', ' ')
	value = clean(value)
	if plain(value) && !longWord(value) {
		h = appendFolded(h, value, len(name)+2)
	} else {
		h = appendEncoded(h, value, len(name)+2)
	}
	return append(h, '\r', '\n')
}

// longWord reports whether folding at spaces would leave a line too long.
func longWord(s string) bool {
	length := 0
	for i := range len(s) {
		if length++; s[i] == ' ' {
			length = 0
		}
		if length > 500 {
			return true
		}
	}
	return false
}

// appendFolded folds lines at spaces. used is the length of the first line so
// far.
func appendFolded(h []byte, s string, used int) []byte {
	for first := true; s != ""; first = false {
		word, rest, _ := strings.Cut(s, " ")
		switch {
		case first:
		case used+1+len(word) > lineLength:
			h = append(h, '\r', '\n', ' ')
			used = 1
		default:
			h = append(h, ' ')
			used++
		}
		h = append(h, word...)
		used += len(word)
		s = rest
	}
	return h
}

// appendEncoded appends s as encoded words, without splitting characters.
func appendEncoded(h []byte, s string, used int) []byte {
	const open, end = "=?utf-8?b?", "?="
	for first := true; s != "" || first; first = false {
		if !first {
			h = append(h, '\r', '\n', ' ')
			used = 1
		}
		room := (min(wordLength, lineLength-used) - len(open) - len(end)) / 4 * 3
		if room < utf8.UTFMax {
			h = append(h, '\r', '\n', ' ')
			used = 1
			room = (wordLength - len(open) - len(end)) / 4 * 3
		}
		n := len(s)
		if n > room {
			for n = room; !utf8.RuneStart(s[n]); n-- { //nolint:revive // the end of the last whole character
			}
		}
		h = append(h, open...)
		h = base64.StdEncoding.AppendEncode(h, []byte(s[:n]))
		h = append(h, end...)
		s = s[n:]
	}
	return h
}

// appendAddress appends a header of one address, which must be valid.
func appendAddress(h []byte, header, name, addr string) []byte {
	h = append(h, header...)
	h = append(h, ':', ' ')
	used := len(header) + 2
	if name = clean(name); name != "" {
		start := len(h)
		if plain(name) && len(name) < 60 {
			h = append(h, '"')
			for i := range len(name) {
				if name[i] == '"' || name[i] == '\\' {
					h = append(h, '\\')
				}
				h = append(h, name[i])
			}
			h = append(h, '"')
		} else {
			h = appendEncoded(h, name, used)
		}
		// Start a new line if the name has filled this one.
		if used+len(h)-start+len(addr)+3 > lineLength {
			h = append(h, '\r', '\n')
		}
		h = append(h, ' ', '<')
		h = append(h, addr...)
		h = append(h, '>', '\r', '\n')
		return h
	}
	if used+len(addr) > lineLength {
		h = append(h, '\r', '\n', ' ')
	}
	h = append(h, addr...)
	return append(h, '\r', '\n')
}
