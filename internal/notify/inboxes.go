package notify

import (
	"context"
	"time"
)

const (
	// InboxKept is the number of notifications that a user keeps of a client. When there are InboxLimit, the
	// surplus is deleted: archived ones first, then read ones, the oldest of each first.
	InboxKept  = 1000
	InboxLimit = 1100
	// InboxAge is how long notifications are kept.
	InboxAge = 90 * 24 * time.Hour
	// MaxOrigins limits the origins of a client.
	MaxOrigins = 50
)

// Owner is whose inbox it is: a user has one for each client.
type Owner struct{ ClientID, UserID string }

// Notification is a message in an inbox.
type Notification struct {
	Number int64 // that of the message
	Owner
	KindID string
	Title  string
	Text   string
	// Created is when it arrived; Read and Archived are zero if it is not.
	Created, Read, Archived time.Time
	// Position orders an inbox: later ones have higher positions.
	Position int64
	// Change is the number of the change of the inbox that it was part of last.
	Change int64
}

// InboxState is the state of an inbox.
type InboxState struct {
	// Change is the number of the latest change, Reset that of the latest one that changed more than single
	// notifications: others were deleted, or all were read.
	Change, Reset int64
	Unread        int
}

// InboxRead is what is known of an inbox whose changes are read: all up to a change.
type InboxRead struct {
	Owner
	After int64
}

// InboxChanges is an inbox, and the notifications that changed, in order of their changes.
type InboxChanges struct {
	InboxState
	Changed []Notification
}

// InboxQuery selects notifications, newest first.
type InboxQuery struct {
	Owner
	// Archived selects those that are archived instead of the others; Unread leaves out those that were read.
	Archived, Unread bool
	// Before is the position of the last notification seen, 0 at the beginning.
	Before int64
	Limit  int
}

// NotificationChange changes a notification; nil leaves unchanged.
type NotificationChange struct{ Read, Archived *bool }

// Inboxes holds the notifications of users, and what clients allow. A missing notification, or one of another
// owner, is ErrNotFound.
type Inboxes interface {
	// AddNotifications stores notifications of one client; those that are stored already are left out. It fails if the
	// client has too much stored: see Bounds.
	AddNotifications(ctx context.Context, clientID string, all []Notification) error
	// Notifications lists some.
	Notifications(ctx context.Context, q InboxQuery) ([]Notification, error)
	// Inbox returns the state of an inbox, and with a limit the notifications that changed after the given
	// change, in order of their changes.
	Inbox(ctx context.Context, of Owner, after int64, limit int) (InboxState, []Notification, error)
	// ReadInboxes is Inbox for many inboxes at once. The result has one for each, in this order.
	ReadInboxes(ctx context.Context, reads []InboxRead, limit int) ([]InboxChanges, error)
	ChangeNotification(ctx context.Context, of Owner, number int64, c NotificationChange) (Notification, error)
	DeleteNotification(ctx context.Context, of Owner, number int64) error
	// ReadAll marks all notifications that are not archived as read, and returns how many were not.
	ReadAll(ctx context.Context, of Owner) (int, error)
	// ChangedInboxes returns the owners of inboxes that changed since a time, at most limit, and whether there are more.
	ChangedInboxes(ctx context.Context, since time.Time, limit int) (changed []Owner, more bool, err error)

	// Origins are the web sites whose pages may read inboxes of a client.
	Origins(ctx context.Context, clientID string) ([]string, error)
	SetOrigins(ctx context.Context, clientID string, origins []string) error
}
