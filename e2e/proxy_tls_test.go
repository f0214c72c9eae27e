package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// PROXY headers of both versions, for a client with the address 203.0.113.N.
func proxyHeader1(n byte) string {
	return fmt.Sprintf("PROXY TCP4 203.0.113.%d 192.0.2.1 5000 443\r\n", n)
}

func proxyHeader2(n byte) string {
	return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + string([]byte{203, 0, 113, n, 192, 0, 2, 1}) + "\x13\x88\x01\xbb"
}

// TestProxyProtocolTLS: behind a load balancer that forwards connections with TLS, the
// PROXY header before the handshake names the client. One that is not listed cannot
// name an address, and half a header delays no other client.
func TestProxyProtocolTLS(t *testing.T) {
	t.Parallel()
	authority, host, balancer, stranger := testkit.NewAuthority(t), loopback(), loopback(), loopback()
	cert, key := authority.Write(t.TempDir(), "example.test", "*.example.test", "*.apps.example.test")
	s := startApps(t, options{Engine: "process", Args: []string{
		"--domain", "example.test", "--tls-listen", host + ":0", "--tls-cert", cert, "--tls-key", key, "--tcp-ports", "none",
		"--proxy-protocol-from", balancer + "/32",
	}})
	_, ports := s.public(t)
	at := fmt.Sprintf("%s:%d", host, ports.TLS)
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "shop")...)
	app := guid(t, home, "shop")

	dial := func(from, first string) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).
			DialContext(t.Context(), "tcp", at)
		if err == nil {
			_, err = io.WriteString(c, first)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	get := func(from, first, path string, http2 bool) error {
		transport := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return dial(from, first), nil },
			TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}, ForceAttemptHTTP2: http2, DisableKeepAlives: true,
		}
		client := &http.Client{Timeout: patience, Transport: transport}
		res, err := client.Get("https://shop.apps.example.test" + path)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if want := map[bool]int{false: 1, true: 2}[http2]; res.StatusCode != http.StatusOK || res.ProtoMajor != want {
			return fmt.Errorf("%s %s", res.Proto, res.Status)
		}
		return nil
	}

	half := dial(balancer, proxyHeader1(1)[:20]) // and half a header of version 2
	half2 := dial(balancer, proxyHeader2(1)[:20])
	for i, c := range []struct {
		from, header string
		http2        bool
		client       string
	}{
		{balancer, proxyHeader1(7), false, "203.0.113.7"},
		{balancer, proxyHeader1(8), true, "203.0.113.8"},
		{balancer, proxyHeader2(9), false, "203.0.113.9"},
		{balancer, proxyHeader2(10), true, "203.0.113.10"},
		{balancer, "", true, balancer}, // the machine itself may have none
		{stranger, "", true, stranger},
	} {
		path := fmt.Sprintf("/seen-%d", i)
		if err := get(c.from, c.header, path, c.http2); err != nil {
			t.Errorf("from %s with %q: %v", c.from, c.header, err)
			continue
		}
		var seen string
		testkit.Eventually(t, "the request is in the app's log", func() bool {
			for _, l := range s.log(t, app) {
				if strings.HasPrefix(l.Source, "RTR") && strings.Contains(l.Text, path+" ") {
					seen = l.Text
				}
			}
			return seen != ""
		})
		if want := `x_forwarded_for:"` + c.client + `"`; !strings.Contains(seen, want) ||
			!strings.Contains(seen, `x_forwarded_proto:"https"`) {
			t.Errorf("from %s with %q, the app sees %s, want %s and https", c.from, c.header, seen, want)
		}
	}
	// From elsewhere a header is not TLS.
	for _, header := range []string{proxyHeader1(11), proxyHeader2(11)} {
		if err := get(stranger, header, "/never", true); err == nil {
			t.Errorf("a connection from %s with %q is accepted", stranger, header)
		}
	}
	for _, c := range []net.Conn{half, half2} {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection with half a header stays open")
		}
	}
	for _, l := range s.log(t, app) {
		if strings.Contains(l.Text, "/never") {
			t.Errorf("the app got a request: %s", l.Text)
		}
	}
}
