package notify

import "time"

// AudienceType says what an audience's id is.
type AudienceType string

// The audiences.
const (
	ToUser     AudienceType = "user"
	ToSpace    AudienceType = "space"
	ToOrg      AudienceType = "organization"
	ToEveryone AudienceType = "everyone"
	ToScope    AudienceType = "scope"
	ToEmail    AudienceType = "email"
)

// Audience is to whom a send goes. The names are filled in by
// Directory.Resolve; templates and endorsements show them.
type Audience struct {
	Type AudienceType `json:"type"`
	// ID is the guid of a user, space or organization, the scope, or the
	// address.
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
	// Audience is the index of the audience it came from.
	Audience int
}

// Content is what the caller wants to say.
type Content struct {
	Subject string `json:"subject"`
	Text    string `json:"text,omitempty"`
	HTML    string `json:"html,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"`
}

// Send is an accepted request to notify an audience. v2 calls it a campaign.
type Send struct {
	// Number is given by the store; the numbers of its messages follow from it.
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
	// TemplateID is the template asked for by the request; empty means that of
	// the kind, else of the client, else the default, chosen at delivery.
	TemplateID string
	Audiences  []Audience
	Content    Content
	RequestID  string // the caller's X-Vcap-Request-Id
	Received   time.Time

	// Cursor is how far the audiences were read; Expanded tells that all were.
	Cursor   Cursor
	Expanded bool
	Counts   Counts
	// Finished is when the last message reached its end, zero before.
	Finished time.Time
}

// Preferred is the key under which users unsubscribe from what this send is.
func (s *Send) Preferred() KindRef {
	if s.CampaignTypeID != "" {
		return KindRef{KindID: s.CampaignTypeID}
	}
	return KindRef{s.ClientID, s.KindID}
}

// Cursor is a place in a send's audiences.
type Cursor struct {
	Audience int    `json:"audience"`
	Page     string `json:"page,omitempty"` // the Directory's own word; empty is the beginning
}

// Counts are a send's messages by status. They stay when messages are purged.
type Counts struct {
	Total, Queued, Retry, Delivered, Failed, Undeliverable int
}

// Status is where a message is in its life.
type Status string

// The statuses; package doc draws how they follow each other.
const (
	Queued        Status = "queued"
	Retry         Status = "retry"
	Delivered     Status = "delivered"
	Failed        Status = "failed"
	Undeliverable Status = "undeliverable"
)

// Final reports whether nothing more will happen by itself.
func (s Status) Final() bool { return s == Delivered || s == Failed || s == Undeliverable }

// Message is a send to one recipient.
type Message struct {
	Number int64 // of the message; its public id is IDs.Encode(Number)
	Recipient
	Status   Status
	Attempts int // deliveries tried
	// Due is when the next attempt is allowed; zero when Status is final.
	Due     time.Time
	Updated time.Time
	// Reason says why the latest attempt failed, in words for the sender.
	Reason string
	// Parked marks a failed message that was not refused by anybody: it could
	// not be rendered, or ended the worker. An operator may replay it.
	Parked bool
}

// messageBits is how many bits of a message's number count within its send, so
// that message numbers follow from the send's number without a second sequence.
const messageBits = 24

// MaxRecipients bounds one send.
const MaxRecipients = 1<<messageBits - 1

// MessageNumber is the number of the i-th message of a send, from 0.
func MessageNumber(send int64, i int) int64 { return send<<messageBits | int64(i) }

// SendOf is the number of the send that a message belongs to.
func SendOf(message int64) int64 { return message >> messageBits }

// Outcome is what became of one attempt.
type Outcome struct {
	Number int64
	Status Status // never Queued
	Due    time.Time
	Reason string
	Parked bool
	// Email is the address that was found, when the message had none.
	Email string
	// Attempted is false when nothing was tried: unsubscribed, no address.
	Attempted bool
	At        time.Time
}
