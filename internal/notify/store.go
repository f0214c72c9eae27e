package notify

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Errors of stores. They may be wrapped, so use errors.Is.
var (
	ErrNotFound  = errors.New("not found")
	ErrConflict  = errors.New("already exists")
	ErrQueueFull = errors.New("too many messages are waiting")
	// ErrScheduleFull means that a client has too many messages that wait for their time.
	ErrScheduleFull = errors.New("too many messages are scheduled")
	// ErrDelayedFull means that a client has too many messages that its workflows delay.
	ErrDelayedFull = errors.New("too many messages are delayed by workflows")
	// ErrQuietFull means that too many messages of a client wait for the end of quiet hours, or in digests that users have
	// chosen.
	ErrQuietFull = errors.New("too many messages wait because their recipients want that")
	// ErrTooMany means that a send would have more than MaxRecipients.
	ErrTooMany = errors.New("a send has too many recipients")
	// ErrKeyReused means that an idempotency key was used for a different
	// request.
	ErrKeyReused = errors.New("the idempotency key belongs to another request")
)

// Store stores the data of the notification service. Each method is one
// transaction. Package storetest tests implementations. Several server
// processes may use a store concurrently if Shared reports true.
type Store interface {
	Registry
	Templates
	Partials
	Preferences
	Topics
	Campaigns
	Sends
	Lists
	Queue
	Inboxes
	PushSubscriptions
	Destinations
	Providers
	Timelines
	Digests
	Throttles
	Retentions
	People
	Recurrings
	Statistics
	Reactions
	Files
	MailQuotas
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
	// Registration returns a client and one of its kinds. Those that are not
	// registered are empty; with an empty KindID the kind is not looked up.
	Registration(ctx context.Context, ref KindRef) (Client, Kind, error)
	// UpdateKind replaces a kind; an empty TemplateID keeps the present one.
	UpdateKind(ctx context.Context, k Kind) error
	// AssignTemplate gives a client, or with a KindID one of its kinds, a
	// template. ErrNotFound when the client or kind is missing; a missing
	// template is ErrConflict.
	AssignTemplate(ctx context.Context, a Association, templateID string) error
	// SetChannels sets the channels of a kind or campaign type. ErrNotFound when it is missing.
	SetChannels(ctx context.Context, ref KindRef, c Channels) error
	// SetWorkflow sets the workflow of a kind, or removes it with nil. ErrNotFound when the kind is missing.
	SetWorkflow(ctx context.Context, ref KindRef, w *Workflow) error
	// Schema returns the JSON Schema of the data of a kind; nil if it has none.
	Schema(ctx context.Context, ref KindRef) (json.RawMessage, error)
	// SetSchema sets it, or removes it with nil. ErrNotFound when the kind is missing.
	SetSchema(ctx context.Context, ref KindRef, schema json.RawMessage) error
}

// Templates holds templates of both APIs.
type Templates interface {
	CreateTemplate(ctx context.Context, t Template) error
	Template(ctx context.Context, id string) (Template, error)
	// ListTemplates returns those of an owner ("" are v1's), without defaults,
	// oldest first.
	ListTemplates(ctx context.Context, owner string) ([]Template, error)
	// UpdateTemplate does not change the variants.
	UpdateTemplate(ctx context.Context, t Template) error
	// TemplateVersions returns the template, without partials, and then its earlier versions that are kept, newest first.
	TemplateVersions(ctx context.Context, id string) ([]Template, error)
	// RestoreTemplate makes an earlier version the current one, with its variants. ErrNotFound when it is not kept.
	RestoreTemplate(ctx context.Context, id string, version int64, updated time.Time, by string) error
	// SetVariant sets the variant of a template for a canonical locale, or removes it with nil, which
	// is ErrNotFound if there is none. ErrTooMany: the template has MaxVariants.
	SetVariant(ctx context.Context, templateID, locale string, v *Variant, updated time.Time, by string) error
	// DeleteTemplate also makes everything that used it use the default.
	DeleteTemplate(ctx context.Context, id string) error
	Associations(ctx context.Context, templateID string) ([]Association, error)
	// SeedTemplate creates a built-in template, or replaces it unless it was
	// overridden.
	SeedTemplate(ctx context.Context, t Template) error
}

