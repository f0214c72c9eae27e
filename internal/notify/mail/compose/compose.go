package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/address"
)

// Identity is the sender of mail.
type Identity struct {
	// From is an address, or "Name <address>".
	From string
	// Domain is the right side of each Message-ID; empty means From's.
	Domain string
	// Return is the envelope sender, to which bounces are sent; empty means
	// From's address.
	Return string
	// Tag returns what marks a message, by its id, at most notify.TagLength bytes. It is put into the envelope sender,
	// "bounces+TAG@domain", and into a header, so that reports about the message can be told from forged ones. nil means
	// that all messages have the same envelope sender.
	Tag func(id string) string
}

// Message is a composed message.
type Message struct {
	// From and To are the envelope, as sent over SMTP.
	From, To string
	// Header and Body together are the text. Body begins with the empty line
	// and may be shared with other messages: neither may be changed.
	Header, Body []byte
	// Tail follows Body if it is not nil: the attachments, which messages of a send share too.
	Tail []byte
	// UTF8 reports whether addresses or headers contain UTF-8, so that the next
	// server must support SMTPUTF8.
	UTF8 bool
}

// Size returns the number of bytes of the text.
func (m *Message) Size() int { return len(m.Header) + len(m.Body) + len(m.Tail) }

// Parts returns the text in parts.
func (m *Message) Parts() [][]byte { return [][]byte{m.Header, m.Body, m.Tail} }

// BadAddressError means that no server would accept the recipient.
type BadAddressError struct{ Err error }

func (e *BadAddressError) Error() string { return e.Err.Error() }
func (e *BadAddressError) Unwrap() error { return e.Err }

// Failure returns the result of a message that cannot be composed.
func Failure(err error) notify.Result {
	var bad *BadAddressError
	return notify.Result{Verdict: notify.Permanent, Reason: clean(err.Error()), BadAddress: errors.As(err, &bad)}
}

// Composer composes messages of one Identity. It is safe for concurrent use.
type Composer struct {
	domain   string
	from     []byte // the whole From header
	sender   string // its address
	envelope string // the envelope sender, or with tags its part before the tag
	suffix   string // the part after the tag
	tag      func(id string) string
	bodies   cache
	link     atomic.Pointer[linkBase] // of the last unsubscribe link
}

// linkBase is an unsubscribe link that was checked, up to the token.
type linkBase struct {
	text   string
	secure bool // one click is enough
}

// New returns a Composer for an identity.
func New(id Identity) (*Composer, error) {
	name, addr, err := address.ParseNamed(id.From)
	if err != nil {
		return nil, fmt.Errorf("the sender of mail: %w", err)
	}
	from, eightBit, err := address.Wire(addr)
	if err != nil || eightBit {
		return nil, fmt.Errorf("the sender of mail: %q has to be ASCII before the @, so that every server accepts it", addr)
	}
	c := &Composer{domain: id.Domain, tag: id.Tag, envelope: from, sender: from}
	if c.domain == "" {
		c.domain = address.Domain(addr)
	}
	if _, err := address.Parse("id@" + c.domain); err != nil {
		return nil, fmt.Errorf("the domain of message ids: %w", err)
	}
	c.domain = address.Domain("id@" + c.domain)
	if id.Return != "" {
		parsed, err := address.Parse(id.Return)
		if err != nil {
			return nil, fmt.Errorf("the address for bounces: %w", err)
		}
		if c.envelope, eightBit, err = address.Wire(parsed); err != nil || eightBit {
			return nil, fmt.Errorf("the address for bounces: %q has to be ASCII before the @", parsed)
		}
	}
	if id.Tag != nil {
		at := strings.LastIndexByte(c.envelope, '@')
		if err := LeavesRoom(c.envelope); err != nil {
			return nil, fmt.Errorf("the address for bounces: %w", err)
		}
		c.envelope, c.suffix = c.envelope[:at]+"+", c.envelope[at:]
	}
	c.from = appendAddress(nil, "From", name, from)
	return c, nil
}

// LeavesRoom checks that an address leaves room for the tag of a message, which is added before its @.
func LeavesRoom(addr string) error {
	if at := strings.LastIndexByte(addr, '@'); at > notify.MaxReturn {
		return fmt.Errorf("%s has %d bytes before the @, at most %d leave room for the tag of a message", addr, at,
			notify.MaxReturn)
	}
	return nil
}

// Domain returns the right side of Message-IDs.
func (c *Composer) Domain() string { return c.domain }

