package connlimit_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"ingot/internal/base/connlimit"
)

// TestFairness floods from one source: others still get in, up to an equal
// share, and what the flood loses is what was quiet for the longest time.
func TestFairness(t *testing.T) {
	t.Parallel()
	l := connlimit.New(connlimit.Limits{PerSource: 8, Total: 10})
	ended := map[int]bool{}
	var flood []*connlimit.Slot
	for i := range 20 {
		if s := l.Take("flood", func() { ended[i] = true }); s != nil {
			flood = append(flood, s)
		}
	}
	if len(flood) != 8 {
		t.Fatalf("one source got %d connections, want 8", len(flood))
	}
	var others []*connlimit.Slot
	for range 20 {
		if s := l.Take("other", func() { t.Error("the smaller source lost a connection") }); s != nil {
			others = append(others, s)
		}
	}
	if len(others) != 5 || l.Open() != 10 {
		t.Fatalf("the other source got %d of %d connections, want 5 of 10", len(others), l.Open())
	}
	for i := range 20 {
		if ended[i] != (i < 3) {
			t.Errorf("connection %d of the flood ended: %t", i, ended[i])
		}
	}
	for _, s := range append(flood, others...) {
		s.Release()
		s.Release()
	}
	if l.Open() != 0 {
		t.Errorf("%d connections are counted after all were released", l.Open())
	}
}

// broken fails as a listener does when there are no file descriptors left.
type broken struct {
	net.Listener
	mu   sync.Mutex
	left int
}

func (b *broken) Accept() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left > 0 {
		b.left--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return b.Listener.Accept()
}

// TestAcceptGoesOn has a listener without file descriptors for a while.
func TestAcceptGoesOn(t *testing.T) {
	t.Parallel()
	l := listen(t)
	accepted, ended := make(chan net.Conn), make(chan struct{})
	go func() {
		defer close(ended)
		connlimit.Accept(&broken{Listener: l, left: 3}, slog.New(slog.DiscardHandler), func(c net.Conn) { accepted <- c })
	}()
	dial(t, l)
	(<-accepted).Close()
	l.Close()
	<-ended
}

// TestListener refuses what is too much of one source, and only that.
func TestListener(t *testing.T) {
	t.Parallel()
	l := connlimit.Listen(listen(t), connlimit.Limits{PerSource: 2}, nil, slog.New(slog.DiscardHandler))
	accepted := make(chan net.Conn, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		connlimit.Accept(l, slog.New(slog.DiscardHandler), func(c net.Conn) { accepted <- c })
	}()
	dial(t, l)
	dial(t, l)
	first, second := <-accepted, <-accepted
	if _, err := dial(t, l).Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("a third connection was not refused: %v", err)
	}
	first.Close()
	dial(t, l)
	(<-accepted).Close()
	second.Close()
	l.Close()
	<-done
}

func TestAddress(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort("[::ffff:10.1.2.3]:80")
	for _, a := range []net.Addr{net.TCPAddrFromAddrPort(at), net.UDPAddrFromAddrPort(at)} {
		if got := connlimit.Address(a); got != netip.MustParseAddr("10.1.2.3") {
			t.Errorf("%T: %v", a, got)
		}
	}
	if connlimit.Address(&net.UnixAddr{}).IsValid() {
		t.Error("a path is an address")
	}
	if connlimit.Share(2) < 16 {
		t.Error("no connections are left")
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
