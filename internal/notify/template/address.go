package template

import (
	"strings"
	"unicode"
)

var (
	webSchemes   = words(`http https`)
	linkSchemes  = words(`http https mailto tel sms cid mid ftp webcal xmpp`)
	imageSchemes = words(`http https cid data`)
)

// stripIgnored removes the characters that browsers ignore in addresses: white
// space, control and invisible characters. They can hide a forbidden scheme.
func stripIgnored(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) ||
			r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s)
}

// scheme returns the text before the first colon, in lower case, or nothing if
// there is no colon. It need not be a well-formed scheme.
func scheme(s string) string {
	i := strings.IndexAny(s, ":/?#")
	if i < 0 || s[i] != ':' {
		return ""
	}
	return strings.ToLower(s[:i])
}

// address returns an address that may stay.
func address(s string, allowed map[string]bool) (string, bool) {
	if !addressAllowed(s, allowed) {
		return "", false
	}
	// Browsers drop line breaks and control characters inside, so drop them first.
	for i := range len(s) {
		if s[i] < ' ' {
			return strings.Map(func(r rune) rune {
				if r < ' ' {
					return -1
				}
				return r
			}, s), true
		}
	}
	return s, true
}

func addressAllowed(s string, allowed map[string]bool) bool {
	s = stripIgnored(s)
	name := scheme(s)
	switch {
	case name == "" && strings.HasPrefix(s, ":"):
		return false
	case name == "":
		return true
	case !allowed[name]:
		return false
	case name == "data":
		return isBitmap(s[len("data:"):])
	}
	return true
}

// isBitmap reports whether the rest of a data address is a bitmap. SVG is not
// allowed: it is a document that can contain scripts.
func isBitmap(rest string) bool {
	kind, _, _ := strings.Cut(rest, ",")
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	switch kind {
	case "image/png", "image/gif", "image/jpeg", "image/jpg", "image/webp", "image/bmp", "image/avif", "image/x-icon":
		return true
	}
	return false
}

// isFont reports whether the rest of a data address is a font, as in style
// sheets.
func isFont(rest string) bool {
	rest = strings.ToLower(rest)
	return strings.HasPrefix(rest, "font/") || strings.HasPrefix(rest, "application/font-") ||
		strings.HasPrefix(rest, "application/x-font-")
}

// imageSet checks every address of a srcset: "a.png 1x, b.png 2x".
func imageSet(s string) bool {
	for {
		s = strings.TrimLeft(s, ", \t\r\n\f")
		if s == "" {
			return true
		}
		end := strings.IndexAny(s, " \t\r\n\f")
		if end < 0 {
			end = len(s)
		}
		one, rest := s[:end], s[end:]
		if trimmed := strings.TrimRight(one, ","); trimmed != one {
			one = trimmed
		} else if _, after, found := strings.Cut(rest, ","); found {
			rest = after
		} else {
			rest = ""
		}
		if !addressAllowed(one, imageSchemes) {
			return false
		}
		s = rest
	}
}

const hexDigits = "0123456789ABCDEF"

// appendAddressPart writes a value into an address. After a ? or # it is data and
// fully encoded; before, it may be a path or a whole address, so that only
// characters that are invalid in addresses are encoded.
func appendAddressPart(dst []byte, s string, data bool) []byte {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~':
			dst = append(dst, c)
		case !data && strings.IndexByte("!#$%&'()*+,/:;=?@[]", c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}
