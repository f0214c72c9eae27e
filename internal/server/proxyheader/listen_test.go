package proxyheader_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"ingot/internal/base/connlimit"
	"ingot/internal/server/proxyheader"
)

func tcp(s string) *net.TCPAddr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }

// header returns a PROXY header of a version.
func header(t *testing.T, version byte, from, to string) string {
	t.Helper()
	b, err := proxyproto.HeaderProxyFromAddrs(version, tcp(from), tcp(to)).Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func listen(t *testing.T, o proxyheader.Options) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	wrapped := proxyheader.Listen(l, o)
	t.Cleanup(func() { wrapped.Close() })
	return wrapped
}

// dialed is a client that has sent some text.
func dialed(t *testing.T, l net.Listener, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	all     = func(netip.Addr) bool { return true }
	nowhere = func(netip.Addr) bool { return false }
)

func TestHeadersNameTheClient(t *testing.T) {
	t.Parallel()
	long := func() string {
		h := proxyproto.HeaderProxyFromAddrs(2, tcp("203.0.113.7:5000"), tcp("192.0.2.1:443"))
		if err := h.SetTLVs([]proxyproto.TLV{{Type: 0xE0, Value: bytes.Repeat([]byte("x"), 2000)}}); err != nil {
			t.Fatal(err)
		}
		b, err := h.Format()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}()
	local := "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	for name, one := range map[string]struct{ header, remote string }{
		"version 1":             {header(t, 1, "203.0.113.7:5000", "192.0.2.1:443"), "203.0.113.7:5000"},
		"version 2":             {header(t, 2, "203.0.113.7:5000", "192.0.2.1:443"), "203.0.113.7:5000"},
		"version 1, IPv6":       {header(t, 1, "[2001:db8::7]:5000", "[2001:db8::1]:443"), "[2001:db8::7]:5000"},
		"version 2, IPv6":       {header(t, 2, "[2001:db8::7]:5000", "[2001:db8::1]:443"), "[2001:db8::7]:5000"},
		"with extensions":       {long, "203.0.113.7:5000"},
		"check of the proxy":    {local, "127.0.0.1"},
		"of no known protocol":  {"PROXY UNKNOWN\r\n", "127.0.0.1"},
		"unknown, with garbage": {"PROXY UNKNOWN 1 2 3\r\n", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, proxyheader.Options{From: all})
			client := dialed(t, l, "")
			// In two parts, and what follows together with the second.
			half := len(one.header) / 2
			if _, err := io.WriteString(client, one.header[:half]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(client, one.header[half:]+"hello"); err != nil {
				t.Fatal(err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := c.RemoteAddr().String(); !strings.HasPrefix(got, one.remote) {
				t.Errorf("the client's address is %s, want %s", got, one.remote)
			}
			b := make([]byte, 5)
			if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
				t.Errorf("read %q, %v, want hello", b, err)
			}
			if _, ok := connlimit.TCP(c); !ok {
				t.Errorf("%T is not a TCP connection", c)
			}
		})
	}
}

// A client that is not listed cannot name an address: its header is a part of what it
// sends.
func TestHeadersOfOthersAreBytes(t *testing.T) {
	t.Parallel()
	l := listen(t, proxyheader.Options{From: nowhere})
	text := header(t, 1, "203.0.113.7:5000", "192.0.2.1:443")
	dialed(t, l, text)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text || !strings.HasPrefix(c.RemoteAddr().String(),
		"127.0.0.1:") {
		t.Errorf("read %q from %s, %v, want %q from 127.0.0.1", b, c.RemoteAddr(), err, text)
	}
}

// A listed address that sends something else is refused, and does not hold up others.
func TestMissingHeaders(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := listen(t, proxyheader.Options{From: all, Optional: nowhere, Log: slog.New(slog.NewTextHandler(&out, nil))})
	dialed(t, l, "") // sends nothing
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "PROXY " + strings.Repeat("x", 200), "PROXY TCP4 nonsense\r\n",
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff"} {
		refused := dialed(t, l, text)
		next := dialed(t, l, header(t, 2, "203.0.113.7:5000", "192.0.2.1:443"))
		c, err := l.Accept()
		if err != nil || c.RemoteAddr().String() != "203.0.113.7:5000" {
			t.Fatalf("after %q the next connection is %v, %v", text, c, err)
		}
		_ = c.Close()
		_ = next.Close()
		_ = refused.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := refused.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection with %q is open: %v", text, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v, want %v", err, net.ErrClosed)
	}
}

// The machine itself may connect without a header.
func TestOptionalHeaders(t *testing.T) {
	t.Parallel()
	l := listen(t, proxyheader.Options{From: all, Optional: all})
	dialed(t, l, "GET /")
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "GET /" {
		t.Errorf("read %q, %v, want all that was sent", b, err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 203.0.113.7 192.0.2.1 5000 443\r\nhello"))
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := proxyheader.Length(b)
		if n > len(b) || n > 0 && err != nil {
			t.Errorf("a header of %d bytes, %v, in %d", n, err, len(b))
		}
	})
}
