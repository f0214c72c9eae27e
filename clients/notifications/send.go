package notifications

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Audience is who receives a send.
type Audience struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Role string `json:"role,omitempty"`
}

// User is one user, by guid.
func User(guid string) *Audience { return &Audience{Type: "user", ID: guid} }

// Space is all users with a role in a space.
func Space(guid string) *Audience { return &Audience{Type: "space", ID: guid} }

// Organization is all users with a role in an organization.
func Organization(guid string) *Audience { return &Audience{Type: "organization", ID: guid} }

// OrganizationRole is the users with a certain role: OrgManager, OrgAuditor or BillingManager.
func OrganizationRole(guid, role string) *Audience {
	return &Audience{Type: "organization", ID: guid, Role: role}
}

// Scope is all users with a scope.
func Scope(name string) *Audience { return &Audience{Type: "scope", ID: name} }

// Topic is the subscribers of a topic of the client.
func Topic(name string) *Audience { return &Audience{Type: "topic", ID: name} }

// Everyone is all users.
func Everyone() *Audience { return &Audience{Type: "everyone"} }

// Recipient is one recipient: a User by guid, or an Email address, or only a Phone number such as +4915112345678 if the
// kind has the channel sms.
type Recipient struct {
	User   string `json:"user,omitempty"`
	Email  string `json:"email,omitempty"`
	Phone  string `json:"phone,omitempty"`
	Locale string `json:"locale,omitempty"`
	// Data replaces fields of the data of the send.
	Data any `json:"data,omitempty"`
}

// Send is what to send, and to whom: an Audience or Recipients.
type Send struct {
	KindID     string `json:"kind_id"`
	TemplateID string `json:"template_id,omitempty"` // instead of that of the kind
	Subject    string `json:"subject,omitempty"`
	Text       string `json:"text,omitempty"`
	HTML       string `json:"html,omitempty"`
	ReplyTo    string `json:"reply_to,omitempty"`
	// Thread is a key: mail with the same one to the same recipient is shown as one conversation.
	Thread string `json:"thread,omitempty"`
	// Event invites to an event, or cancels it, in mail.
	Event *Invitation `json:"event,omitempty"`
	// Data is what templates show as .Data: anything that becomes a JSON object.
	Data       any         `json:"data,omitempty"`
	Locale     string      `json:"locale,omitempty"`
	Audience   *Audience   `json:"audience,omitempty"`
	Recipients []Recipient `json:"recipients,omitempty"`
	// Attachments are for mail; other channels leave them out.
	Attachments []Attachment `json:"attachments,omitempty"`
	// SendAt is when to send; zero means at once.
	SendAt time.Time `json:"send_at,omitzero"`
	// ExpiresAt is when what is not delivered is given up; zero means never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// IdempotencyKey makes another call with the same content have no effect, for 24 hours. If it is
	// empty, a new one is made, which protects only against the repetitions of this call.
	IdempotencyKey string `json:"-"`
}

// Invitation invites to an event in a calendar. The same UID with a higher Sequence changes or cancels it.
type Invitation struct {
	Method string `json:"method,omitempty"` // REQUEST, the default, or CANCEL
	UID    string `json:"uid"`
	// Start and End are times with an offset, times without one in Zone, or dates. Duration, such as 45m, replaces End.
	Start       string     `json:"start"`
	End         string     `json:"end,omitempty"`
	Duration    string     `json:"duration,omitempty"`
	Zone        string     `json:"zone,omitempty"`
	Sequence    int        `json:"sequence,omitempty"`
	Summary     string     `json:"summary,omitempty"` // the subject, if it is empty
	Location    string     `json:"location,omitempty"`
	Description string     `json:"description,omitempty"`
	Organizer   *Organizer `json:"organizer,omitempty"` // the sender of the mail, if it is nil
}

// Organizer is who gets the answers to an Invitation.
type Organizer struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email"`
}

// Accepted is the response to a Send.
type Accepted struct {
	// ID is that of the send.
	ID string `json:"id"`
	// Status is accepted or scheduled.
	Status string `json:"status"`
	// Recipients are how many were named, without Duplicates; 0 for an audience.
	Recipients int `json:"recipients"`
	Duplicates int `json:"duplicates"`
}

