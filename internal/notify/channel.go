package notify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// UnsubscribeMark stands in a Body's text and HTML where the recipient's own
// Outgoing.Unsubscribe goes, so that messages that differ in nothing else share
// the body. It has the form of an address and differs between processes: bodies
// are never stored.
var UnsubscribeMark = func() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return "https://unsubscribe.invalid/" + hex.EncodeToString(b[:])
}()

// Body is a rendered message. Messages of one send share it when the template
// shows nothing of the single recipient but the link to unsubscribe, for which
// UnsubscribeMark stands, so that a channel can encode it once. It must not be
// changed.
type Body struct {
	Subject string
	Text    string // empty when there is no text part
	HTML    string // empty when there is no HTML part; active content is removed
}

// Outgoing is a message ready to leave.
type Outgoing struct {
	Number   int64
	ID       string // the public id, stable over attempts
	Attempt  int    // 1 for the first
	To       string // an address that was checked
	ReplyTo  string
	Body     *Body
	ClientID string
	Received time.Time // when the send was accepted
	// Unsubscribe is the https address that takes the recipient off this kind
	// with one POST, empty for critical kinds and messages without a kind.
	Unsubscribe string
}

// Verdict is what came of an attempt to deliver.
type Verdict int

// The verdicts.
const (
	// Accepted: the next hop answers for it now.
	Accepted Verdict = iota + 1
	// Temporary: try again later.
	Temporary
	// Permanent: it will never be taken.
	Permanent
)

// Result is a Verdict with what the other side said.
type Result struct {
	Verdict Verdict
	// Reason is for the sender's eyes: "550 5.1.1 no such user".
	Reason string
	// BadAddress tells that it is the address that was refused for good, not
	// the message, so that the address is to be suppressed.
	BadAddress bool
	// RetryAfter is when the other side said to come again; zero leaves it to
	// the schedule.
	RetryAfter time.Duration
}

// Channel delivers messages. channeltest holds the contract as tests.
type Channel interface {
	// Deliver tries each message and calls done exactly once for each, also
	// when ctx ends; what was not tried by then is Temporary. It returns when
	// all calls have returned. done may be called from several goroutines at
	// once.
	//
	// A connection calls done for a message that was accepted before it
	// transmits the content of the next one: so a crash leaves at most one
	// message a connection of which nobody knows that it was accepted.
	//
	// Deliver may be called from several goroutines at once.
	Deliver(ctx context.Context, batch []Outgoing, done func(i int, r Result))
}
