package notify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// DigestRule says which messages of a kind are collected instead of delivered one by one, and how. NewDigestRule makes
// one; it must not be changed.
//
// A message that is collected, an entry, stays what it is: it waits, counts, is canceled with its send and erased with
// its recipient as any other, and is in no queue. When the digest ends, one transaction gives its entries the status
// Digested and makes the digest: a send with one message, which is delivered as any other.
type DigestRule struct {
	// Window is how long entries are collected, from the first one.
	Window Delay `json:"window,omitzero"`
	// Max is how many entries end the digest before that.
	Max int `json:"max"`
	// Key is a field of the recipient's data, such as "thread.id": entries with different values are in different digests.
	// Empty means that a recipient has one digest of the kind.
	Key string `json:"key,omitempty"`
	// Channels are those whose messages are collected, each in its own digest; none means all.
	Channels []ChannelID `json:"channels,omitempty"`
	// Choice is what users may choose instead. If Window is 0, only those who choose an interval get digests.
	Choice []DigestChoice `json:"choice,omitempty"`
}

const (
	// MaxDigest is the largest DigestRule.Max, defaultDigest that of a rule without.
	MaxDigest     = 500
	defaultDigest = 100
	minWindow     = time.Second

	// A digest has what fits of its entries: the rest is counted.
	maxDigestBytes = 256 << 10
	// Data of an entry that is larger is not in the digest.
	maxEntryData  = 16 << 10
	maxEntryText  = 2000
	maxDigestName = 200
)

// NewDigestRule returns a rule, or an error that says what is wrong. A limit of 0 is the default. With a choice, the
// window may be empty.
func NewDigestRule(window string, limit int, key string, channels []string, choice ...string) (*DigestRule, error) {
	r := &DigestRule{Max: cmp.Or(limit, defaultDigest), Key: key}
	var problems []string
	r.Choice, problems = parseDigestChoices(choice, window != "")
	d, err := time.ParseDuration(window)
	r.Window = Delay(d)
	if window == "" && len(choice) > 0 {
		if key != "" {
			problems = append(problems, `"key" needs a "window": a digest that a user has chosen is not divided`)
		}
	} else if err != nil || d < minWindow || d > MaxDelay {
		problems = append(problems, fmt.Sprintf(`"window" must be a duration such as 90s, 15m or 36h, at least %s and `+
			`at most %s`, Delay(minWindow), Delay(MaxDelay)))
	}
	if limit < 0 || limit == 1 || limit > MaxDigest {
		problems = append(problems, fmt.Sprintf(`"max" must be a number from 2 to %d`, MaxDigest))
	}
	if key != "" && (len(key) > maxField || slices.Contains(strings.Split(key, "."), "") || !utf8.ValidString(key) ||
		strings.ContainsFunc(key, unicode.IsControl)) {
		problems = append(problems, fmt.Sprintf(`"key" must be the name of a field of the data, such as thread.id, of at `+
			"most %d bytes", maxField))
	}
	if len(channels) > 0 {
		set, err := ParseChannels(channels)
		if err != nil {
			problems = append(problems, err.Error())
		} else {
			r.Channels = set.List()
		}
	}
	return r, fault.Invalid(problems...)
}

// String describes the rule: "collected by thread for 1h, at most 50".
func (r *DigestRule) String() string {
	text := ""
	if len(r.Channels) > 0 {
		text = strings.Join(ChannelsOf(r.Channels...).Names(), ", ") + " "
	}
	switch {
	case r.Window == 0:
		text += "not collected"
	case r.Key != "":
		text += fmt.Sprintf("collected by %s for %s, at most %d", r.Key, r.Window, r.Max)
	default:
		text += fmt.Sprintf("collected for %s, at most %d", r.Window, r.Max)
	}
	if len(r.Choice) > 0 {
		names := make([]string, len(r.Choice))
		for i, c := range r.Choice {
			names[i] = strings.ReplaceAll(c.String(), "_", " ")
		}
		text += "; users may choose " + strings.Join(names, ", ")
	}
	return text
}

// Collects reports whether the messages of a channel are collected in digests as long as their recipients have not
// chosen otherwise.
func (s *Send) Collects(by ChannelID) bool { return s.applies(by) && s.DigestRule.Window > 0 }

// Delays reports whether messages of a channel may wait long, for a workflow or in a digest: they count as delayed.
func (s *Send) Delays(by ChannelID) bool { return s.Workflow.Delay(by) > 0 || s.Collects(by) }

