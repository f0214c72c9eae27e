package sockets

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
)

var discard = slog.New(slog.DiscardHandler)

func open(ctx context.Context, _, address string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

func never(context.Context, string, string) (net.Listener, error) {
	return nil, errors.New("opened")
}

func newSet(t *testing.T, list ...Socket) *Set {
	t.Helper()
	s, err := New(discard, list...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseRest)
	return s
}

func listen(t *testing.T, s *Set, name, address string) net.Listener {
	t.Helper()
	l, err := s.Listen(t.Context(), name, address, open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestPassOn passes the sockets of one set to another, twice. A connection waits in the
// meantime and is accepted by the last one.
func TestPassOn(t *testing.T) {
	t.Parallel()
	first := newSet(t)
	l := listen(t, first, "listen", "127.0.0.1:0")
	udp, err := first.ListenUDP("dns", netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	list, err := first.Sockets()
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v, want two sockets", list, err)
	}
	second := newSet(t, list...)
	l.Close()
	udp.Close()
	waiting, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatalf("while no process accepts: %v", err)
	}
	defer waiting.Close()
	if list, err = first.Sockets(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v after all were closed, want none", list, err)
	}
	// By the name, because the port was 0.
	inherited, err := second.Listen(t.Context(), "listen", "127.0.0.1:0", never)
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	again := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), udp.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	if _, err := second.ListenUDP("dns", again); err != nil {
		t.Error(err)
	}
	accepted := make(chan error, 1)
	go func() {
		c, err := inherited.Accept()
		if err == nil {
			_, err = c.Write([]byte("x"))
			c.Close()
		}
		accepted <- err
	}()
	select {
	case err := <-accepted:
		t.Fatalf("accepted before the set is open: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	second.Open()
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(waiting); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v, want x", got, err)
	}
}

// TestAllAddresses passes on sockets that listen on all addresses, however these are written.
func TestAllAddresses(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"0.0.0.0", "[::]", ""} {
		first := newSet(t)
		l := listen(t, first, "listen", host+":0")
		list, err := first.Sockets()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		second, err := newSet(t, list...).Listen(t.Context(), "listen", host+":"+port, never)
		if err != nil {
			t.Errorf("%s:%s, which listens on %s, was not inherited: %v", host, port, l.Addr(), err)
			continue
		}
		second.Close()
	}
}

// TestMatch: an inherited socket is used for its address, whatever its name is.
func TestMatch(t *testing.T) {
	t.Parallel()
	plain := newSet(t)
	l := listen(t, plain, "a", "127.0.0.1:0")
	at := l.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	for _, test := range []struct {
		name, address string
		want          bool
	}{
		{"a", at, true},
		{"other", at, true},
		{"a", "localhost:" + port, true},
		{"a", "127.0.0.1:0", true},
		{"other", "127.0.0.1:0", false},
		{"a", "127.0.0.2:" + port, false},
		{"a", "127.0.0.1:1", false},
		{"a", ":" + port, false},
		{"a", "nonsense", false},
	} {
		list, err := plain.Sockets()
		if err != nil {
			t.Fatal(err)
		}
		s := newSet(t, list...)
		if in := s.take(test.name, "tcp", test.address); (in != nil) != test.want {
			t.Errorf("%s %s is inherited: %t, want %t", test.name, test.address, in != nil, test.want)
		} else if in != nil {
			in.Close()
		}
	}
}

// TestCloseWakes: closing a listener that waits for Open ends its Accept.
func TestCloseWakes(t *testing.T) {
	t.Parallel()
	first := newSet(t)
	l := listen(t, first, "a", "127.0.0.1:0")
	list, err := first.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	inherited := listen(t, newSet(t, list...), "a", l.Addr().String())
	ended := make(chan error, 1)
	go func() { _, err := inherited.Accept(); ended <- err }()
	inherited.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept returns %v, want that it is closed", err)
	}
}

type fakeKeeper struct{ has []string }

func (k *fakeKeeper) Keep(s Socket) error { k.has = append(k.has, s.Name); return nil }
func (k *fakeKeeper) Drop(name string) error {
	k.has = slices.DeleteFunc(k.has, func(s string) bool { return s == name })
	return nil
}

// TestKeeper keeps open sockets, except those of units.
func TestKeeper(t *testing.T) {
	t.Parallel()
	unit := newSet(t)
	at := listen(t, unit, "", "127.0.0.1:0").Addr().String()
	list, err := unit.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	list[0].Unit = true
	s := newSet(t, list...)
	if !s.Kept() || newSet(t).Kept() || (*Set)(nil).Kept() {
		t.Errorf("kept %t, want that a set with a unit's socket is kept and others are not", s.Kept())
	}
	listen(t, s, "listen", at)
	before := listen(t, s, "before", "127.0.0.1:0")
	k := &fakeKeeper{}
	s.KeepWith(k)
	after := listen(t, s, "after", "127.0.0.1:0")
	if !slices.Equal(k.has, []string{"before", "after"}) {
		t.Errorf("kept %v, want before and after", k.has)
	}
	before.Close()
	if !slices.Equal(k.has, []string{"after"}) {
		t.Errorf("kept %v after one was closed, want after", k.has)
	}
	s.KeepWith(nil)
	after.Close()
	if !slices.Equal(k.has, []string{"after"}) {
		t.Errorf("kept %v after the end, want after", k.has)
	}
}

// TestUnusable: descriptors other than listening sockets are refused.
func TestUnusable(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	l := listen(t, newSet(t), "a", "127.0.0.1:0")
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	connected, err := (&held{name: "x", raw: conn.(*net.TCPConn)}).socket()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(discard, connected); err == nil {
		t.Error("a connection is taken for a listener")
	}
}
