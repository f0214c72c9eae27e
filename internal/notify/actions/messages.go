package actions

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ingot/internal/notify"
)

// broadcast wakes all goroutines that wait for a send to be extended. The zero
// value is ready to use.
type broadcast struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next event
}

func (n *broadcast) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

func (n *broadcast) signal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

const (
	// messagesPage is the number of messages in memory at a time.
	messagesPage = 1000
	// lookAgain is the poll interval for sends that another process expands.
	lookAgain = time.Second
)

// Extended is called by the delivery when it has found more recipients of a
// send.
func (s *Service) Extended(client string, recipients int) {
	s.quotas.spend(client, recipients, time.Now())
	s.broadcast.signal()
}

// Messages calls each for the messages of a send in order. While the send is
// being expanded, it waits for the rest, unless ctx is done.
func (s *Service) Messages(ctx context.Context, send int64, each func(notify.Message) error) error {
	after := int64(-1)
	for {
		// This order ensures that no event is missed.
		more := s.broadcast.wait()
		now, err := s.o.Store.Send(ctx, send)
		if err != nil {
			return fmt.Errorf("read a send: %w", err)
		}
		if after, err = s.pages(ctx, send, after, each); err != nil {
			return err
		}
		if now.Expanded {
			return nil
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-more:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

func (s *Service) pages(ctx context.Context, send, after int64, each func(notify.Message) error) (int64, error) {
	for {
		page, err := s.o.Store.MessagesOf(ctx, send, after, messagesPage)
		if err != nil {
			return after, fmt.Errorf("read the messages of a send: %w", err)
		}
		for _, m := range page {
			if err := each(m); err != nil {
				return after, err
			}
			after = m.Number
		}
		if len(page) < messagesPage {
			return after, nil
		}
	}
}
