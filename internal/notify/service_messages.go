package notify

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// news tells those who wait that some send was extended. The zero value is
// ready.
type news struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next event
}

func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

const (
	// messagesPage is how many messages are in memory at a time.
	messagesPage = 1000
	// lookAgain is for sends that another process expands, which nobody tells
	// about.
	lookAgain = time.Second
)

// Extended is called by the delivery when it found more recipients of a send.
func (s *Service) Extended(client string, recipients int) {
	s.gates.spend(client, recipients, s.o.Now())
	s.news.tell()
}

// Messages calls each for the messages of a send in order, and waits for those
// that are still to be found.
func (s *Service) Messages(ctx context.Context, send int64, each func(Message) error) error {
	after := int64(-1)
	for {
		// In this order nothing that comes in between is missed.
		more := s.news.wait()
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

func (s *Service) pages(ctx context.Context, send, after int64, each func(Message) error) (int64, error) {
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