// Partials holds the partials of templates. Owner "" is that of shared ones.
type Partials interface {
	// Partials lists those of an owner, by name.
	Partials(ctx context.Context, owner string) ([]Partial, error)
	Partial(ctx context.Context, owner, name string) (Partial, error)
	// PartialsFor returns partials by name, and those that they use: the client's, or else the shared one. Missing
	// ones are left out.
	PartialsFor(ctx context.Context, client string, names []string) (map[string]Partial, error)
	// SetPartial creates or replaces a partial; Created is that of the first time. ErrTooMany: the owner has MaxPartials.
	SetPartial(ctx context.Context, p Partial) error
	// DeletePartial is ErrConflict, with the users, if there are any.
	DeletePartial(ctx context.Context, owner, name string) ([]PartialUser, error)
	// PartialUsers returns the templates and partials that use a partial.
	PartialUsers(ctx context.Context, owner, name string) ([]PartialUser, error)
}

// Preferences holds the subscriptions of users.
type Preferences interface {
	// Preferences lists the kinds that are not critical of every client that
	// ever sent the user a notification.
	Preferences(ctx context.Context, userID string) (global bool, kinds []Preference, err error)
	// CampaignPreferences lists the campaign types of these clients in the same way, and further ones by their ids.
	CampaignPreferences(ctx context.Context, userID string, further ...string) ([]Preference, error)
	// ChangePreferences applies all changes or none. The caller has checked
	// that the kinds exist and are not critical. It is ErrNotFound for a topic that does not exist, or that
	// the user may not subscribe to, and ErrTooMany if its client has MaxSubscribers.
	ChangePreferences(ctx context.Context, userID string, c PreferenceChange) error
	// Unsubscribed returns the channels on which users do not want kinds, without those that are wanted on all:
	// UnwantedAll for users who unsubscribed from the kind or from everything.
	Unsubscribed(ctx context.Context, of []Subscription) (map[Subscription]Choice, error)
	// QuietHours returns the quiet hours of those users that have any.
	QuietHours(ctx context.Context, users []string) (map[string]*QuietHours, error)
	// Suppressed returns the suppressed addresses among emails, ignoring case,
	// in the given spelling.
	Suppressed(ctx context.Context, emails []string) (map[string]bool, error)
	// Suppress adds addresses, all in one transaction.
	Suppress(ctx context.Context, all ...Suppression) error
	// Suppressions lists suppressions by address, after the given one.
	Suppressions(ctx context.Context, after string, limit int) ([]Suppression, error)
	Unsuppress(ctx context.Context, email string) error
}

// Campaigns holds the resources of the v2 API. The caller assigns ids.
type Campaigns interface {
	// CreateSender returns the client's existing sender of that name, if any.
	CreateSender(ctx context.Context, s Sender) (Sender, error)
	Sender(ctx context.Context, id string) (Sender, error)
	Senders(ctx context.Context, clientID string) ([]Sender, error)
	UpdateSender(ctx context.Context, s Sender) error // ErrConflict: name taken
	DeleteSender(ctx context.Context, id string) error
	// CreateCampaignType returns the sender's existing type of that name, if
	// any.
	CreateCampaignType(ctx context.Context, t CampaignType) (CampaignType, error)
	CampaignType(ctx context.Context, id string) (CampaignType, error)
	CampaignTypes(ctx context.Context, senderID string) ([]CampaignType, error)
	UpdateCampaignType(ctx context.Context, t CampaignType) error // ErrConflict: name taken
	DeleteCampaignType(ctx context.Context, id string) error
}

// PostponedError means that too many messages of a client wait for another attempt by these channels.
type PostponedError struct{ By []ChannelID }

func (e *PostponedError) Error() string {
	return "too many messages wait for another attempt by " + strings.Join(ChannelsOf(e.By...).Names(), ", ")
}

// NewSend is a send to accept.
type NewSend struct {
	Send
	// Recipients are the first recipients, or all of them if Expanded is set.
	Recipients []Recipient
	// Idempotency is empty, or a key of the client with a hash of the request.
	Idempotency Idempotency
	// Planned is the number of recipients of a send that has a list or a SendAt; 0 if they are those of
	// an audience, which is read later. PlannedLimit is how many the client may have in all its
	// scheduled sends, where an audience counts as one; 0 means no limit.
	Planned, PlannedLimit int
	// DelayedLimit is how many messages that workflows delay the client may have, this send's included, until they are
	// final; 0 means no limit. Members of an audience that are read later count then.
	DelayedLimit int
	// QuietLimit is how many messages of the client may wait because their recipients want that before sends that may wait
	// are refused; 0 means no limit. It is exact if it is small, and up to a second late otherwise.
	QuietLimit int
	// PostponedLimit is how many messages of the client may wait for another attempt, for whatever reason, before sends
	// are refused by the channels that have a tenth of them; 0 means no limit. It is as exact as QuietLimit.
	PostponedLimit int
	// Occurrence is that of a recurring send; nil for others. If it is no longer due, nothing is stored, and Accept
	// fails with ErrSuperseded.
	Occurrence *Occurrence
}