// DelaysAny reports whether Delays holds for any channel.
func (s *Send) DelaysAny() bool {
	return s.Workflow.Delays() || slices.ContainsFunc(s.Channels.List(), s.Collects)
}

// Name returns which digest of the recipient an entry with this data belongs to.
func (r *DigestRule) Name(data map[string]any) string {
	if r.Key == "" {
		return ""
	}
	value, exists := fieldOf(data, r.Key)
	if !exists {
		return ""
	}
	text, isText := value.(string)
	if !isText {
		raw, err := json.Marshal(value)
		if err != nil {
			return ""
		}
		text = string(raw)
	}
	if len(text) > maxDigestName || !storableText(text) || strings.HasPrefix(text, own) {
		sum := sha256.Sum256([]byte(text))
		return "sha256 " + hex.EncodeToString(sum[:])
	}
	return text
}

func storableText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Entry is the decision that a message is collected.
type Entry struct {
	Rule *DigestRule
	Name string // see DigestRule.Name
	// Chosen reports that the recipient has chosen the interval. Then Rule is that of the choice, and Name is set.
	Chosen bool
}

// Digest is what a digest's send has collected.
type Digest struct {
	// Count is the number of entries, of which Items has those that fit, oldest first.
	Count int          `json:"count"`
	Items []DigestItem `json:"items"`
	// Phone is the number for SMS that the send of the latest entry gave; "" means that of the user.
	Phone string `json:"phone,omitempty"`
}

// More returns the number of entries that are not in Items.
func (d *Digest) More() int { return d.Count - len(d.Items) }

