package rootless

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/base/testkit"
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

// TestFirstThreadStays: what runs in another namespace never does so on the first thread of the process, by which
// /proc/self shows the namespaces of all of it.
func TestFirstThreadStays(t *testing.T) {
	t.Parallel()
	own, err := os.Open("/proc/self/ns/net")
	testkit.Must(t, err)
	defer own.Close()
	for name, within := range map[string]func(func() error) error{
		"Within": func(f func() error) error {
			_, err := Within(own, func() (struct{}, error) { return struct{}{}, f() })
			return err
		},
		"OnOwnThread": OnOwnThread,
	} {
		var first atomic.Int32
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				err := within(func() error {
					if unix.Gettid() == unix.Getpid() {
						first.Add(1)
					}
					return nil
				})
				if errors.Is(err, unix.EPERM) {
					return // an ordinary user may not enter even its own namespace
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if n := first.Load(); n > 0 {
			t.Errorf("%s used the first thread %d times", name, n)
		}
	}
}
