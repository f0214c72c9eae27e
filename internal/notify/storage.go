package notify

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"ingot/internal/base/fault"
)

// Bounds limit what a store keeps of one client, in bytes. Zero fields have a default; negative
// ones mean no limit.
//
// Everything that a client can store belongs to one of three classes:
//
//	Sends        contents and data of sends, attachments, lists of recipients, idempotency keys, inboxes: deleted after
//	             a time
//	Definitions  kinds, schemas, templates, partials, senders, campaign types, origins, destinations: until the
//	             client deletes them
//	by number    messages (Limits.Recipients, Limits.Queue), webhooks
type Bounds struct{ Sends, Definitions int64 }

const (
	defaultSendBytes       = 16 << 30
	defaultDefinitionBytes = 64 << 20
)

// WithDefaults returns the bounds with defaults in zero fields.
func (b Bounds) WithDefaults() Bounds {
	if b.Sends == 0 {
		b.Sends = defaultSendBytes
	}
	if b.Definitions == 0 {
		b.Definitions = defaultDefinitionBytes
	}
	return b
}

// Stored is how many bytes a store keeps of a client, by the classes of Bounds.
type Stored struct {
	Sends, Definitions int64
	Bounds             Bounds
}

// SendsFull returns the error for a send, of which a part has n bytes.
func (s Stored) SendsFull(client string, n int64) error {
	return fault.New(fault.InsufficientStorage,
		"The client %q has %d bytes of sends stored (contents, data, attachments, lists of recipients and inboxes) and may "+
			"have %d: "+
			"there is no room for %d more, so nothing was sent. Sends are deleted some days after their last message: try "+
			"again later, send less at a time, or ask an operator", client, s.Sends, s.Bounds.Sends, n)
}

// DefinitionsFull returns the error for a change after which the client would have too much.
func (s Stored) DefinitionsFull(client string) error {
	return fault.New(fault.InsufficientStorage,
		"The client %q would have %d bytes of kinds, schemas, templates, partials, senders and campaign types and "+
			"may have %d: "+
			"nothing was changed. Delete what is not used, or make it shorter", client, s.Definitions, s.Bounds.Definitions)
}

// MinKept is the shortest time for which a kind's messages may be kept after they are final.
const MinKept = time.Hour

const day = 24 * time.Hour

// ParseKept parses how long messages are kept, in whole hours or days: "72h", "90d". The error says what is wrong, for
// instance that it is longer than most.
func ParseKept(text string, most time.Duration) (time.Duration, error) {
	if n := len(text); n > 1 {
		unit := map[byte]time.Duration{'h': time.Hour, 'd': day}[text[n-1]]
		count, err := strconv.ParseInt(text[:n-1], 10, 64)
		digit := text[0] >= '0' && text[0] <= '9' // no sign
		// The number is compared before it is multiplied, which could be more than a Duration.
		if err == nil && digit && unit > 0 && count <= int64(most/unit) && time.Duration(count)*unit >= MinKept {
			return time.Duration(count) * unit, nil
		}
	}
	return 0, fmt.Errorf("must be whole hours or days, such as 36h or 90d, at least %s and at most %s, as the server "+
		"allows", KeptText(MinKept), KeptText(most))
}

// KeptText returns a time as ParseKept reads it: in days if there are several and no hours are left.
func KeptText(d time.Duration) string {
	if d > day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return Delay(d).String()
}

// Retentions says how long messages of kinds are kept.
type Retentions interface {
	// SetKept sets Kind.Kept of a kind, for later sends; 0 is the server's default. ErrNotFound when the kind is missing.
	SetKept(ctx context.Context, ref KindRef, kept time.Duration) error
}