// Message composes o. Its errors are permanent: the same message always fails
// the same way.
func (c *Composer) Message(o *notify.Outgoing, now time.Time) (*Message, error) {
	to, utf8To, err := recipient(o.To)
	if err != nil {
		return nil, &BadAddressError{err}
	}
	if !plainID(o.ID) {
		return nil, fmt.Errorf("the message's id %q cannot be part of a Message-ID", o.ID)
	}
	if o.Body == nil {
		return nil, errors.New("the message has no body")
	}
	body := c.bodies.get(o.Body)
	m := &Message{From: c.envelope, To: to, Body: body.with(o.Unsubscribe), UTF8: utf8To}
	contentType := body.contentType
	if o.Event != nil {
		contentType, m.Body = body.alternative(m.Body, c.calendar(o, to))
	}
	h := make([]byte, 0, 1024+len(body.subject))
	if c.tag != nil {
		tag := c.tag(o.ID)
		if !plainID(tag) || len(tag) > notify.TagLength {
			return nil, fmt.Errorf("the message's id %q cannot be part of a return path", o.ID)
		}
		m.From = c.envelope + tag + c.suffix
		h = appendText(h, address.ReportHeader, tag)
	}
	h = appendText(h, "X-CF-Client-ID", o.ClientID)
	h = appendText(h, "X-CF-Notification-ID", o.ID)
	h = appendTime(h, "X-CF-Notification-Timestamp: ", now, time.RFC3339Nano)
	h = appendTime(h, "X-CF-Notification-Request-Received: ", o.Received, time.RFC3339Nano)
	h = appendTime(h, "Date: ", now, "Mon, 02 Jan 2006 15:04:05 -0700")
	h = append(h, "Message-ID: <"...)
	h = append(h, o.ID...)
	h = append(h, '@')
	h = append(h, c.domain...)
	h = append(h, ">\r\nMIME-Version: 1.0\r\n"...)
	if o.Attached == nil {
		h = append(h, contentType...)
	} else {
		files := filesOf(o.Attached, o)
		h = append(h, files.contentType...)
		m.Body, m.Tail = slices.Concat(files.open, contentType, m.Body), files.tail
	}
	if h, err = c.appendThread(h, o.Thread); err != nil {
		return nil, err
	}
	h = append(h, c.from...)
	if o.ReplyTo != "" {
		name, addr, err := address.ParseNamed(o.ReplyTo)
		if err != nil {
			return nil, fmt.Errorf("the address for replies: %w", err)
		}
		wire, eightBit, err := address.Wire(addr)
		if err != nil {
			return nil, fmt.Errorf("the address for replies: %w", err)
		}
		m.UTF8 = m.UTF8 || eightBit
		h = appendAddress(h, "Reply-To", name, wire)
	}
	h = appendAddress(h, "To", "", to)
	h = append(h, body.subject...)
	h = append(h, "Auto-Submitted: auto-generated\r\n"...)
	if o.Unsubscribe != "" {
		if h, err = c.appendUnsubscribe(h, o.Unsubscribe); err != nil {
			return nil, err
		}
		if o.KindID != "" {
			h = append(h, "List-Id: <"+listLabel(o.KindID)+"."+listLabel(o.ClientID)+"."+c.domain+">\r\n"...)
		}
	}
	m.Header = h
	return m, nil
}

// appendThread appends the headers by which mail programs find a conversation. They name a message that does not exist,
// so all messages of the conversation are replies to the same one, whichever arrives first.
func (c *Composer) appendThread(h []byte, thread string) ([]byte, error) {
	if thread == "" {
		return h, nil
	}
	if !plainID(thread) {
		return h, fmt.Errorf("the conversation's id %q cannot be part of a Message-ID", thread)
	}
	root := "<" + thread + "@" + c.domain + ">\r\n"
	return append(h, "References: "+root+"In-Reply-To: "+root...), nil
}

const (
	maxListLabel = 48
	// listLabelKept is how much of a text stays that is no label, before its hash.
	listLabelKept = 32
)

// listLabel returns a label of a List-Id (RFC 2919) for the id of a kind or client: the id itself if it is one,
// otherwise what can be used of it with a hash.
func listLabel(id string) string {
	label := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' {
			return r
		}
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '-'
	}, id)
	label = strings.Trim(label, "-")
	if label == id && label != "" && len(label) <= maxListLabel {
		return label
	}
	sum := sha256.Sum256([]byte(id))
	label = strings.Trim(label[:min(len(label), listLabelKept)], "-") + "-" + hex.EncodeToString(sum[:5])
	return strings.TrimPrefix(label, "-")
}

// WithoutTag hides the tag of a message in what a server said about it: senders read that, and must not know the tag.
func (c *Composer) WithoutTag(id, text string) string {
	if c.tag == nil || !strings.Contains(text, "+") && len(text) < notify.TagLength {
		return text
	}
	return notify.WithoutTag(text, c.tag(id))
}

func recipient(to string) (string, bool, error) {
	// Addresses were validated on input; this is the last check.
	addr, err := address.Parse(to)
	if err != nil {
		return "", false, err
	}
	return address.Wire(addr)
}

// plainID reports whether an id needs no quoting in a local part.
func plainID(id string) bool {
	if id == "" || len(id) > 200 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func appendTime(h []byte, name string, t time.Time, layout string) []byte {
	h = append(h, name...)
	h = t.UTC().AppendFormat(h, layout)
	return append(h, '\r', '\n')
}

// appendUnsubscribe appends the headers of RFC 2369 and RFC 8058. One-click is
// used for https only, except on loopback, where there is no https.
func (c *Composer) appendUnsubscribe(h []byte, raw string) ([]byte, error) {
	secure, err := c.checkLink(raw)
	if err != nil {
		return h, err
	}
	h = append(h, "List-Unsubscribe: <"...)
	h = append(h, raw...)
	h = append(h, ">\r\n"...)
	if secure {
		h = append(h, "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"...)
	}
	return h, nil
}

// checkLink checks an unsubscribe link, and reports whether one click is enough. Links differ in their
// token only: what is before it is parsed once.
func (c *Composer) checkLink(raw string) (secure bool, err error) {
	token := strings.LastIndexByte(raw, '/') + 1
	plain := plainID(raw[token:])
	if base := c.link.Load(); base != nil && plain && raw[:token] == base.text {
		return base.secure, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || !visible(raw) ||
		strings.ContainsAny(raw, "<>,") {
		return false, fmt.Errorf("the unsubscribe address %q is not a plain https address", raw)
	}
	secure = u.Scheme == "https" || loopback(u.Hostname())
	if plain && u.Path != "" && len(raw) < 500 {
		c.link.Store(&linkBase{raw[:token], secure})
	}
	return secure, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || (ip != nil && ip.IsLoopback())
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return len(s) < 900
}
