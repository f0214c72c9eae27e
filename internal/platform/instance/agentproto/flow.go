package agentproto

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Inbox holds the bytes of a stream that arrived and were not read yet: at most Window. It
// gives the sender credit as they are read.
type Inbox struct {
	grant func(n int)

	mu   sync.Mutex
	more sync.Cond
	buf  []byte
	owed int   // read, but not granted again yet
	err  error // after buf
}

// NewInbox returns an empty inbox. grant sends a Credit.
func NewInbox(grant func(n int)) *Inbox {
	b := &Inbox{grant: grant}
	b.more.L = &b.mu
	return b
}

// Put adds bytes that arrived, and fails if the sender exceeds its credit. No bytes are the
// end of the stream.
func (b *Inbox) Put(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(p) == 0:
		b.end(io.EOF)
	case len(b.buf)+b.owed+len(p) > Window:
		return fmt.Errorf("%w: more than the window", ErrFrame)
	case b.err == nil:
		b.buf = append(b.buf, p...)
		b.more.Broadcast()
	}
	return nil
}

func (b *Inbox) end(err error) {
	if b.err == nil {
		b.err = err
	}
	b.more.Broadcast()
}

// Close ends the stream with an error. What arrived before can still be read.
func (b *Inbox) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(err)
}

// Read waits for bytes, or the end.
func (b *Inbox) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, credit, err := b.read(p)
	if credit > 0 {
		b.grant(credit)
	}
	return n, err
}

func (b *Inbox) read(p []byte) (n, credit int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buf) == 0 && b.err == nil {
		b.more.Wait()
	}
	n = copy(p, b.buf)
	if n == 0 {
		return 0, 0, b.err
	}
	if b.buf = b.buf[n:]; len(b.buf) == 0 {
		b.buf = nil
	}
	if b.owed += n; b.owed >= Window/2 && b.err == nil {
		credit, b.owed = b.owed, 0
	}
	return n, credit, nil
}

// Quota is how much of a stream may still be sent.
type Quota struct {
	mu   sync.Mutex
	more sync.Cond
	left int
	err  error
}

// NewQuota returns a Quota of one Window.
func NewQuota() *Quota {
	q := &Quota{left: Window}
	q.more.L = &q.mu
	return q
}

// Take waits for credit and returns how many bytes may be sent now, at most the given
// number.
func (q *Quota) Take(most int) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.left == 0 && q.err == nil {
		q.more.Wait()
	}
	if q.err != nil {
		return 0, q.err
	}
	n := min(most, q.left)
	q.left -= n
	return n, nil
}

// Add adds the credit of the receiver.
func (q *Quota) Add(n int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > Window-q.left {
		return fmt.Errorf("%w: more credit than the window", ErrFrame)
	}
	q.left += n
	q.more.Broadcast()
	return nil
}

// Close makes Take fail.
func (q *Quota) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = os.ErrClosed
	q.more.Broadcast()
}

// Outbox sends a stream of an exec, limited by a Quota.
type Outbox struct {
	Conn  *Conn
	Type  Type
	Quota *Quota
}

// Write sends bytes as far as there is credit, and waits for more.
func (o Outbox) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := o.Quota.Take(min(len(p)-sent, Chunk))
		if err == nil {
			err = o.Conn.Send(o.Type, p[sent:sent+n])
		}
		if err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// Close sends the end of the stream.
func (o Outbox) Close() error { return o.Conn.Send(o.Type) }