// Idempotency identifies a request that may be repeated without effect.
type Idempotency struct {
	Key  string
	Hash string // of method, path and body
	// Until is when the key expires.
	Until time.Time
}

// SendQuery selects sends.
type SendQuery struct {
	// ClientID is the client whose sends are read, unless All is set.
	ClientID string
	All      bool
	// Before is the number of the last send seen, 0 at the beginning; the newest
	// come first.
	Before int64
	Limit  int
}

// Volume is how much of a kind was sent on a day.
type Volume struct {
	ClientID string
	// KindID is empty for mail without a kind and for campaigns.
	KindID          string
	Day             time.Time // its beginning, in UTC
	Sends, Messages int
}

// MessageQuery filters messages. Empty fields match everything, except ClientID.
type MessageQuery struct {
	// ClientID is the client whose messages are read, unless All is set.
	ClientID string
	All      bool
	Send     int64
	Status   Status
	Parked   bool
	UserID   string
	Email    string
	KindID   string
	// Channel is the channel of the messages if OnChannel is set; otherwise all match.
	Channel   ChannelID
	OnChannel bool
	// Since and Before limit Updated.
	Since, Before time.Time
	// After is the number of the last message seen; the newest come first.
	After int64
	Limit int
}

// Sends reads sends and messages.
type Sends interface {
	Send(ctx context.Context, number int64) (Send, error)
	// ListSends returns sends, newest first.
	ListSends(ctx context.Context, q SendQuery) ([]Send, error)
	// Volumes returns how much was sent since a time, by kind and day, in no
	// particular order. It looks at the newest 50,000 sends only.
	Volumes(ctx context.Context, since time.Time) ([]Volume, error)
	// Message returns a message and the client it belongs to.
	Message(ctx context.Context, number int64) (m Message, clientID string, err error)
	// MessagesOf returns the messages of a send after the given number (-1:
	// all), in order of their numbers.
	MessagesOf(ctx context.Context, send, after int64, limit int) ([]Message, error)
	FindMessages(ctx context.Context, q MessageQuery) ([]Message, error)
}

// Priority selects one of the queues of messages. A claim takes from all of
// them, so that neither bulk mail nor retries delay single messages.
type Priority int

const (
	PrioritySingle Priority = iota // sends to few recipients
	PriorityBulk                   // the rest
	PriorityRetry                  // further attempts
)

// SingleLimit is the maximum number of recipients of a send in PrioritySingle.
const SingleLimit = 100

// Claimed is a message to deliver, with its send.
type Claimed struct {
	Message
	Send *Send // shared by the messages of a send
	// Reactions are set by ShowPerson only.
	Reactions []Reaction
}

