package notify

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Bounds of recurring sends.
const (
	// MaxRecurring limits the recurring sends of a client.
	MaxRecurring = 1000
	// MaxRecurringMembers limits the recipients that one names.
	MaxRecurringMembers = 1000
	// MaxRecurringBytes limits what one is stored as.
	MaxRecurringBytes = 1 << 20
)

// ErrSuperseded means that an occurrence was sent or skipped already, or that its recurring send was changed.
var ErrSuperseded = errors.New("the occurrence is no longer due")

// RecurringState is what a recurring send does.
type RecurringState string

const (
	RecurringActive RecurringState = "active"
	RecurringPaused RecurringState = "paused"
	RecurringEnded  RecurringState = "ended" // it has no further occurrence
)

// RecurringRef identifies a recurring send.
type RecurringRef struct{ ClientID, Name string }

// Recurring is a send that is repeated. Each Occurrence is a send like any other.
type Recurring struct {
	RecurringRef
	Timetable
	// Message is what each occurrence sends.
	Message RecurringMessage
	State   RecurringState
	// Next is the next occurrence, by the machine's clock; zero unless it is active.
	Next time.Time
	// Runs is how many occurrences were sent, Failures how many could not be.
	Runs, Failures int
	// LastDue is the latest occurrence that was sent or could not be, LastRun when. LastSend is the number of the latest
	// send. They are zero before.
	LastDue, LastRun time.Time
	LastSend         int64
	// Problem says why the latest occurrence was not sent, or not yet; "" if it was.
	Problem          string
	Created, Updated time.Time
}

// Timetable says when a Recurring is due.
type Timetable struct {
	Cron, Zone string
	// Starts and Ends are the first and the last moment at which it may be due; zero means no bound.
	Starts, Ends time.Time
	// Count is the number of occurrences after which it ends; 0 means no limit.
	Count int
}

// Equal reports whether two timetables are the same.
func (t Timetable) Equal(u Timetable) bool {
	return t.Cron == u.Cron && t.Zone == u.Zone && t.Starts.Equal(u.Starts) && t.Ends.Equal(u.Ends) && t.Count == u.Count
}

// RecurringMessage is the stored form of a Request.
type RecurringMessage struct {
	KindID   string          `json:"kind_id"`
	Template string          `json:"template_id,omitempty"`
	Content  Content         `json:"content"`
	Data     json.RawMessage `json:"data,omitempty"`
	Locale   string          `json:"locale,omitempty"`
	// Audience or Members is set.
	Audience *Audience     `json:"audience,omitempty"`
	Members  []Member      `json:"members,omitempty"`
	TTL      time.Duration `json:"ttl,omitempty"`
	// MayCritical is what the token could that created it, and Holder whose token that was; nil if it was created before
	// that was stored.
	MayCritical bool    `json:"may_critical,omitempty"`
	Holder      *Holder `json:"holder,omitempty"`
}

// Occurrence is one time at which a Recurring is due. Accept stores the send of an occurrence and moves the recurring
// send on in the same transaction, so there is one send for each, whatever happens to the servers.
type Occurrence struct {
	RecurringRef
	// At is when it was due, and Next the following one that is not missed; zero means that it was the last.
	At, Next time.Time
	// Sent is when it is sent or skipped, by the clock that At follows.
	Sent time.Time
	// Updated is that of the Recurring as it was read: one that was changed since is read again.
	Updated time.Time
}

// RecurringQuery selects recurring sends, by client and name.
type RecurringQuery struct {
	ClientID string
	All      bool // of all clients
	After    RecurringRef
	Limit    int
}

// Recurrings holds recurring sends.
type Recurrings interface {
	// SetRecurring creates one, or replaces Timetable, Message, State, Next and Updated of the one with the same name.
	// ErrTooMany: the client has MaxRecurring. ErrSuperseded: an occurrence was sent since LastDue was read.
	SetRecurring(ctx context.Context, r Recurring) error
	// Recurring is ErrNotFound if there is none of that name.
	Recurring(ctx context.Context, ref RecurringRef) (Recurring, error)
	ListRecurring(ctx context.Context, q RecurringQuery) ([]Recurring, error)
	DeleteRecurring(ctx context.Context, ref RecurringRef) error
	// SetRecurringState pauses one, resumes it or ends it. ErrNotFound if there is none. next is the next occurrence of
	// one that is active.
	SetRecurringState(ctx context.Context, ref RecurringRef, state RecurringState, next, now time.Time) error
	// DueRecurring leases those that are due, at most limit: the longest due first, and of those that are due at the same
	// moment those of different clients in turn. It also returns when the next of the others is due; zero if none is.
	DueRecurring(ctx context.Context, limit int, lease time.Duration) (due []Recurring, next time.Time, err error)
	// PostponeOccurrence makes an occurrence that could not be sent yet due again later; it stays the same occurrence.
	// An occurrence that is no longer due is no error.
	PostponeOccurrence(ctx context.Context, o Occurrence, until time.Time, problem string) error
	// SkipOccurrence records that an occurrence cannot be sent. One that is no longer due is no error.
	SkipOccurrence(ctx context.Context, o Occurrence, problem string) error
	// MoveOccurrence makes Next due instead of At. An occurrence that is no longer due is no error.
	MoveOccurrence(ctx context.Context, o Occurrence) error
}

// Holder is who had the rights to what is done later: a client, or a user who used the client.
type Holder struct {
	UserID string `json:"user_id,omitempty"`
	// Erased reports that it was a user whose data was erased. It has no rights.
	Erased bool `json:"erased,omitempty"`
}

// Rights tells what clients may do now.
type Rights interface {
	// Held returns those of scopes that the client, or the user of it, could have in a token now. A nil holder is not
	// known: it may have been either. NotFound: the client or the user no longer exists. If the authorization server does
	// not tell this service, all scopes are held.
	Held(ctx context.Context, clientID string, by *Holder, scopes []string) ([]string, error)
}
