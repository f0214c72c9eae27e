package actions

import (
	"context"
	"errors"
	"strings"
	"time"

	"ingot/internal/notify"
)

// Bounce is a report that a message was not delivered after the next hop had
// accepted it.
type Bounce struct {
	// MessageID is the id of the message, as IDs encodes it.
	MessageID  string
	Recipient  string
	Status     string // RFC 3463, such as 5.1.1
	Diagnostic string
	Permanent  bool
}

// Bounced handles a bounce: no more mail is sent to an address that permanently
// refuses it. Anyone can send a report, so it is ignored unless this service sent
// the message to that address.
// It returns whether the bounce counts.
func (s *Service) Bounced(ctx context.Context, b Bounce) (bool, error) {
	if !b.Permanent {
		return false, nil
	}
	email, err := s.mailedTo(ctx, b.MessageID)
	if err != nil || email == "" || !strings.EqualFold(email, b.Recipient) {
		return false, err
	}
	return true, s.o.Store.Suppress(ctx, notify.Suppression{
		Email: b.Recipient, Reason: strings.TrimSpace(b.Status + " " + b.Diagnostic), Source: "bounce", Created: time.Now(),
	})
}

// mailedTo returns the address to which a message was sent, empty if this service did not send it.
func (s *Service) mailedTo(ctx context.Context, id string) (string, error) {
	number, ok := s.o.IDs.MessageNumber(id)
	if !ok {
		return "", nil
	}
	m, _, err := s.o.Store.Message(ctx, number)
	if errors.Is(err, notify.ErrNotFound) {
		return "", nil
	}
	return m.Email, err
}

// Complaint is a report that a recipient does not want a message.
type Complaint struct {
	// MessageID is the id of the message, as IDs encodes it.
	MessageID string
	Type      string // RFC 5965's Feedback-Type
	Reporter  string
}

// Complained handles a complaint: no more mail is sent to the address of the message. What the report says of the
// recipient does not matter, since most hide it. Types that are no complaint, as not-spam, are ignored. It returns
// whether the complaint counts.
func (s *Service) Complained(ctx context.Context, c Complaint) (bool, error) {
	switch c.Type {
	case "abuse", "fraud", "opt-out", "opt-out-list":
	default:
		return false, nil
	}
	email, err := s.mailedTo(ctx, c.MessageID)
	if err != nil || email == "" {
		return false, err
	}
	return true, s.o.Store.Suppress(ctx, notify.Suppression{
		Email: email, Reason: strings.TrimSpace(c.Type + " " + c.Reporter), Source: "complaint", Created: time.Now(),
	})
}