// DigestItem is what a digest shows of an entry.
type DigestItem struct {
	// At is when its send was accepted or due.
	At      time.Time       `json:"at"`
	Subject string          `json:"subject"`
	Text    string          `json:"text,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Excerpt returns the text of a message that a digest shows. It must have no side effects.
type Excerpt func(Content) string

// DigestDraft is a digest to which entries are added, oldest first.
type DigestDraft struct {
	send    Send
	to      Recipient
	expires bool
	bytes   int
}

// Add adds an entry: a message of a send, with its data and language.
func (d *DigestDraft) Add(m *Message, s *Send, data json.RawMessage, locale string, excerpt Excerpt) {
	// The latest entry decides what it looks like and where it goes.
	n := Send{ClientID: s.ClientID, KindID: s.KindID, KindDescription: s.KindDescription,
		SourceDescription: s.SourceDescription, TemplateID: s.TemplateID, Locale: locale,
		Channels: ChannelsOf(m.Channel), Kept: s.Kept, Tracking: s.Tracking, Digest: d.send.Digest, Expanded: true}
	d.to = Recipient{UserID: m.UserID, Email: m.Email, Channel: m.Channel}
	switch {
	case m.UserID != "":
		n.Audiences = []Audience{{Type: ToUser, ID: m.UserID}}
	case m.Channel != Chat:
		n.Audiences = []Audience{{Type: ToEmail, ID: m.Email}}
	}
	if n.Digest == nil {
		n.Digest = &Digest{}
		n.Content, n.Data, d.expires = s.Content, data, true // of a digest with one entry
	}
	n.Content.ReplyTo = s.Content.ReplyTo
	n.Digest.Count++
	if n.Digest.Count > 1 {
		n.Content = Content{ReplyTo: s.Content.ReplyTo,
			Subject: fmt.Sprintf("%d notifications: %s", n.Digest.Count, cmp.Or(s.KindDescription, s.KindID))}
	}
	// It is given up when all entries would be.
	if d.expires = d.expires && !s.ExpiresAt.IsZero(); d.expires {
		n.ExpiresAt = d.send.ExpiresAt
		if s.ExpiresAt.After(n.ExpiresAt) {
			n.ExpiresAt = s.ExpiresAt
		}
	}
	d.send = n
	d.item(s, data, excerpt)
}

// Call sets the number for SMS that the send of the latest entry gave, or "".
func (d *DigestDraft) Call(phone string) { d.send.Digest.Phone = phone }

func (d *DigestDraft) item(s *Send, data json.RawMessage, excerpt Excerpt) {
	if d.bytes < 0 {
		return // an earlier one did not fit
	}
	item := DigestItem{At: s.Received.UTC(), Subject: s.Content.Subject, Text: shortened(excerpt(s.Content)), Data: data}
	if s.SendAt.After(s.Received) {
		item.At = s.SendAt.UTC()
	}
	if len(data) > maxEntryData {
		item.Data = nil
	}
	const overhead = 100
	n := len(item.Subject) + len(item.Text) + len(item.Data) + overhead
	if d.bytes+n > maxDigestBytes {
		d.bytes = -1
		return
	}
	d.bytes += n
	d.send.Digest.Items = append(d.send.Digest.Items, item)
}

// shortened cuts a text that is too long for a list of them.
func shortened(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxEntryText {
		return text
	}
	return strings.TrimSpace(strings.ToValidUTF8(text[:maxEntryText], "")) + "…"
}

// Send returns the digest's send, which is accepted at a time, and the recipient of its message.
func (d *DigestDraft) Send(number int64, now time.Time) (Send, Recipient) {
	s := d.send
	s.Number, s.Received = number, now
	s.Cursor = Cursor{Audience: len(s.Audiences)}
	return s, d.to
}

// List returns the digest as a message without a template for it shows it: a text and HTML.
func (d *Digest) List() (text, markup string) {
	var t, h strings.Builder
	h.WriteString("<ul>\n")
	for _, item := range d.Items {
		at := item.At.UTC().Format("2 January 15:04 MST")
		fmt.Fprintf(&t, "* %s (%s)\n", item.Subject, at)
		fmt.Fprintf(&h, "<li><b>%s</b> (%s)", html.EscapeString(item.Subject), at)
		if item.Text != "" {
			t.WriteString("  " + strings.ReplaceAll(item.Text, "\n", "\n  ") + "\n")
			h.WriteString("<br>\n" + strings.ReplaceAll(html.EscapeString(item.Text), "\n", "<br>\n"))
		}
		t.WriteString("\n")
		h.WriteString("</li>\n")
	}
	h.WriteString("</ul>\n")
	if n := d.More(); n > 0 {
		fmt.Fprintf(&t, "And %d more.\n", n)
		fmt.Fprintf(&h, "<p>And %d more.</p>\n", n)
	}
	return t.String(), h.String()
}

// Data returns the digest as templates and webhooks get it.
func (d *Digest) Data() (map[string]any, error) {
	number := func(n int) json.Number { return json.Number(fmt.Sprint(n)) }
	items := make([]any, 0, len(d.Items))
	for _, item := range d.Items {
		data, err := DecodeData(item.Data)
		if err != nil {
			return nil, err
		}
		items = append(items, map[string]any{"At": item.At.UTC().Format(time.RFC3339), "Subject": item.Subject,
			"Text": item.Text, "Data": data})
	}
	return map[string]any{"Count": number(d.Count), "More": number(d.More()), "Items": items}, nil
}

// Digests collects messages.
type Digests interface {
	// SetDigestRule sets the rule of a kind, or removes it with nil. ErrNotFound when the kind is missing. It fails as
	// ThrottleRule.Fits does if the kind would have rules that do not fit each other.
	SetDigestRule(ctx context.Context, ref KindRef, r *DigestRule) error
	// CloseDigests ends digests that are due or full, at most limit, of several clients in turn. In one transaction, the
	// entries get the status Digested, or another final one if they expired or were canceled meanwhile, and the digest
	// becomes a send with one message. Each is ended once, also by several processes.
	CloseDigests(ctx context.Context, limit int, excerpt Excerpt) (DigestsClosed, error)
}

// DigestsClosed is what CloseDigests did.
type DigestsClosed struct {
	Digests int // that ended
	Entries int // that became Digested
	// Next is when the next digest is due; zero if there is none.
	Next time.Time
}

// Followed returns a message whose status says what became of it: that of its digest, if it was collected.
func Followed(ctx context.Context, in Sends, m Message) (Message, error) {
	if m.Status != Digested {
		return m, nil
	}
	of, _, err := in.Message(ctx, m.Digest)
	if errors.Is(err, ErrNotFound) {
		return m, nil // purged
	}
	m.Status = of.Status
	return m, err
}

// erased returns the digest without what was about its recipient.
func (d *Digest) erased() *Digest {
	if d == nil {
		return nil
	}
	return &Digest{Count: d.Count}
}

// Size is about how many bytes the digest takes; none takes none.
func (d *Digest) Size() (n int) {
	if d == nil {
		return 0
	}
	for _, item := range d.Items {
		n += len(item.Subject) + len(item.Text) + len(item.Data)
	}
	return n
}

// DigestChoice is how a user wants the messages of a kind: as its client says, or otherwise, if the kind's DigestRule
// lets them choose that. Numbers are stored.
type DigestChoice uint8

// The choices. The intervals collect messages from the first one on.
const (
	DigestDefault DigestChoice = iota
	DigestAtOnce
	DigestHourly
	DigestDaily
	DigestWeekly

	digestChoices = int(DigestWeekly) + 1
)

var digestChoiceNames = [digestChoices]string{"default", "at_once", "hourly", "daily", "weekly"}

// String returns the name in APIs.
func (c DigestChoice) String() string {
	if int(c) < digestChoices {
		return digestChoiceNames[c]
	}
	return fmt.Sprintf("digest choice %d", uint8(c))
}

// MarshalText implements encoding.TextMarshaler.
func (c DigestChoice) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *DigestChoice) UnmarshalText(text []byte) error {
	i := slices.Index(digestChoiceNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a choice of digests", text)
	}
	*c = DigestChoice(i)
	return nil
}

// interval returns how long a user's own digest collects; 0 for other choices.
func (c DigestChoice) interval() time.Duration {
	return map[DigestChoice]time.Duration{DigestHourly: time.Hour, DigestDaily: 24 * time.Hour,
		DigestWeekly: 7 * 24 * time.Hour}[c]
}

// own begins the names of digests whose interval their recipient has chosen.
const own = "chosen: "

// OwnDigests returns the names of a recipient's digests of a kind that collect at another interval than the chosen one.
func OwnDigests(but DigestChoice) (names []string) {
	for c := range DigestChoice(digestChoices) {
		if c.interval() > 0 && c != but {
			names = append(names, own+c.String())
		}
	}
	return names
}

// parseDigestChoices returns what users may choose, in order, and the problems.
func parseDigestChoices(names []string, collects bool) (all []DigestChoice, problems []string) {
	for _, name := range names {
		var c DigestChoice
		switch err := c.UnmarshalText([]byte(name)); {
		case err != nil || c == DigestDefault:
			problems = append(problems, fmt.Sprintf(`"choice" has %q and may have %s`, name,
				strings.Join(digestChoiceNames[1:], ", ")))
		case slices.Contains(all, c):
			problems = append(problems, fmt.Sprintf(`"choice" has %q more than once`, name))
		case c == DigestAtOnce && !collects:
			problems = append(problems, `"choice" has "at_once", but without a "window" all are sent at once`)
		default:
			all = append(all, c)
		}
	}
	slices.Sort(all)
	return all, problems
}

// Choices returns what a user may choose for a kind, DigestDefault first; none if they have no choice.
func (k *Kind) Choices() []DigestChoice {
	if k.Critical || k.DigestRule == nil || len(k.DigestRule.Choice) == 0 {
		return nil
	}
	return append([]DigestChoice{DigestDefault}, k.DigestRule.Choice...)
}

// applies reports whether the rule is about the messages of a channel: those of critical kinds are not collected, as a
// kind may have become critical after it got its rule, nor those with attachments or an event, which a digest does not
// have.
func (s *Send) applies(by ChannelID) bool {
	return s.DigestRule != nil && !s.Critical && s.Digest == nil && len(s.Attachments) == 0 && s.Content.Event == nil &&
		(len(s.DigestRule.Channels) == 0 || slices.Contains(s.DigestRule.Channels, by))
}

// MayCollect reports whether messages of a channel are collected, or would be if their recipient has chosen that.
func (s *Send) MayCollect(by ChannelID) bool {
	return s.CollectsAll(by) || s.applies(by) && len(s.DigestRule.Choice) > 0
}

// Collecting returns how a message is collected whose recipient has made a choice; nil if it is not.
func (s *Send) Collecting(by ChannelID, c DigestChoice) *Entry {
	if s.applies(by) && slices.Contains(s.DigestRule.Choice, c) {
		if c.interval() == 0 {
			return nil
		}
		return &Entry{Rule: &DigestRule{Window: Delay(c.interval()), Max: s.DigestRule.Max}, Name: own + c.String(),
			Chosen: true}
	}
	if s.CollectsAll(by) {
		return &Entry{Rule: s.DigestRule}
	}
	return nil
}
