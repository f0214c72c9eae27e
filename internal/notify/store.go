package notify

import (
	"context"
	"errors"
	"time"
)

// What stores answer when something is not there, exists already, or does not
// fit. They are wrapped, so use errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrConflict  = errors.New("exists already")
	ErrQueueFull = errors.New("too many messages are waiting")
	// ErrTooMany is given for recipients of a send beyond MaxRecipients.
	ErrTooMany = errors.New("a send has too many recipients")
	// ErrKeyReused is given for an idempotency key that came with another
	// request before.
	ErrKeyReused = errors.New("the idempotency key belongs to another request")
)

// Store keeps everything. Each method is one transaction. storetest holds the
// contract as tests. Any number of server processes may share a store that
// says so.
type Store interface {
	Registry
	Templates
	Preferences
	Campaigns
	Sends
	Queue
	Upkeep
}

// Registry holds clients and kinds.
type Registry interface {
	// Register creates or renames the client and creates or changes the kinds,
	// whose assigned templates stay. With prune, the client's other kinds are
	// deleted.
	Register(ctx context.Context, c Client, kinds []Kind, prune bool) error
	Clients(ctx context.Context) ([]Client, error)
	Client(ctx context.Context, id string) (Client, error)
	// Kinds returns all kinds of a client, or of all clients for "".
	Kinds(ctx context.Context, clientID string) ([]Kind, error)
	Kind(ctx context.Context, ref KindRef) (Kind, error)
	// UpdateKind replaces a kind; an empty TemplateID keeps the present one.
	UpdateKind(ctx context.Context, k Kind) error
	// AssignTemplate gives a client, or with a KindID one of its kinds, a
	// template. ErrNotFound when the client or kind is missing; a missing
	// template is ErrConflict.
	AssignTemplate(ctx context.Context, a Association, templateID string) error
}

// Templates holds templates of both APIs.
type Templates interface {
	CreateTemplate(ctx context.Context, t Template) error
	Template(ctx context.Context, id string) (Template, error)
	// ListTemplates returns those of an owner ("" are v1's), without defaults,
	// oldest first.
	ListTemplates(ctx context.Context, owner string) ([]Template, error)
	UpdateTemplate(ctx context.Context, t Template) error
	// DeleteTemplate also makes everything that used it use the default.
	DeleteTemplate(ctx context.Context, id string) error
	Associations(ctx context.Context, templateID string) ([]Association, error)
	// SeedTemplate creates a built-in template, or replaces it unless it was
	// overridden.
	SeedTemplate(ctx context.Context, t Template) error
}

// Preferences holds what users want to receive.
type Preferences interface {
	// Preferences lists the kinds that are not critical of every client that
	// ever sent the user anything.
	Preferences(ctx context.Context, userID string) (global bool, kinds []Preference, err error)
	// ChangePreferences applies all of it or nothing. The caller has checked
	// that the kinds exist and are not critical.
	ChangePreferences(ctx context.Context, userID string, c PreferenceChange) error
	// Unsubscribed returns those of userIDs that do not want a kind, be it that
	// one or any.
	Unsubscribed(ctx context.Context, ref KindRef, userIDs []string) (map[string]bool, error)
	// Suppressed returns those of the addresses (any case) that are suppressed,
	// by their spelling given here.
	Suppressed(ctx context.Context, emails []string) (map[string]bool, error)
	// Suppress adds addresses, all in one transaction.
	Suppress(ctx context.Context, all ...Suppression) error
	// Suppressions lists by address, after the one given.
	Suppressions(ctx context.Context, after string, limit int) ([]Suppression, error)
	Unsuppress(ctx context.Context, email string) error
}

// Campaigns holds the v2 API's nouns. Ids are given by the caller.
type Campaigns interface {
	// CreateSender returns the client's sender of that name if there is one.
	CreateSender(ctx context.Context, s Sender) (Sender, error)
	Sender(ctx context.Context, id string) (Sender, error)
	Senders(ctx context.Context, clientID string) ([]Sender, error)
	UpdateSender(ctx context.Context, s Sender) error // ErrConflict: name taken
	DeleteSender(ctx context.Context, id string) error
	// CreateCampaignType returns the sender's type of that name if there is one.
	CreateCampaignType(ctx context.Context, t CampaignType) (CampaignType, error)
	CampaignType(ctx context.Context, id string) (CampaignType, error)
	CampaignTypes(ctx context.Context, senderID string) ([]CampaignType, error)
	UpdateCampaignType(ctx context.Context, t CampaignType) error // ErrConflict: name taken
	DeleteCampaignType(ctx context.Context, id string) error
}

// NewSend is a send to accept.
type NewSend struct {
	Send
	// Recipients are the first ones; when Expanded is set they are all.
	Recipients []Recipient
	// Idempotency is empty, or a key of the client with a hash of the request.
	Idempotency Idempotency
}

// Idempotency names a request that may be repeated without effect.
type Idempotency struct {
	Key  string
	Hash string // of method, path and body
	// Until is when the key is forgotten.
	Until time.Time
}

// MessageQuery narrows a client's list of messages. Empty fields do not.
type MessageQuery struct {
	ClientID string // always set
	Send     int64
	Status   Status
	Parked   bool
	UserID   string
	Email    string
	KindID   string
	// Since and Before bound Updated.
	Since, Before time.Time
	// After is the number of the last message seen; the newest come first.
	After int64
	Limit int
}

