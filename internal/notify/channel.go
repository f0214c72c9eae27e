package notify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// UnsubscribeMark is the placeholder in a Body's text and HTML for the
// recipient's own Outgoing.Unsubscribe, so that messages that differ only in
// this link share the body. It looks like a URL and differs between processes:
// bodies are never stored.
var UnsubscribeMark = func() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return "https://unsubscribe.invalid/" + hex.EncodeToString(b[:])
}()

// Body is a rendered message. Messages of one send share it when the template
// shows nothing specific to a recipient except the unsubscribe link, which is
// replaced by UnsubscribeMark, so that a channel can encode it once. It must
// not be changed.
type Body struct {
	Subject string
	Text    string // empty when there is no text part
	HTML    string // empty when there is no HTML part; active content is removed
}

// Outgoing is a message that is ready for delivery.
type Outgoing struct {
	Number   int64
	ID       string // the public id, stable over attempts
	Attempt  int    // 1 for the first
	To       string // a validated address, for SMS a phone number; empty in the inbox, and where it is not known
	UserID   string // empty for an address without a user, and in a chat
	KindID   string // of the kind or campaign type; empty for mail without one
	ReplyTo  string
	Body     *Body
	ClientID string
	Received time.Time // when the send was accepted
	// Unsubscribe is the https URL that unsubscribes the recipient from this
	// kind with one POST; empty for critical kinds and messages without a kind.
	Unsubscribe string
	// SendID is set for webhooks only; Data, what templates got, for them and for Push.
	SendID string
	Data   map[string]any
	// Browsers, Critical and ExpiresAt (zero for never) are set for Push only.
	Browsers  []PushSubscription
	Critical  bool
	ExpiresAt time.Time
	// Thread is set for mail only: the id of the conversation that it belongs to, or "". So is Event.
	Thread string
	Event  *Invitation
	// Attached is set for mail only; nil if the send has no attachments.
	Attached *Attached
}

// Verdict is the result of a delivery attempt.
type Verdict int

const (
	// Accepted means that the next hop is now responsible for the message.
	Accepted Verdict = iota + 1
	// Temporary means that the message can be tried again later.
	Temporary
	// Permanent means that the message will never be accepted.
	Permanent
)

// Result is a Verdict with the reason given by the next hop.
type Result struct {
	Verdict Verdict
	// Reason is shown to the sender: "550 5.1.1 no such user".
	Reason string
	// BadAddress reports whether the address, not the message, was rejected
	// permanently, so that it has to be suppressed.
	BadAddress bool
	// RetryAfter is when the next hop asked to try again; zero means according
	// to the schedule.
	RetryAfter time.Duration
	// Untried means that the message is Temporary because the next hop had no room for it: it is no attempt.
	Untried bool
	// Via says who delivered an Accepted message, if there were several to choose from.
	Via string
}

// Channel delivers messages. Package channeltest tests implementations.
type Channel interface {
	// Deliver attempts to deliver each message and calls done exactly once for
	// each, also when ctx is done; messages not attempted by then are
	// Temporary. It returns when all calls have returned. done may be called
	// concurrently.
	//
	// A connection calls done for an accepted message before it sends the
	// content of the next one. So a crash leaves at most one message per
	// connection whose acceptance is not recorded.
	//
	// Deliver may be called concurrently.
	Deliver(ctx context.Context, batch []Outgoing, done func(i int, r Result))
}
