package drain

import (
	"context"
	"errors"
	"time"

	"ingot/internal/platform/logs"
)

// parcel is a message on its way.
type parcel struct {
	number uint64 // of the line
	text   []byte
}

// sender is a way to a receiver. Its methods are called by one goroutine.
type sender interface {
	// send hands parcels over, in order.
	send(ctx context.Context, parcels []parcel) error
	// taken is the number of the last line that the receiver has, as far as can
	// be known by now; 0 when there is none.
	taken(now time.Time) uint64
	// broken is closed when the way can no longer be used.
	broken() <-chan struct{}
	// reason is why it is broken, if that is known.
	reason() error
	close()
}

// refusedError tells that a receiver will never take some lines.
type refusedError struct {
	reason string
	last   uint64 // number of the last line that it will not take
	lines  uint64
}

func (e *refusedError) Error() string { return e.reason }

var errGone = errors.New("the receiver closed the connection")

// parcels makes messages of the lines of a batch.
func parcels(b logs.Batch, d *Drain, metadata bool) []parcel {
	out := make([]parcel, len(b.Entries))
	var buf []byte
	for i := range b.Entries {
		from := len(buf)
		buf = appendMessage(buf, &b.Entries[i], d, metadata)
		out[i] = parcel{number: b.First + uint64(i), text: buf[from:len(buf):len(buf)]}
	}
	return out
}
