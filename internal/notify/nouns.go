package notify

import (
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

// Kind is a sort of notification that a client sends.
type Kind struct {
	ClientID    string
	ID          string
	Description string
	// Critical kinds reach users whatever they unsubscribed from.
	Critical   bool
	TemplateID string
}

// Template is how a message looks.
type Template struct {
	ID string
	// Owner is the client of a template made by the v2 API, empty for those of
	// v1, which all clients share.
	Owner string
	// Creator is the client that made a template of v1. Others use it, but only
	// this one and administrators change it. Empty: not known.
	Creator  string
	Name     string
	Subject  string
	Text     string
	HTML     string
	Metadata json.RawMessage
	// Overridden marks a default template that somebody changed: a new version
	// of the built-in one does not replace it.
	Overridden bool
	Created    time.Time
	Updated    time.Time
}

// Association is one use of a template: by a client, or by one kind of it.
type Association struct {
	ClientID string
	KindID   string // empty: the client's own
}

// Sender is what v2 campaigns are sent by.
type Sender struct {
	ID       string
	ClientID string
	Name     string
}

// CampaignType is the v2 API's kind.
type CampaignType struct {
	ID          string
	SenderID    string
	ClientID    string
	Name        string
	Description string
	Critical    bool
	TemplateID  string // empty: the default
}

// Preference is one kind in a user's preferences.
type Preference struct {
	Kind
	SourceDescription string
	Unsubscribed      bool
}

// KindRef names a kind. For a v2 campaign type, ClientID is the empty string
// and KindID the type's id, which is unique by itself.
type KindRef struct{ ClientID, KindID string }

// PreferenceChange is one user's wish; nil leaves the global setting alone.
type PreferenceChange struct {
	Global *bool
	// Kinds holds true for a kind to receive, false to unsubscribe.
	Kinds map[KindRef]bool
}

// Suppression is an address that refused mail for good.
type Suppression struct {
	Email   string // lower case
	Reason  string
	Source  string // "bounce", "smtp", "complaint" or "manual"
	Created time.Time
}

// Webhook is where a client wants to hear of its messages.
type Webhook struct {
	ID       string
	ClientID string
	URL      string
	// Secret signs what is sent; it is stored sealed.
	Secret string
	// Events are the statuses to tell; empty means all that are final.
	Events  []Status
	Created time.Time
}
