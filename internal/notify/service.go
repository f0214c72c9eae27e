package notify

import (
	"context"
)

// Request is a send as a face hands it over, checked for form.
type Request struct {
	// Client is the caller's client id, MayCritical whether its token carries
	// critical_notifications.write.
	Client      string
	MayCritical bool
	// KindID is empty only for mail to an address, and for v2, which fills
	// Campaign.
	KindID    string
	Campaign  *CampaignType
	Template  string
	Audiences []Audience
	Content   Content
	RequestID string
	// IdempotencyKey is the header's value; Hash covers the whole request.
	IdempotencyKey string
	Hash           string
	// Async answers before a large audience is read; the faces' answer is 202.
	Async bool
}

// Receipt is the answer to a Request.
type Receipt struct {
	Send Send
	// Replayed tells that this is the answer to an earlier request of the same
	// idempotency key.
	Replayed bool
}

// Faces is what the HTTP faces need of the service beside the store.
type Faces interface {
	// Send checks what only the store and the directory know (the kind is
	// registered, its criticality is allowed, the audience exists, the limits
	// of the client are kept) and accepts.
	Send(ctx context.Context, r Request) (Receipt, error)
	// Messages calls each for the messages of a send in order. Of a send that is
	// still being expanded it waits for the rest, unless ctx ends.
	Messages(ctx context.Context, send int64, each func(Message) error) error
	// IDs names messages and sends.
	IDs() *IDs
	// RateLimit is what the client may still ask for.
	RateLimit(client string) RateLimit
}
