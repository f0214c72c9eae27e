package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// balanced is a load balancer that forwards connections to an address and names their
// client with the PROXY protocol.
func balanced(t *testing.T, to, client string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			keep(c)
			all.Go(func() {
				defer c.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				keep(server)
				defer server.Close()
				fmt.Fprintf(server, "PROXY TCP4 %s 192.0.2.1 5000 80\r\n", client)
				all.Go(func() { _, _ = io.Copy(server, c); _ = server.Close() })
				_, _ = io.Copy(c, server)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

// Behind a load balancer, limits are those of the client that it names, and an app sees
// that client's address.
func TestCfBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	s := start(t, options{Args: []string{"--proxy-protocol-from", "127.0.0.1"}})
	admin := s.adminToken(t)
	s.createUser(t, admin, "joe", "right")
	at := strings.TrimPrefix(s.API, "http://")
	attacker, owner := t.TempDir(), t.TempDir()
	cfOK(t, attacker, "api", balanced(t, at, "203.0.113.7"))
	cfOK(t, owner, "api", balanced(t, at, "203.0.113.8"))
	for i := range 5 {
		cfFails(t, attacker, rejected, "auth", "joe", fmt.Sprint("wrong", i))
	}
	cfFails(t, attacker, locked, "auth", "joe", "right")
	cfOK(t, owner, "auth", "joe", "right")
}

// A user who makes too many requests is told so by cf, with Cloud Foundry's error; an
// administrator is not limited.
func TestCfRateLimit(t *testing.T) {
	t.Parallel()
	// No interval ends during the test.
	s := start(t, options{Args: []string{"--api-rate-limit", "20", "--api-rate-limit-interval", "87600h"}})
	s.createUser(t, s.adminToken(t), "joe", "right")
	home := cfHome(t, s)
	cfOK(t, home, "auth", "joe", "right")
	var out string
	for range 21 {
		out, _ = cf(t, home, "curl", "/v3/apps")
	}
	contains(t, out, `"code":10013`, `"title":"CF-RateLimitExceeded"`)
	if out, code := cf(t, home, "orgs"); code == 0 || !strings.Contains(out, "Rate Limit Exceeded") {
		t.Errorf("cf orgs over the limit: exit code %d\n%s", code, out)
	}
	contains(t, cfOK(t, cfAdmin(t, s), "orgs"), "Getting orgs")
}
