package notify

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

// Person selects what is stored about a recipient: a user, an address, or both. A recipient who has only a phone number
// has it as the address.
type Person struct {
	// ClientID is the client whose data is meant, unless All is set.
	ClientID string
	All      bool
	UserID   string
	Email    string
}

// maxPersonID limits the identifiers of a person: an address has at most 254 characters.
const maxPersonID = 254

// Check validates a person.
func (p Person) Check() error {
	var problems []string
	if p.UserID == "" && p.Email == "" {
		problems = append(problems, `"user_id", "email" or both are required, or "phone"`)
	}
	if len(p.UserID) > maxPersonID {
		problems = append(problems, `"user_id" is too long`)
	}
	if len(p.Email) > maxPersonID || p.Email != "" && !strings.Contains(p.Email, "@") && !UsablePhone(p.Email) {
		problems = append(problems, `"email" must be an address`)
	}
	return fault.Invalid(problems...)
}

// Subscribers returns the user ids under which the person's preferences are stored.
func (p Person) Subscribers() []string {
	var all []string
	for _, id := range []string{p.UserID, AddressSubscriber(p.Email)} {
		if id != "" {
			all = append(all, id)
		}
	}
	return all
}

// Is reports whether a recipient is the person.
func (p Person) Is(userID, email string) bool {
	return p.UserID != "" && p.UserID == userID || p.Email != "" && strings.EqualFold(p.Email, email)
}

// Named reports whether the person is an audience of their own.
func (p Person) Named(a Audience) bool {
	return a.Type == ToUser && p.Is(a.ID, "") || a.Type == ToEmail && p.Is("", a.ID)
}

// OnlyTo reports whether a send is to the person alone, so that its content is about them.
func (p Person) OnlyTo(s *Send) bool { return len(s.Audiences) == 1 && p.Named(s.Audiences[0]) }

// ListedMember is an entry of a list of recipients, or a recipient of a recurring send.
type ListedMember struct {
	Send      int64 // 0 if it is not accepted yet
	Recurring RecurringRef
	Member    Member
}

// RecipientsIn returns the recipients that a recurring send names: its members, or its audience if that is one of them.
func (p Person) RecipientsIn(m RecurringMessage) (all []Member) {
	for _, one := range m.Members {
		if p.Is(one.UserID, one.Email) {
			all = append(all, one)
		}
	}
	if m.Audience == nil || !p.Named(*m.Audience) {
		return all
	}
	if m.Audience.Type == ToUser {
		return append(all, Member{UserID: m.Audience.ID})
	}
	return append(all, Member{Email: m.Audience.ID})
}

// Holds reports whether a recurring send has the person's rights.
func (p Person) Holds(m RecurringMessage) bool {
	return m.Holder != nil && p.UserID != "" && m.Holder.UserID == p.UserID
}

// WithoutRecipient returns a recurring send's message to the others, and reports whether there are any. It does not
// name the person as its holder.
func (p Person) WithoutRecipient(m RecurringMessage) (RecurringMessage, bool) {
	if p.Holds(m) {
		m.Holder = &Holder{Erased: true}
	}
	if m.Audience != nil {
		return m, !p.Named(*m.Audience)
	}
	var others []Member
	for _, one := range m.Members {
		if !p.Is(one.UserID, one.Email) {
			others = append(others, one)
		}
	}
	m.Members = others
	return m, len(others) > 0
}

// Objection is a subscription that the person does not want on some channels, or wants in digests. Kept reports that
// only its hash is stored, because the person's data was erased.
type Objection struct {
	Subscription
	Choice
	Kept bool
}

// Erased is what was erased.
type Erased struct {
	// Messages lost their recipient; Canceled are those of them that were not out yet. Contents are of sends to the
	// person alone.
	Messages, Canceled, Contents int
	Listed, Notifications        int
	// Preferences, with topics that the person left, and Suppressions are kept as hashes.
	Preferences, Suppressions int
	Calls                     int // of webhooks, whose recipient was removed
	Browsers                  int // that the user had subscribed
	Topics                    int // that the person was subscribed to
}

// Erasure is a request to erase what is stored about a person.
type Erasure struct {
	ID string
	// Person has no UserID and Email when the erasure is finished.
	Person
	Created time.Time
	// Finished is zero until everything is erased.
	Finished time.Time
	Erased
	// Inboxes are those that the call emptied.
	Inboxes []Owner
}

// MaxErasures limits the erasures of a client that are not finished.
const MaxErasures = 1000

// ErasuresKept limits what is kept of the finished erasures of a client.
const ErasuresKept = 10_000

// People shows and erases what is stored about recipients.
type People interface {
	// ShowPerson calls add with everything that is stored about a person, in this order: values of the types
	// Suppression and *QuietHours (if All is set), Objection, TopicChoice, ListedMember, Send (that wait for their time),
	// Notification, PushSubscription and Claimed, newest first.
	ShowPerson(ctx context.Context, p Person, add func(any) error) error
	// Erase stores the request, and erases what is there. It returns the erasure as it is then: it is not
	// finished while messages of the person are being delivered, or when ctx ended. Then ContinueErasures does the
	// rest, also after a crash. ErrTooMany: the client has MaxErasures. What stays:
	//
	//   - messages without their recipient, so that the counts of sends stay right
	//   - the hashes of suppressed addresses, of what the person unsubscribed from and of topics that they left, so that
	//     all stay in effect
	Erase(ctx context.Context, e Erasure) (Erasure, error)
	Erasure(ctx context.Context, id string) (Erasure, error)
	// ContinueErasures continues erasures that are not finished, and returns how many are left.
	ContinueErasures(ctx context.Context) (int, error)
}

// WithoutContent returns the parts of a send that are not about its recipient, who is p.
func (s Send) WithoutContent(p Person) Send {
	audiences := make([]Audience, 0, len(s.Audiences))
	for _, a := range s.Audiences {
		if p.Named(a) {
			a.ID = "" // the others keep their position
		}
		audiences = append(audiences, a)
	}
	if len(s.Attachments) > 0 || s.Content.Event != nil {
		s.DigestRule = nil // its messages are not collected, and did not count as such
	}
	s.Audiences, s.Content, s.Data, s.Locale, s.Digest = audiences, Content{}, json.RawMessage(nil), "", s.Digest.erased()
	s.Attachments = nil
	return s
}
