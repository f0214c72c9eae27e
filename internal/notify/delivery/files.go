package delivery

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"ingot/internal/notify"
)

const (
	// keptFiles limits the attachments that are kept for the next batches of their sends, in bytes. Those of one send
	// are always kept. Encoded ones take 2.4 times as much.
	keptFiles = notify.MaxAttachedBytes
	// manyFiles limits the attachments of the sends in a part of a batch, manyCarried what all its mails carry: with more,
	// a part would take longer to send than it may.
	manyFiles   = notify.MaxAttachedBytes
	manyCarried = 128 << 20
)

// attachments reads the attachments of sends, once for many messages.
type attachments struct {
	store notify.Files
	// reading allows one send at a time.
	reading chan struct{}

	mu    sync.Mutex
	order list.List // of *keptAttached, the latest used first
	known map[int64]*list.Element
	bytes int64
}

type keptAttached struct {
	send int64
	*notify.Attached
	idle bool // it was not used since the last tidy
}

func newAttachments(store notify.Files) *attachments {
	return &attachments{store: store, reading: make(chan struct{}, 1), known: map[int64]*list.Element{}}
}

// of returns the attachments of a send; nil if it has none.
func (c *attachments) of(ctx context.Context, s *notify.Send) (*notify.Attached, error) {
	if len(s.Attachments) == 0 {
		return nil, nil
	}
	if have := c.get(s.Number); have != nil {
		return have, nil
	}
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errStore, context.Cause(ctx))
	}
	if have := c.get(s.Number); have != nil { // read meanwhile
		return have, nil
	}
	made := &notify.Attached{}
	for _, a := range s.Attachments {
		content, err := c.store.FileContent(ctx, s.ClientID, a.ID)
		if errors.Is(err, notify.ErrNotFound) {
			return nil, fmt.Errorf("the attachment %q is no longer stored", a.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errStore, err)
		}
		made.Files = append(made.Files, notify.AttachedFile{Attachment: a, Content: content})
		made.Bytes += int64(len(content))
	}
	c.put(s.Number, made)
	return made, nil
}

func (c *attachments) get(send int64) *notify.Attached {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[send]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	kept := e.Value.(*keptAttached)
	kept.idle = false
	return kept.Attached
}

func (c *attachments) put(send int64, a *notify.Attached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[send] = c.order.PushFront(&keptAttached{send: send, Attached: a})
	c.bytes += a.Bytes
	for c.order.Len() > 1 && c.bytes > keptFiles {
		c.drop(c.order.Back())
	}
}

func (c *attachments) drop(e *list.Element) {
	old := c.order.Remove(e).(*keptAttached)
	delete(c.known, old.send)
	c.bytes -= old.Bytes
}

// tidy forgets attachments that were not used since it was called last.
func (c *attachments) tidy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; {
		next := e.Next()
		if kept := e.Value.(*keptAttached); kept.idle {
			c.drop(e)
		} else {
			kept.idle = true
		}
		e = next
	}
}

// load counts what a part of a batch holds in memory and what it carries.
type load struct {
	bodies int
	// files are the attachments of different sends.
	files, carried int64
	last           *notify.Attached
}

// add counts a message, and reports whether the part has enough.
func (l *load) add(body *notify.Body, own bool, a *notify.Attached) bool {
	if own {
		l.bodies += size(body)
	}
	if a != nil {
		l.carried += a.Bytes
		if a != l.last { // messages of a send are next to each other
			l.files, l.last = l.files+a.Bytes, a
		}
	}
	return l.bodies >= manyBytes || l.files >= manyFiles || l.carried >= manyCarried
}
