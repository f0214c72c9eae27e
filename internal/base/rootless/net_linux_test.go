package rootless

import (
	"context"
	"errors"
	"net"
	"testing"
)

// TestDialsAreBounded checks that attempts wait for a slot, give up with their context, and
// free it also after an error.
func TestDialsAreBounded(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 2)
	refused := errors.New("refused")
	refuse := func() (net.Conn, error) { return nil, refused }
	for range 5 {
		if _, err := bounded(t.Context(), slots, refuse); !errors.Is(err, refused) {
			t.Fatalf("an attempt with a free slot: %v", err)
		}
	}
	hang, begun, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	for range 2 {
		go func() {
			_, err := bounded(t.Context(), slots, func() (net.Conn, error) {
				begun <- struct{}{}
				<-hang
				return nil, refused
			})
			ended <- err
		}()
	}
	for range 2 {
		<-begun
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bounded(gone, slots, refuse); !errors.Is(err, context.Canceled) {
		t.Errorf("an attempt without a slot: %v", err)
	}
	close(hang)
	for range 2 {
		<-ended
	}
	if _, err := bounded(t.Context(), slots, refuse); !errors.Is(err, refused) {
		t.Errorf("an attempt after others have ended: %v", err)
	}
}