// Sends reads what was sent.
type Sends interface {
	Send(ctx context.Context, number int64) (Send, error)
	// ListSends returns a client's sends, newest first, those before the number
	// given (0: from the newest).
	ListSends(ctx context.Context, clientID string, before int64, limit int) ([]Send, error)
	// Message returns a message and the client it belongs to.
	Message(ctx context.Context, number int64) (m Message, clientID string, err error)
	// MessagesOf returns messages of a send in order of their numbers, those
	// after the one given (-1: from the first).
	MessagesOf(ctx context.Context, send, after int64, limit int) ([]Message, error)
	FindMessages(ctx context.Context, q MessageQuery) ([]Message, error)
}

// Lane is a queue of its own. A claim takes from all of them, so that neither
// bulk mail nor retries keep single messages waiting.
type Lane int

// The lanes.
const (
	LaneSingle Lane = iota // sends to few recipients
	LaneBulk               // the rest
	LaneRetry              // further attempts
)

// SingleLimit is how many recipients a send may have to be in LaneSingle.
const SingleLimit = 100

// Claimed is a message to deliver, with its send.
type Claimed struct {
	Message
	Send *Send // shared by the messages of a send
}

// Queue moves messages through their life.
type Queue interface {
	// Accept stores a send with its first recipients and its idempotency key in
	// one transaction, all or nothing, and returns it with its number. Calls
	// that come at the same time share a commit. It fails with ErrQueueFull, or
	// ErrKeyReused; a key that came with the same request returns the earlier
	// send and replayed.
	Accept(ctx context.Context, n NewSend) (s Send, replayed bool, err error)
	// Repeated returns the send that a client's idempotency key belongs to, and
	// whether there is one; ErrKeyReused when it came with another request.
	Repeated(ctx context.Context, clientID string, key Idempotency) (s Send, repeated bool, err error)
	// Extend adds recipients to a send and moves its cursor. It is ErrTooMany when
	// the send would have more than MaxRecipients. from must be the
	// cursor stored: otherwise another process was faster and it is ErrConflict.
	// Recipients that the send has already (by user id, else address) are left
	// out.
	Extend(ctx context.Context, send int64, from Cursor, more []Recipient, to Cursor, expanded bool) error
	// ClaimExpansions leases sends that are not fully expanded to owner.
	ClaimExpansions(ctx context.Context, owner string, limit int, lease time.Duration) ([]Send, error)
	// Claim leases messages that are due to owner: at most limit, from all
	// lanes, oldest first in each. A message is not given out again before its
	// lease ends, Finish, or Release.
	Claim(ctx context.Context, owner string, limit int, lease time.Duration) ([]Claimed, error)
	// Renew prolongs everything that owner holds.
	Renew(ctx context.Context, owner string, lease time.Duration) error
	// Release gives back everything that owner holds, at a clean stop and after
	// a restart of the same owner.
	Release(ctx context.Context, owner string) error
	// Finish records outcomes and the receipts of users. An outcome of a message
	// that is final already changes nothing. It returns the messages that it
	// changed to a final status. What tell answers for them is queued in the same
	// transaction: whoever sees that a message ended will be told, too.
	Finish(ctx context.Context, outcomes []Outcome, tell Teller) ([]Claimed, error)
	// Replay makes a client's failed message queued again. ErrNotFound when it
	// is not the client's, ErrConflict when it has not failed.
	Replay(ctx context.Context, clientID string, number int64) error
	// NextDue returns when the earliest waiting message is due; false if none
	// waits.
	NextDue(ctx context.Context) (time.Time, bool, error)
	// Waiting is how many messages are not final.
	Waiting(ctx context.Context) (int, error)
}

// Upkeep is the rest.
type Upkeep interface {
	// Shared tells whether other processes may work on the same queue.
	Shared() bool
	// IDKey returns the 32 bytes for NewIDs, made at first use and kept sealed.
	IDKey(ctx context.Context) ([]byte, error)
	// Purge deletes in small steps: messages that have been final since before,
	// sends without messages, ended idempotency keys. It returns how many
	// messages went.
	Purge(ctx context.Context, before time.Time) (int, error)

	CreateWebhook(ctx context.Context, w Webhook) error
	Webhooks(ctx context.Context, clientID string) ([]Webhook, error)
	DeleteWebhook(ctx context.Context, clientID, id string) error
	// Callbacks leases what is to be told to webhooks, and is due; FinishCallback
	// removes one, or with a time puts it off until then.
	Callbacks(ctx context.Context, owner string, limit int, lease time.Duration) ([]Callback, error)
	FinishCallback(ctx context.Context, id string, again time.Time) error
}

// Teller makes the calls to one webhook about messages of its client that reached
// their end. It is asked inside of a transaction, so it does nothing else, and
// may be asked more than once; of the webhook it gets id, client and events. nil
// tells nobody anything.
type Teller func(w Webhook, final []*Claimed) []Callback

// Callback is a call to a webhook that has to be made.
type Callback struct {
	ID        string
	WebhookID string
	Payload   []byte
	Attempts  int
	// URL and Secret are the webhook's, filled in by Callbacks.
	URL, Secret string
}
