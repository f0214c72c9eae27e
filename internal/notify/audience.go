package notify

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// Directory finds the members of audiences. It reads them in pages from the
// platform and the authorization server, with one cached token.
//
// Its errors are faults: NotFound with the service's message for a space,
// organization or scope that does not exist, NotAcceptable for a scope that
// every user has, Unavailable when a server does not respond.
type Directory interface {
	// Resolve checks that an audience exists and fills in its names. Users and
	// addresses are not checked.
	Resolve(ctx context.Context, a Audience) (Audience, error)
	// Page returns about limit members of a resolved audience that follow
	// cursor, and the cursor of the next page, "" after the last one. A member
	// may be returned twice. Recipient.Audience is left 0.
	Page(ctx context.Context, a Audience, cursor string, limit int) (members []Recipient, next string, err error)
	// Emails returns the addresses of users; unknown users are missing, and
	// users without an address have "".
	Emails(ctx context.Context, userIDs []string) (map[string]string, error)
	// Locales returns the languages of users, mostly BCP 47 tags; unknown users
	// are missing, and users without a language have "".
	Locales(ctx context.Context, userIDs []string) (map[string]string, error)
	// Phones returns the phone numbers of users in the form of E.164; unknown
	// users are missing, and users without a usable number have "".
	Phones(ctx context.Context, userIDs []string) (map[string]string, error)
}

// TopicRef names a topic of a client.
type TopicRef struct{ ClientID, Name string }

// Topic is an audience that a client declares and that users subscribe to.
type Topic struct {
	TopicRef
	Description string
	// Closed means that only the client subscribes others to it. Everyone may leave it.
	Closed bool
	// Subscribers is how many there are.
	Subscribers      int
	Created, Updated time.Time
}

const (
	// MaxTopics limits the topics of a client, and MaxSubscribers the subscribers of all of them, with those who left.
	MaxTopics      = 200
	MaxSubscribers = 10_000_000
	// MaxSubscribing limits the subscribers of one request.
	MaxSubscribing = 1000

	maxTopicDescription = 500
)

// Check validates a topic's description.
func (t *Topic) Check() error {
	if utf8.RuneCountInString(t.Description) > maxTopicDescription || !utf8.ValidString(t.Description) ||
		strings.ContainsFunc(t.Description, unicode.IsControl) {
		return fault.Invalid(fmt.Sprintf(`"description" must be a line of at most %d characters`, maxTopicDescription))
	}
	return nil
}

// TopicMember is a subscriber of a topic: a user or an address.
type TopicMember struct {
	// ID orders the list of subscribers, and says nothing about the person.
	ID            string
	UserID, Email string
	Since         time.Time
}

// SubscriberOf returns the user or the address of a subscriber.
func SubscriberOf(id string) (userID, email string) {
	if address, ok := strings.CutPrefix(id, AddressScheme); ok {
		return "", address
	}
	return id, ""
}

// TopicChoice is a topic as someone sees it who may subscribe to it. Its Subscribers are not set.
type TopicChoice struct {
	Topic
	SourceDescription string
	// Subscribed and Left are what was chosen at Since; neither is set for an open topic that it was not chosen for.
	Subscribed, Left bool
	Since            time.Time
	// Kept reports that only a hash of who left is stored, because the person's data was erased.
	Kept bool
}

// Subscribing is what Topics.Subscribe did.
type Subscribing struct {
	// Added were subscribed, Already had been, and Left stay away, because they left the topic themselves.
	Added, Already, Left int
}

// Topics holds topics and their subscribers, which are named by user ids, or as AddressSubscriber does.
type Topics interface {
	// SetTopic creates a topic, or changes Description, Closed and Updated of the one with its name. ErrTooMany: the
	// client has MaxTopics.
	SetTopic(ctx context.Context, t Topic) (created bool, err error)
	// Topic is ErrNotFound if there is none of that name, as all of these.
	Topic(ctx context.Context, ref TopicRef) (Topic, error)
	// ListTopics returns those of a client by name, after the given one.
	ListTopics(ctx context.Context, clientID, after string, limit int) ([]Topic, error)
	// DeleteTopic deletes a topic. What is left of its subscribers is deleted by Purge.
	DeleteTopic(ctx context.Context, ref TopicRef) error
	// Subscribe subscribes others, except those who left the topic themselves. ErrTooMany: the client has MaxSubscribers.
	Subscribe(ctx context.Context, ref TopicRef, subscribers []string) (Subscribing, error)
	// RemoveSubscriber removes one, who may be subscribed again. It is ErrNotFound for those who are not subscribed.
	RemoveSubscriber(ctx context.Context, ref TopicRef, subscriber string) error
	// TopicMembers returns subscribers after the one with an ID, in the order of their IDs.
	TopicMembers(ctx context.Context, ref TopicRef, after string, limit int) ([]TopicMember, error)
	// TopicsOf returns by client and name what someone chose, and the open topics of the clients that ever sent a user a
	// notification. ChangePreferences changes it.
	TopicsOf(ctx context.Context, subscriber string) ([]TopicChoice, error)
}
