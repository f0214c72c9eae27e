package drain

import (
	"context"
	"errors"
	"time"

	"ingot/internal/platform/logs"
)

// message is a message with the number of its line.
type message struct {
	number uint64 // of the line
	text   []byte
}

// sender sends messages to a receiver. Its methods are called by one goroutine.
type sender interface {
	// send sends messages, in order.
	send(ctx context.Context, messages []message) error
	// taken returns the number of the last line that the receiver is known to have; 0 if
	// there is none.
	taken(now time.Time) uint64
	// finish says that no more lines follow, waits a while for the receiver to have read
	// all, and returns the same as taken. The sender cannot be used any more.
	finish(patience time.Duration) uint64
	// broken is closed when the sender can no longer be used.
	broken() <-chan struct{}
	// reason returns why it is broken, if known.
	reason() error
	close()
}

// refusedError means that a receiver will never accept some lines.
type refusedError struct {
	reason string
	last   uint64 // number of the last line that it refuses
	lines  uint64
}

func (e *refusedError) Error() string { return e.reason }

var errGone = errors.New("the receiver closed the connection")

// messages returns the messages of a batch, without the lines that the target does not want.
func messages(b logs.Batch, d *Drain, t *target) []message {
	out := make([]message, 0, len(b.Entries))
	var buf []byte
	for i := range b.Entries {
		if !t.sources.wants(b.Entries[i].Source) {
			continue
		}
		from := len(buf)
		buf = appendMessage(buf, &b.Entries[i], d, t.metadata)
		out = append(out, message{number: b.First + uint64(i), text: buf[from:len(buf):len(buf)]})
	}
	return out
}
