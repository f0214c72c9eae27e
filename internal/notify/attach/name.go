package attach

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxName limits a file name, in bytes.
const maxName = 150

// CleanName returns a plain file name: the last part of a path, without control characters, characters that change the
// direction of text or cannot be seen, and those that a system does not allow. It may be empty.
func CleanName(name string) string {
	name = strings.ToValidUTF8(name, "")
	if at := strings.LastIndexAny(name, `/\`); at >= 0 {
		name = name[at+1:]
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' || r == '\u0085':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || hidden(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		case strings.ContainsRune(`<>:"|?*`, r):
			return '_'
		}
		return r
	}, norm.NFC.String(name))
	name = strings.Join(strings.Fields(name), " ")
	name = strings.Trim(name, " .")
	name = shorten(name)
	base, _, _ := strings.Cut(name, ".")
	switch strings.ToUpper(base) {
	case "CON", "PRN", "AUX", "NUL", "COM1", "COM2", "COM3", "COM4", "COM5", "COM6", "COM7", "COM8", "COM9",
		"LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9": // devices of Windows
		return "_" + name
	}
	return name
}

// hidden reports whether a character is not a format character but cannot be seen either.
func hidden(r rune) bool {
	switch {
	case r == utf8.RuneError, r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0', r == '\u2800', r == '\u034f',
		r >= '\ufe00' && r <= '\ufe0f':
		return true
	}
	return false
}

// shorten shortens a name before its extension, without splitting characters.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	end := path.Ext(name)
	if len(end) > 20 {
		end = ""
	}
	n := maxName - len(end)
	for !utf8.RuneStart(name[n]) {
		n--
	}
	return strings.TrimRight(name[:n], " .") + end
}

// extension returns the extension of a cleaned name in lower case, without its dot.
func extension(name string) string { return strings.ToLower(strings.TrimPrefix(path.Ext(name), ".")) }
