package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"time"

	"ingot/internal/notify"
)

// Request is a send request from an HTTP API, with a valid format.
type Request struct {
	// Client is the caller's client id, MayCritical whether its token carries
	// critical_notifications.write.
	Client      string
	MayCritical bool
	// KindID is empty only for mail to an address, and for v2, which fills
	// Campaign.
	KindID    string
	Campaign  *notify.CampaignType
	Template  string
	Audiences []notify.Audience
	// Members are recipients with their data, instead of Audiences. They are read once; an
	// error ends the request, and nothing is sent.
	Members iter.Seq2[notify.Member, error]
	Content notify.Content
	// WithData lets the schema of the kind decide about Data, also about none.
	WithData  bool
	Data      json.RawMessage // a JSON object for templates
	Locale    string          // a BCP 47 tag
	RequestID string
	Trace     string // the request's traceparent
	// IdempotencyKey is the header's value; Hash covers the whole request.
	IdempotencyKey string
	Hash           string
	// MembersHash replaces Hash after Members were read.
	MembersHash func() string
	// SendAt is when to send; zero, or a time that has passed, means at once.
	SendAt time.Time
	// ExpiresAt is when what is not delivered is given up; zero means never.
	ExpiresAt time.Time
	// Attachments are stored files.
	Attachments []notify.Attachment
	// Occurrence is set for those of recurring sends, whose rights are Holder's.
	Occurrence *notify.Occurrence
	Holder     *notify.Holder
	// Async requests a response (202) before a large audience is read.
	Async bool
}

// Receipt is the result of a Request.
type Receipt struct {
	Send notify.Send
	// Replayed reports that this is the result of an earlier request with the
	// same idempotency key.
	Replayed bool
	// Members is the number of Request.Members, without Duplicates.
	Members, Duplicates int
}

// WarningsHeader is the header of responses that names what had no effect in a
// request, such as fields with unknown names. Its values are percent-encoded like
// those of X-Cf-Warnings.
const WarningsHeader = "X-Notifications-Warnings"

// RequestHash identifies a request, to detect the reuse of an idempotency key.
// Each part is hashed separately, so that different requests cannot collide.
func RequestHash(method, path string, body []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), body} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
