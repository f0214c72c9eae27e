package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// AudienceType is the type of an audience's id.
type AudienceType string

const (
	ToUser     AudienceType = "user"
	ToSpace    AudienceType = "space"
	ToOrg      AudienceType = "organization"
	ToEveryone AudienceType = "everyone"
	ToScope    AudienceType = "scope"
	ToEmail    AudienceType = "email"
	// ToTopic is a topic of the client that sends, by its name.
	ToTopic AudienceType = "topic"
	// ToList is a list of recipients in Lists.
	ToList AudienceType = "list"
)

// Audience is a group of recipients. The names are set by Directory.Resolve;
// templates and endorsements show them.
type Audience struct {
	Type AudienceType `json:"type"`
	// ID is the guid of a user, space or organization, the scope, the
	// address, or the name of the topic.
	ID string `json:"id,omitempty"`
	// Role narrows an organization: OrgManager, OrgAuditor or BillingManager.
	Role      string `json:"role,omitempty"`
	SpaceName string `json:"space_name,omitempty"`
	OrgID     string `json:"org_id,omitempty"`
	OrgName   string `json:"org_name,omitempty"`
}

// Recipient is one member of an audience. One of the fields may be empty: an
// address without a user, or a user whose address is looked up at delivery.
type Recipient struct {
	UserID string
	Email  string
	// Audience is the index of the audience it came from, or its position in a list.
	Audience int
	// Channel is how the message reaches it.
	Channel ChannelID
}

// Content is the content of a notification.
type Content struct {
	Subject string `json:"subject"`
	Text    string `json:"text,omitempty"`
	HTML    string `json:"html,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"`
	// Thread is a key of the client: mail with the same one to the same recipient is shown as one conversation.
	Thread string `json:"thread,omitempty"`
	// Event makes the mail an invitation; nil for others.
	Event *Invitation `json:"event,omitempty"`
}

// EventMethod is what an invitation is for.
type EventMethod string

const (
	RequestEvent EventMethod = "REQUEST" // invites, or changes an event
	CancelEvent  EventMethod = "CANCEL"
)

// Invitation is an event in a calendar, and whether recipients are invited to it or it is canceled.
type Invitation struct {
	Method EventMethod `json:"method"`
	// UID is the client's id of the event.
	UID string `json:"uid"`
	// Start and End (which is not part of it) are moments, or with AllDay dates in UTC.
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	AllDay bool      `json:"all_day,omitempty"`
	// Sequence counts the changes of the event.
	Sequence    int    `json:"sequence,omitempty"`
	Summary     string `json:"summary"`
	Location    string `json:"location,omitempty"`
	Description string `json:"description,omitempty"`
	// Organizer gets the answers; without an address it is the sender of the mail.
	Organizer Organizer `json:"organizer,omitzero"`
}

// Organizer is who sends an Invitation.
type Organizer struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// Bounds of an Invitation.
const (
	MaxEventUID         = 200
	MaxEventLine        = 500 // of Summary, Location and the organizer's name
	MaxEventDescription = 8 << 10
	MaxEventSpan        = 366 * 24 * time.Hour
	MaxEventSequence    = 1_000_000_000
)

// ID returns the id of the event in calendars. It depends on the client, so that no client can change or cancel the
// events of another.
func (e *Invitation) ID(clientID string) string {
	sum := sha256.Sum256([]byte(clientID + "\x00" + e.UID))
	return hex.EncodeToString(sum[:16])
}

// Size is about what the event takes in memory.
func (e *Invitation) Size() int {
	if e == nil {
		return 0
	}
	return 512 + len(e.UID) + len(e.Summary) + len(e.Location) + len(e.Description)
}

