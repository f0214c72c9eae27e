package forward

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// testReach is a network of containers on loopback.
var testReach = Reach{Host: netip.MustParseAddr("127.0.0.9"), From: netip.MustParsePrefix("127.0.0.8/29")}

// notOwn treats no address as this machine's: on loopback all are.
func notOwn(netip.Addr) bool { return false }

func dialFrom(t *testing.T, from string, to Endpoint) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	c, err := d.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The forwarder accepts connections only from the containers' network, and stops
// with the broker.
func TestForwarder(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	server := Local(l.Addr().(*net.TCPAddr).Port)
	f := New(testReach, func(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.100") },
		slog.New(slog.DiscardHandler))
	if got := f.Outside(server); got.Host != "127.0.0.9" || got.Port != server.Port {
		t.Errorf("outside: %v", got)
	}
	for range 2 {
		if err := f.Open(t.Context(), server, 10, nil); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := f.Addresses(t.Context(), server); err != nil || len(list) != 1 || list[0].Addr() != testReach.Host {
		t.Errorf("addresses: %v, %v", list, err)
	}
	dial := func(from string) (string, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
		c, err := d.Dial("tcp", f.Outside(server).String())
		if err != nil {
			return "", err
		}
		defer c.Close()
		if _, err := io.WriteString(c, "hello"); err != nil {
			return "", err
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			return "", err
		}
		text, err := io.ReadAll(c)
		return string(text), err
	}
	if text, err := dial("127.0.0.10"); err != nil || text != "hello" {
		t.Errorf("from the network: %q, %v", text, err)
	}
	if text, err := dial("127.0.0.100"); err != nil || text != "hello" {
		t.Errorf("from this machine: %q, %v", text, err)
	}
	if text, _ := dial("127.0.0.200"); text != "" {
		t.Errorf("from elsewhere: %q", text)
	}
	f.Close(server)
	if text, err := dial("127.0.0.10"); err == nil {
		t.Errorf("after it was shut: %q", text)
	}
	f.Stop()
}

// TestForwarderFlood has one app that opens connections endlessly. Another app is
// served all the time, and connections that send nothing are closed.
func TestForwarderFlood(t *testing.T) {
	t.Parallel()
	forwarderFlood(t, 100, 1)
}

// TestSoakForwarderFlood does the same with many connections, repeatedly through
// the same forwarder: closed connections are no longer counted.
func TestSoakForwarderFlood(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") != "1" {
		t.Skip("INGOT_SOAK is not set")
	}
	forwarderFlood(t, 2000, 20)
}

func forwarderFlood(t *testing.T, connections, rounds int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	server := Local(l.Addr().(*net.TCPAddr).Port)
	reach := testReach
	reach.Owner = func(a netip.Addr) string {
		// Two instances of one app.
		if a.String() == "127.0.0.11" || a.String() == "127.0.0.12" {
			return "greedy"
		}
		return ""
	}
	f := New(reach, notOwn, slog.New(slog.DiscardHandler))
	// Others that do not speak at once, on a busy machine, have to be served.
	f.silent = 5 * time.Second
	const capacity = 20
	if err := f.Open(t.Context(), server, capacity, nil); err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	for range rounds {
		var greedy []net.Conn
		for i := range connections {
			greedy = append(greedy, dialFrom(t, []string{"127.0.0.11", "127.0.0.12"}[i%2], f.Outside(server)))
		}
		for range 5 {
			c := dialFrom(t, "127.0.0.10", f.Outside(server))
			if _, err := io.WriteString(c, "hello"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 5)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
				t.Fatalf("another app: %q, %v", got, err)
			}
			if n := f.listeners[server].limiter.Open(); n > capacity {
				t.Errorf("%d connections are open, and the server takes %d", n, capacity)
			}
			c.Close()
		}
		for i, c := range greedy {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			var timeout net.Error
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatalf("silent connection %d is not closed: %v", i, err)
			}
			c.Close()
		}
	}
}
