package address

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The limits of RFC 5321, in octets. A path of 256 includes its brackets.
const (
	maxLocal   = 64
	maxAddress = 254
)

// ReportHeader is the header with the tag of a message. Complaints contain it when they hide the return path, which has
// the tag too.
const ReportHeader = "X-Notification-Report"

// Parse parses exactly one address. "Name <a@b>" returns a@b; lists, groups,
// quoted local parts and domain literals are rejected, because mail servers and
// people disagree about their meaning.
func Parse(s string) (string, error) {
	_, addr, err := ParseNamed(s)
	return addr, err
}

// ParseNamed is like Parse, but also returns the name before the brackets.
func ParseNamed(s string) (name, addr string, err error) {
	if simple(s) {
		return "", s, nil
	}
	if len(s) > 1000 {
		return "", "", errors.New("the address is longer than 1000 bytes")
	}
	if !utf8.ValidString(s) {
		return "", "", errors.New("the address is not valid UTF-8")
	}
	// Checked before parsing: net/mail accepts folded lines as white space.
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return "", "", fmt.Errorf("the address %q holds a control character", s)
		}
	}
	s = strings.TrimSpace(s)
	if s == "" {
		return "", "", errors.New("the address is empty")
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil {
		return "", "", fmt.Errorf("%q is not a mail address like user@example.com", s)
	}
	// The parser resolves quotes, comments and groups; then its result differs
	// from the input.
	if !strings.HasSuffix(s, parsed.Address) && !strings.HasSuffix(s, "<"+parsed.Address+">") {
		return "", "", fmt.Errorf("%q is not a mail address like user@example.com", s)
	}
	if err := check(parsed.Address); err != nil {
		return "", "", fmt.Errorf("%q is not a usable mail address: %w", s, err)
	}
	return parsed.Name, parsed.Address, nil
}

// simple is a fast path for common addresses, with the same result as the
// general rules.
func simple(s string) bool {
	at := strings.IndexByte(s, '@')
	if at <= 0 || at > maxLocal || len(s) > 100 {
		return false
	}
	before := byte('.')
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z':
		case (c == '_' || c == '+') && i < at:
		case c == '@' && i == at, c == '.', c == '-':
			// Only between alphabetic characters, which excludes encoded domains too.
			if before == '.' || before == '-' || before == '@' || i == len(s)-1 {
				return false
			}
		default:
			return false
		}
		before = c
	}
	last := s[strings.LastIndexAny(s, ".@")+1:]
	return len(last) <= 63 && strings.Trim(last, "0123456789") != "" && len(s)-at <= 64
}

func check(addr string) error {
	at := strings.LastIndexByte(addr, '@')
	local, domain := addr[:at], addr[at+1:]
	if len(local) > maxLocal {
		return fmt.Errorf("the part before the @ has more than %d bytes", maxLocal)
	}
	if len(addr) > maxAddress {
		return fmt.Errorf("it has more than %d bytes", maxAddress)
	}
	for _, atom := range strings.Split(local, ".") {
		if atom == "" {
			return errors.New("a dot is in the wrong position")
		}
		for _, r := range atom {
			if !atomRune(r) {
				return fmt.Errorf("%q cannot be before the @", r)
			}
		}
	}
	if strings.HasPrefix(domain, "[") {
		return errors.New("a domain name is required, not an address in brackets")
	}
	ascii, err := domainASCII(domain)
	if err != nil {
		return err
	}
	if len(local)+1+len(ascii) > maxAddress {
		return fmt.Errorf("it has more than %d bytes", maxAddress)
	}
	return nil
}

func atomRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return true
	case r < utf8.RuneSelf:
		return strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
	default:
		return unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
}

func domainASCII(domain string) (string, error) {
	ascii, err := idna.Lookup.ToASCII(domain)
	if err != nil || ascii == "" || len(ascii) > 253 {
		return "", fmt.Errorf("%q is not a domain name", domain)
	}
	for _, label := range strings.Split(strings.TrimSuffix(ascii, "."), ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return "", fmt.Errorf("%q is not a domain name", domain)
		}
	}
	if strings.HasSuffix(ascii, ".") {
		return "", fmt.Errorf("the domain %q ends with a dot", domain)
	}
	return ascii, nil
}

// Wire formats an address that Parse returned for SMTP, with the domain in
// ASCII. utf8Local reports whether the local part is not ASCII, so that the
// server must support SMTPUTF8.
func Wire(addr string) (wire string, utf8Local bool, err error) {
	at := strings.LastIndexByte(addr, '@')
	if at <= 0 {
		return "", false, fmt.Errorf("%q is not a mail address", addr)
	}
	if isASCII(addr) {
		return addr, false, nil
	}
	domain, err := domainASCII(addr[at+1:])
	if err != nil {
		return "", false, err
	}
	return addr[:at+1] + domain, !isASCII(addr[:at]), nil
}

// Domain returns the part after the @, in lower case and ASCII.
func Domain(addr string) string {
	domain := addr[strings.LastIndexByte(addr, '@')+1:]
	if isASCII(domain) {
		return strings.ToLower(domain)
	}
	if ascii, err := domainASCII(domain); err == nil {
		return ascii
	}
	return strings.ToLower(domain)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
