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
func (s *Service) Bounced(ctx context.Context, b Bounce) error {
	number, ok := s.o.IDs.MessageNumber(b.MessageID)
	if !ok || !b.Permanent {
		return nil
	}
	m, _, err := s.o.Store.Message(ctx, number)
	if errors.Is(err, notify.ErrNotFound) || err == nil && !strings.EqualFold(m.Email, b.Recipient) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.o.Store.Suppress(ctx, notify.Suppression{
		Email: b.Recipient, Reason: strings.TrimSpace(b.Status + " " + b.Diagnostic), Source: "bounce", Created: time.Now(),
	})
}
