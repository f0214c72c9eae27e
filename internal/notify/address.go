package notify

import (
	"net/mail"
	"strings"

	"ingot/internal/base/pattern"
)

// maxAddress is the maximum length of an address in SMTP.
const maxAddress = 254

// UsableAddress reports whether mail can be sent to the address: one mailbox,
// without a display name, and without characters that could end a line of SMTP.
func UsableAddress(s string) bool {
	if len(s) > maxAddress {
		return false
	}
	local, domain, ok := cutLast(s, '@')
	if !ok || local == "" || domain == "" {
		return false
	}
	if plain(local) && plain(domain) {
		return true
	}
	a, err := mail.ParseAddress(s)
	if err != nil || a.Name != "" {
		return false
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '<' || r == '>' {
			return false
		}
	}
	return !strings.ContainsAny(domain, " ,;")
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// plain reports whether s is alphanumeric with a few other characters, with
// dots only between them: a fast path for nearly all addresses.
func plain(s string) bool {
	dot := true
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '+':
			dot = false
		case c == '.' && !dot:
			dot = true
		default:
			return false
		}
	}
	return !dot
}

// AddressScheme begins the user ids of AddressSubscriber.
const AddressScheme = "mailto:"

// AddressSubscriber returns the user id under which the preferences of an
// address without a user are stored. It is empty for an empty address.
func AddressSubscriber(email string) string {
	if email == "" {
		return ""
	}
	return AddressScheme + strings.ToLower(email)
}

var escaped = pattern.OnUse(`%[0-9A-Fa-f]{2}`)

// NamedUser returns the user whom a path names with an id or mailto:ADDRESS, or why it names none. An id that is still
// escaped is refused: any id can have preferences, so a change for it would be stored without effect.
func NamedUser(id string) (user, problem string) {
	if escaped().MatchString(id) {
		return "", "the user's id is escaped twice"
	}
	if address, ok := strings.CutPrefix(id, AddressScheme); ok {
		id = AddressSubscriber(address)
	}
	return id, UserProblem(id)
}