// Send sends a notification. When it returns without an error, the service has stored it.
func (c *Client) Send(ctx context.Context, s Send) (Accepted, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return Accepted{}, fmt.Errorf("notifications: %w", err)
	}
	return c.send(ctx, s, "application/json", func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// SendList is like Send with Recipients for long lists, which need not be in memory. recipients may be called more than
// once, if the request has to be repeated. Nothing is sent if one is wrong.
func (c *Client) SendList(ctx context.Context, s Send, recipients iter.Seq[Recipient]) (Accepted, error) {
	if s.Audience != nil || len(s.Recipients) > 0 {
		return Accepted{}, fmt.Errorf("notifications: SendList has its recipients in the sequence, not in Send")
	}
	return c.send(ctx, s, "application/x-ndjson", func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 64<<10)
		lines := json.NewEncoder(out)
		if err := lines.Encode(s); err != nil {
			return err
		}
		for r := range recipients {
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
		return out.Flush()
	})
}

func (c *Client) send(ctx context.Context, s Send, kind string, write func(io.Writer) error) (Accepted, error) {
	key := s.IdempotencyKey
	if key == "" {
		key = rand.Text()
	}
	r := request{method: http.MethodPost, path: "/sends", header: http.Header{}}
	r.header.Set("Content-Type", kind)
	r.header.Set("Idempotency-Key", key)
	r.body = func() (io.Reader, error) {
		in, out := io.Pipe()
		go func() { out.CloseWithError(asBodyError(write(out))) }()
		return in, nil
	}
	var a Accepted
	err := c.do(ctx, r, &a)
	return a, err
}

// asBodyError marks an error of the body, so that the request is not sent again.
func asBodyError(err error) error {
	if err == nil {
		return nil
	}
	return bodyError{err}
}

// Status is how far a send is.
type Status struct {
	ID string `json:"id"`
	// Status is scheduled, expanding, sending, completed or canceled.
	Status      string     `json:"status"`
	KindID      string     `json:"kind_id"`
	Subject     string     `json:"subject"`
	ReceivedAt  time.Time  `json:"received_at"`
	CompletedAt *time.Time `json:"completed_at"`
	// Counts are the messages by status, and "total".
	Counts map[string]int `json:"counts"`
}

// SendStatus returns how far a send is.
func (c *Client) SendStatus(ctx context.Context, id string) (Status, error) {
	var s Status
	err := c.call(ctx, http.MethodGet, "/sends/"+url.PathEscape(id), nil, &s)
	return s, err
}

// Cancel cancels what of a send is not out yet.
func (c *Client) Cancel(ctx context.Context, id string) (Status, error) {
	var s Status
	err := c.call(ctx, http.MethodDelete, "/sends/"+url.PathEscape(id), nil, &s)
	return s, err
}

// Message is a notification to one recipient on one channel.
type Message struct {
	ID            string     `json:"id"`
	SendID        string     `json:"send_id"`
	Status        string     `json:"status"`
	UserID        string     `json:"user_id"`
	Email         string     `json:"email"`
	Phone         string     `json:"phone"`   // of a recipient who has nothing else
	Channel       string     `json:"channel"` // empty for mail
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
	Reason        string     `json:"reason"`
	Parked        bool       `json:"parked"`
}

// MessageQuery selects messages; empty fields match everything.
type MessageQuery struct {
	Send, Status, UserID, Email, KindID, Channel string
	Since, Before                                time.Time
}

// Messages returns the client's messages, newest first. It reads further pages as they are needed. It ends with the
// first error.
func (c *Client) Messages(ctx context.Context, q MessageQuery) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for path := "/messages?" + q.values().Encode(); path != ""; {
			var page struct {
				Messages []Message `json:"messages"`
				Links    struct {
					Next *struct{ Href string } `json:"next"`
				} `json:"_links"`
			}
			if err := c.call(ctx, http.MethodGet, path, nil, &page); err != nil {
				yield(Message{}, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(m, nil) {
					return
				}
			}
			path = ""
			if next := page.Links.Next; next != nil {
				u, err := url.Parse(next.Href)
				if err != nil {
					yield(Message{}, fmt.Errorf("notifications: the next page: %w", err))
					return
				}
				path = "/messages?" + u.RawQuery // the token goes to no other server
			}
		}
	}
}

func (q MessageQuery) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(1000)}}
	for name, value := range map[string]string{"send": q.Send, "status": q.Status, "user_id": q.UserID,
		"email": q.Email, "kind_id": q.KindID, "channel": q.Channel} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "before": q.Before} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}

// InboxToken opens the inbox that a user has of the client, and nothing else.
type InboxToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// InboxToken issues a token for the browser of a user.
func (c *Client) InboxToken(ctx context.Context, user string, lifetime time.Duration) (InboxToken, error) {
	var t InboxToken
	err := c.call(ctx, http.MethodPost, "/inbox/tokens", struct {
		UserID    string `json:"user_id"`
		ExpiresIn int    `json:"expires_in"`
	}{user, int(lifetime / time.Second)}, &t)
	return t, err
}