// Check says what is wrong with an event.
func (e *Invitation) Check() (problems []string) {
	if e == nil {
		return nil
	}
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if e.Method != RequestEvent && e.Method != CancelEvent {
		bad(`"event.method" must be REQUEST or CANCEL`)
	}
	for _, f := range []struct {
		name, value string
		most        int
		needed      bool
	}{
		{"uid", e.UID, MaxEventUID, true}, {"summary", e.Summary, MaxEventLine, true},
		{"location", e.Location, MaxEventLine, false}, {"organizer.name", e.Organizer.Name, MaxEventLine, false},
		{"description", e.Description, MaxEventDescription, false},
	} {
		text := f.value
		if f.name == "description" {
			text = strings.NewReplacer("\r\n", "", "\n", "", "\t", "").Replace(text)
		}
		switch {
		case f.needed && f.value == "":
			bad("\"event.%s\" is required", f.name)
		case len(f.value) > f.most:
			bad("\"event.%s\" is %d bytes long, at most %d are allowed", f.name, len(f.value), f.most)
		case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
			bad("\"event.%s\" must be text without control characters", f.name)
		}
	}
	if e.Organizer.Email != "" && !UsableAddress(e.Organizer.Email) {
		bad(`"event.organizer.email" is not an email address`)
	}
	if e.Sequence < 0 || e.Sequence > MaxEventSequence {
		bad(`"event.sequence" must be a number from 0 to %d`, MaxEventSequence)
	}
	const first, last = 1970, 2199
	if y := e.Start.UTC().Year(); y < first || y > last {
		bad(`"event.start" must be between %d and %d`, first, last)
	}
	if !e.End.After(e.Start) || e.End.Sub(e.Start) > MaxEventSpan {
		bad(`the event must end after its start, at most 366 days later`)
	}
	return problems
}

// MaxThread limits Content.Thread.
const MaxThread = 200

// CheckThread says what is wrong with a key for conversations; empty if nothing is.
func CheckThread(key string) string {
	if len(key) > MaxThread {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(key), MaxThread)
	}
	if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return "must be text without control characters"
	}
	return ""
}

// Send is an accepted request to notify an audience. v2 calls it a campaign.
type Send struct {
	// Number is assigned by the store; the numbers of its messages are derived
	// from it.
	Number   int64
	ClientID string
	// KindID is empty for mail to an address without a kind.
	KindID string
	// SenderID and CampaignTypeID are set by the v2 API instead of KindID.
	SenderID       string
	CampaignTypeID string
	// Critical, KindDescription and SourceDescription are as they were when the
	// send was accepted.
	Critical          bool
	KindDescription   string
	SourceDescription string
	// TemplateID is the template in the request; empty means that of the kind,
	// else of the client, else the default, chosen at delivery.
	TemplateID string
	// Channels are those of the kind when the send was accepted.
	Channels Channels
	// Workflow is that of the kind then, or nil.
	Workflow *Workflow
	// DigestRule is that of the kind then, or nil.
	DigestRule *DigestRule
	// ThrottleRule is that of the kind then, or nil.
	ThrottleRule *ThrottleRule
	// Kept is that of the kind then: how long messages are kept after they are final; 0 means the server's default.
	Kept time.Duration
	// Tracking is that of the kind then.
	Tracking  Tracking
	Audiences []Audience
	Content   Content
	// Digest is what the send of a digest has collected; nil for others.
	Digest *Digest
	// Data is a JSON object for templates, or nil; Locale is a BCP 47 tag, or "".
	Data      json.RawMessage
	Locale    string
	RequestID string // the caller's X-Vcap-Request-Id
	Trace     string // traceparent of the request; "" if it is not traced
	Received  time.Time
	// SendAt is when its messages are due, by the machine's clock; zero means at once.
	SendAt time.Time
	// ExpiresAt is when messages that are not delivered become undeliverable, by the
	// machine's clock; zero means never.
	ExpiresAt time.Time
	// Attachments are sent with its mail.
	Attachments []Attachment

	// Scheduled reports that it waits for SendAt and has no messages yet.
	Scheduled bool
	// Canceled is when it was canceled, zero if it was not.
	Canceled time.Time
	// Cursor is the position up to which the audiences were read; Expanded
	// reports that all were.
	Cursor   Cursor
	Expanded bool
	Counts   Counts
	// Finished is when the last message became final, zero before.
	Finished time.Time
}

// Preferred returns the key under which users unsubscribe from this send.
func (s *Send) Preferred() KindRef {
	if s.CampaignTypeID != "" {
		return KindRef{KindID: s.CampaignTypeID}
	}
	return KindRef{s.ClientID, s.KindID}
}

