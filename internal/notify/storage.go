package notify

import "ingot/internal/base/fault"

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
