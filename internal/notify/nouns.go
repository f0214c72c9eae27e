package notify

import (
	"cmp"
	"encoding/json"
	"time"
)

// Ids of the default templates. The v2 API shows its own as "default" too.
const (
	DefaultTemplate   = "default"
	DefaultTemplateV2 = "default-v2"
)

// Client is a source of notifications: an OAuth2 client that registered.
type Client struct {
	ID          string
	Description string
	// TemplateID is DefaultTemplate unless one was assigned.
	TemplateID string
}

// Kind is a kind of notification that a client sends.
type Kind struct {
	ClientID    string
	ID          string
	Description string
	// Critical kinds are delivered even to users who unsubscribed.
	Critical   bool
	TemplateID string
	// Channels are set with SetChannels only.
	Channels Channels
	// Workflow replaces Channels if it is not nil. It is set with SetWorkflow only.
	Workflow *Workflow
	// DigestRule is nil if messages are not collected. It is set with SetDigestRule only.
	DigestRule *DigestRule
	// ThrottleRule is nil if messages are not limited. It is set with SetThrottleRule only.
	ThrottleRule *ThrottleRule
	// Kept is how long messages are kept after they are final; 0 means the server's default. It is set with SetKept only.
	Kept time.Duration
	// Tracking is what is counted of its mail. It is set with SetTracking only.
	Tracking Tracking
}

// Travels returns the channels of the kind's messages.
func (k *Kind) Travels() Channels {
	if k.Workflow != nil {
		return k.Workflow.Channels()
	}
	return k.Channels
}

// Template defines the appearance of a message.
type Template struct {
	ID string
	// Owner is the client of a template made with the v2 API, empty for those
	// of v1, which all clients share.
	Owner string
	// Creator is the client that created a v1 template. Others may use it, but
	// only this client and administrators may change it. Empty means unknown.
	Creator  string
	Name     string
	Subject  string
	Text     string
	HTML     string
	Metadata json.RawMessage
	// Variants are the texts in other languages, by canonical BCP 47 tag.
	Variants map[string]Variant
	// Partials are those that the texts use, and that these use, by name. The store reads them with the template, and
	// writes none.
	Partials map[string]Partial
	// Overridden marks a default template that was changed: a new version of
	// the built-in one does not replace it.
	Overridden bool
	// Version counts the changes, from 1. ChangedBy is the user or client that made the last one; empty means unknown.
	Version   int64
	ChangedBy string
	Created   time.Time
	Updated   time.Time
}

// Client returns the client that defined the template, "" for the default templates.
func (t *Template) Client() string { return cmp.Or(t.Owner, t.Creator) }

// Association is one use of a template: by a client, or by one kind of it.
type Association struct {
	ClientID string
	KindID   string // empty: the client's own
}

// Sender is the sender of v2 campaigns.
type Sender struct {
	ID       string
	ClientID string
	Name     string
}

// CampaignType is the equivalent of Kind in the v2 API.
type CampaignType struct {
	ID          string
	SenderID    string
	ClientID    string
	Name        string
	Description string
	Critical    bool
	TemplateID  string // empty: the default
	// Channels are set with SetChannels only.
	Channels Channels
}

// KindRef names a kind. For a v2 campaign type, ClientID is the empty string
// and KindID the type's id, which is unique by itself.
type KindRef struct{ ClientID, KindID string }

// Subscription is a kind that a user may receive.
type Subscription struct {
	UserID string
	KindRef
}

// Suppression is an address to which no mail is sent, because it was rejected
// permanently.
type Suppression struct {
	Email   string // lower case
	Reason  string
	Source  string // "bounce", "smtp", "complaint" or "manual"
	Created time.Time
}

// Webhook is a URL that is called with the results of a client's messages.
type Webhook struct {
	ID       string
	ClientID string
	URL      string
	// Secret signs the calls; it is stored sealed.
	Secret string
	// Events are the statuses to report; empty means all final ones.
	Events  []Status
	Created time.Time
}