// List returns the id of the list of recipients, or "" if the send has audiences.
func (s *Send) List() string {
	if len(s.Audiences) == 1 && s.Audiences[0].Type == ToList {
		return s.Audiences[0].ID
	}
	return ""
}

// Cursor is a position in a send's audiences.
type Cursor struct {
	Audience int    `json:"audience"`
	Page     string `json:"page,omitempty"` // the Directory's own cursor; empty means the beginning
}

// Counts are a send's messages by status. They stay when messages are purged.
type Counts struct {
	Total, Queued, Retry, Delivered, Failed, Undeliverable, Unsubscribed, Canceled, Skipped,
	Digested, Throttled int
}

// Done returns the number of messages whose status is final.
func (c Counts) Done() int {
	return c.Delivered + c.Failed + c.Undeliverable + c.Unsubscribed + c.Canceled + c.Skipped + c.Digested +
		c.Throttled
}

// Status is the delivery status of a message.
type Status string

// The package comment shows the transitions.
const (
	Queued        Status = "queued"
	Retry         Status = "retry"
	Delivered     Status = "delivered"
	Failed        Status = "failed"
	Undeliverable Status = "undeliverable"
	Unsubscribed  Status = "unsubscribed" // v1 shows it as undeliverable, v2 counts it as sent
	Canceled      Status = "canceled"     // v1 shows it as undeliverable, as v2 counts it
	Skipped       Status = "skipped"      // by a workflow or the user; v1 shows it as undeliverable, v2 as sent
	Digested      Status = "digested"     // v1 shows what became of the digest
	Throttled     Status = "throttled"    // over the kind's limit; v1 shows it as undeliverable, v2 as sent
)

// Final reports whether the status no longer changes by itself.
func (s Status) Final() bool {
	switch s {
	case Delivered, Failed, Undeliverable, Unsubscribed, Canceled, Skipped, Digested, Throttled:
		return true
	}
	return false
}

// Message is a send to one recipient.
type Message struct {
	Number int64 // of the message; its public id is IDs.Encode(Number)
	Recipient
	Status   Status
	Attempts int // delivery attempts
	// Due is when the next attempt is allowed; zero when Status is final.
	Due     time.Time
	Updated time.Time
	// Reason says why the latest attempt failed; it is shown to the sender.
	Reason string
	// Parked marks a failed message that was not rejected by a server: it could
	// not be rendered, or crashed the worker. An operator may replay it.
	Parked bool
	// Canceled marks a waiting message whose send was canceled while it was claimed:
	// it is not attempted again.
	Canceled bool
	// Digest is the number of the digest's message if Status is Digested. Collected reports that it waits for its
	// digest, until Due.
	Digest    int64
	Collected bool
	// Quiet reports that it waits because its recipient wants that: for the end of their quiet hours, or in a digest of
	// their interval. Postponed reports that it waits for another attempt for any other reason.
	Quiet, Postponed bool
}

// messageBits is the number of bits of a message number that count messages
// within a send, so that message numbers are derived from the send's number.
const messageBits = 24

// MaxRecipients limits the recipients of one send.
const MaxRecipients = 1<<messageBits - 1

// MessageNumber returns the number of the i-th message of a send, from 0.
func MessageNumber(send int64, i int) int64 { return send<<messageBits | int64(i) }

// SendOf returns the number of the send that a message belongs to.
func SendOf(message int64) int64 { return message >> messageBits }

// Outcome is the result of processing a message.
type Outcome struct {
	Number int64
	Status Status // Queued only with an Entry
	Due    time.Time
	Reason string
	Parked bool
	// Email is the address that was looked up, if the message had none.
	Email string
	// Attempted is false if no delivery was attempted: unsubscribed, no
	// address.
	Attempted bool
	At        time.Time
	// TemplateID and TemplateVersion are what it was rendered with; empty if it was not.
	TemplateID      string
	TemplateVersion int64
	// Entry is set if the message is collected in a digest.
	Entry *Entry
	// Quiet is set if the message waits for the end of its recipient's quiet hours; Status is Retry then.
	Quiet bool
	// Permit is that of a message that is within a limit. It is taken back if the message was not attempted.
	Permit Permit
}