// Queue processes messages from acceptance to a final status.
type Queue interface {
	// Accept stores a send with its first recipients and its idempotency key in
	// one transaction, and returns it with its number. Concurrent calls share a
	// commit. It fails with ErrQueueFull, ErrScheduleFull, ErrDelayedFull, ErrQuietFull, ErrKeyReused
	// or a PostponedError, or if the client has too much stored (see Bounds) or an attachment was deleted; if the key
	// was used for the same request before, it returns the earlier send and replayed. A send with a SendAt waits
	// for Activate, without recipients.
	Accept(ctx context.Context, n NewSend) (s Send, replayed bool, err error)
	// Repeated returns the send of a client's idempotency key, and whether
	// there is one; ErrKeyReused if the key was used for a different request.
	Repeated(ctx context.Context, clientID string, key Idempotency) (s Send, repeated bool, err error)
	// Extend adds recipients to a send and moves its cursor. It returns
	// ErrTooMany if the send would have more than MaxRecipients. from must be
	// the stored cursor: otherwise another process was faster and it returns
	// ErrConflict. Recipients that the send already has (by user id, else
	// address) are skipped.
	Extend(ctx context.Context, send int64, from Cursor, more []Recipient, to Cursor, expanded bool) error
	// Activate starts scheduled sends whose time has come, the earliest first, at
	// most limit: their named recipients get messages, audiences are to be
	// expanded. It returns how many it started and when the next is due; zero if
	// none is scheduled. Each is started once, also by several processes.
	Activate(ctx context.Context, limit int) (started int, next time.Time, err error)
	// ClaimExpansions leases sends that are not fully expanded to owner.
	ClaimExpansions(ctx context.Context, owner string, limit int, lease time.Duration) ([]Send, error)
	// Claim leases due messages of one channel, Email if none is given, to owner: at
	// most limit, from all queues of the channel, oldest first in each. A message is not claimed again before its lease
	// expires, Finish, or Release.
	Claim(ctx context.Context, owner string, limit int, lease time.Duration, of ...ChannelID) ([]Claimed, error)
	// Renew renews all leases of owner.
	Renew(ctx context.Context, owner string, lease time.Duration) error
	// Release releases everything that owner has leased, at a clean stop and
	// after a restart of the same owner.
	Release(ctx context.Context, owner string) error
	// Finish records outcomes and the receipts of users. An outcome of a
	// message that is already final changes nothing. It returns the messages
	// that it changed to a final status. The callbacks that makeCallbacks
	// returns for them are queued in the same transaction, so none is lost.
	Finish(ctx context.Context, outcomes []Outcome, makeCallbacks CallbackMaker) ([]Claimed, error)
	// Cancel cancels a send: one that is scheduled is not started, one that is being
	// expanded gets no more messages, and messages that wait and are not claimed
	// become canceled. Claimed ones may still be delivered; they are not attempted
	// again. It returns the send as it is then. Repeating it is no error.
	Cancel(ctx context.Context, send int64) (Send, error)
	// Replay queues a client's failed message again. It returns ErrNotFound if
	// the message is not the client's, ErrConflict if it has not failed.
	Replay(ctx context.Context, clientID string, number int64) error
	// NextDue returns when the earliest waiting message of a channel, Email if none
	// is given, is due; false if none is waiting.
	NextDue(ctx context.Context, of ...ChannelID) (time.Time, bool, error)
	// Waiting returns the number of messages that are not final, and Postponed how many of them wait for another attempt,
	// by channel, beside those that workflows delay, digests collect or quiet hours hold.
	Waiting(ctx context.Context) (int, error)
	Postponed(ctx context.Context) ([ChannelCount]int, error)
}

// Upkeep holds maintenance operations and webhook calls.
type Upkeep interface {
	// Shared reports whether other processes may use the same queue.
	Shared() bool
	// IDKey returns the 32 bytes for NewIDs, created on first use and stored
	// sealed.
	IDKey(ctx context.Context) ([]byte, error)
	// Stored returns how much of a client is stored, about: what was stored within the last moments
	// may be missing.
	Stored(ctx context.Context, clientID string) (Stored, error)
	// Purge deletes in small steps: messages that have been final since before, or
	// for their send's Kept, unless a step of a workflow waits that may ask about
	// them, sends without messages, expired idempotency keys. It returns the number of deleted messages.
	Purge(ctx context.Context, before time.Time) (int, error)

	CreateWebhook(ctx context.Context, w Webhook) error
	Webhooks(ctx context.Context, clientID string) ([]Webhook, error)
	DeleteWebhook(ctx context.Context, clientID, id string) error
	// Callbacks leases webhook calls that are due; FinishCallback deletes one,
	// or reschedules it if a time is given, with the number of attempts so far.
	Callbacks(ctx context.Context, owner string, limit int, lease time.Duration) ([]Callback, error)
	FinishCallback(ctx context.Context, id string, attempts int, again time.Time) error
}

// CallbackMaker returns the calls to a webhook about final messages of its
// client. It is called inside a transaction, possibly more than once, so it
// must have no side effects; of the webhook it gets id, client and events. It
// may be nil.
type CallbackMaker func(w Webhook, final []*Claimed) []Callback

// Callback is a pending webhook call.
type Callback struct {
	ID        string
	WebhookID string
	Payload   []byte
	Attempts  int
	// URL and Secret are the webhook's, set by Callbacks.
	URL, Secret string
}
