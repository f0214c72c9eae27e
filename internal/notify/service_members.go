package notify

import (
	"context"
	"net/mail"
	"strings"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// Reader reads the members of audiences, in chunks, from a Directory. Users and
// addresses that are named individually need no Directory.
type Reader struct {
	Directory Directory
	Lists     Lists
	// Channels are those of the send: there is one recipient for each member and channel.
	Channels Channels
	// Page is the number of members per request.
	Page int
	// Near stops before the first audience that needs the Directory.
	Near bool
	// Lenient skips audiences that do not exist and calls Skipped. Otherwise
	// they are errors.
	Lenient bool
	Skipped func(a Audience, err error)
}

// Read returns the members that follow from, at least want of them unless the
// audiences end, the position after them, and whether that is the end. A member
// appears once per chunk, attributed to the last audience that contains it. An
// error is returned alone: members read before it are returned first, without
// it.
func (r Reader) Read(ctx context.Context, audiences []Audience, from Cursor, want int) (members []Recipient, to Cursor,
	done bool, err error) {
	seen := map[Recipient]int{}
	to = from
	for to.Audience < len(audiences) && len(members) < want {
		a := audiences[to.Audience]
		if r.Near && !near(a) {
			break
		}
		page, next, err := r.page(ctx, a, to.Page)
		switch {
		case err == nil:
		case r.Lenient && (fault.Is(err, fault.NotFound) || fault.Is(err, fault.NotAcceptable)):
			if r.Skipped != nil {
				r.Skipped(a, err)
			}
			page, next = nil, ""
		case len(members) > 0:
			return r.Channels.Messages(members), to, false, nil
		default:
			return nil, to, false, err
		}
		for _, m := range page {
			if a.Type != ToList {
				m.Audience = to.Audience
			}
			if m = clean(m); m.UserID == "" && m.Email == "" {
				continue
			}
			key := Recipient{UserID: m.UserID}
			if m.UserID == "" {
				key.Email = strings.ToLower(m.Email)
			}
			if at, ok := seen[key]; ok {
				members[at].Audience = m.Audience
				continue
			}
			seen[key] = len(members)
			members = append(members, m)
		}
		to.Page = next
		if next == "" {
			to.Audience++
		}
	}
	return r.Channels.Messages(members), to, to.Audience >= len(audiences), nil
}

func (r Reader) page(ctx context.Context, a Audience, cursor string) ([]Recipient, string, error) {
	switch a.Type {
	case ToUser:
		return []Recipient{{UserID: a.ID}}, "", nil
	case ToEmail:
		return []Recipient{{Email: a.ID}}, "", nil
	case ToList:
		return listPage(ctx, r.Lists, a.ID, cursor)
	}
	return r.Directory.Page(ctx, a, cursor, r.Page)
}

// clean removes text that no database can store, so that one malformed entry of
// a directory does not prevent the delivery to all others.
func clean(m Recipient) Recipient {
	for _, s := range []*string{&m.UserID, &m.Email} {
		if strings.ContainsRune(*s, 0) || !utf8.ValidString(*s) {
			*s = ""
		}
	}
	return m
}

// near reports whether the members of an audience are known without a
// Directory.
func near(a Audience) bool { return a.Type == ToUser || a.Type == ToEmail || a.Type == ToList }

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
