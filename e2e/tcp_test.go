package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// greeted is a connection to the sample tcp-echo.
type greeted struct {
	net.Conn
	r        *bufio.Reader
	greeting string
}

// greet connects to a TCP route.
func (s *site) greet(t *testing.T, port string) (*greeted, error) {
	t.Helper()
	host, _, err := net.SplitHostPort(strings.TrimPrefix(s.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	g := &greeted{Conn: c, r: bufio.NewReader(c)}
	_ = g.SetDeadline(time.Now().Add(patience))
	g.greeting, err = g.r.ReadString('\n')
	return g, err
}

// echoes checks that the connection still works.
func (g *greeted) echoes(t *testing.T, when string) {
	t.Helper()
	_ = g.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(g, when); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if got, err := g.r.ReadString('\n'); err != nil || strings.TrimSpace(got) != when {
		t.Fatalf("%s: got %q, %v", when, got, err)
	}
}

// TestTCPRoutes gives the sample tcp-echo TCP routes with the real cf: from its manifest,
// with a port and with a random one.
func TestTCPRoutes(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		home := s.admin(t)
		contains(t, cfOK(t, home, "router-groups"), "default-tcp", "tcp")
		contains(t, cfOK(t, home, "create-shared-domain", "tcp.apps.localhost", "--router-group", "default-tcp"), "OK")
		cfFails(t, home, "Router group 'none' not found.", "create-shared-domain", "x.apps.localhost",
			"--router-group", "none")
		contains(t, cfOK(t, home, "domains"), "tcp.apps.localhost", "tcp")

		dir, err := buildSamples()
		if err != nil {
			t.Fatal(err)
		}
		contains(t, cfOK(t, home, "push", "-f", filepath.Join(dir, "tcp-echo", "manifest.yml"), "-i", "2"),
			"tcp.apps.localhost:1024")
		var old *greeted
		seen := map[string]bool{}
		testkit.Eventually(t, "both instances greet", func() bool {
			g, err := s.greet(t, "1024")
			if err != nil {
				return false
			}
			if old != nil {
				old.Close()
			}
			old = g
			seen[strings.Split(g.greeting, ",")[0]] = true
			return len(seen) == 2
		})
		old.echoes(t, "first")

		out := cfOK(t, home, "map-route", "tcp-echo", "tcp.apps.localhost")
		_, rest, _ := strings.Cut(out, "Mapping route tcp.apps.localhost:")
		random := strings.Fields(rest)[0]
		if g, err := s.greet(t, random); err != nil {
			t.Errorf("the random port %s: %v", random, err)
		} else {
			g.echoes(t, "random")
			g.Close()
		}
		contains(t, cfOK(t, home, "map-route", "tcp-echo", "tcp.apps.localhost", "--port", "1100"), "OK")
		contains(t, cfOK(t, home, "create-route", "tcp.apps.localhost", "--port", "1100"), "already exists")
		cfFails(t, home, "Port '2000' is not available. Try a different port or use a different domain.", "create-route",
			"tcp.apps.localhost", "--port", "2000")
		cfFails(t, home, "Hosts are not supported for TCP routes.", "create-route", "tcp.apps.localhost", "--hostname", "x")
		contains(t, cfOK(t, home, "check-route", "tcp.apps.localhost", "--port", "1100"), "does exist")
		contains(t, cfOK(t, home, "check-route", "tcp.apps.localhost", "--port", "1101"), "does not exist")
		contains(t, cfOK(t, home, "routes"), "1100", "tcp")
		contains(t, cfOK(t, home, "delete-route", "tcp.apps.localhost", "--port", "1100", "-f"), "OK")
		if g, err := s.greet(t, "1100"); err == nil {
			t.Errorf("a deleted route greets with %q", g.greeting)
		}
		old.echoes(t, "other routes changed")

		// Another process takes over: the connection stays open, and new ones reach it.
		before := s.replace(t, program(t))
		old.echoes(t, "the server was replaced")
		next, err := s.greet(t, "1024")
		if err != nil {
			t.Fatalf("a new connection after the server was replaced: %v", err)
		}
		old.Close()
		old = next
		old.echoes(t, "to the new process")
		s.client.CloseIdleConnections()
		if code := before.wait(t); code != 0 {
			t.Errorf("the process before ended with code %d, want 0\n%s", code, before.Stderr)
		}

		testkit.Eventually(t, "the access log has the connection", func() bool {
			return strings.Contains(cfOK(t, home, "logs", "tcp-echo", "--recent"), "tcp.apps.localhost:"+random+` - [`)
		})

		// With the PROXY protocol the app knows its client.
		cfOK(t, home, "set-env", "tcp-echo", "PROXY_PROTOCOL", "v1")
		contains(t, cfOK(t, home, "map-route", "tcp-echo", "tcp.apps.localhost", "--port", "1101", "-o", "proxy_protocol=v1"),
			"OK")
		cfOK(t, home, "restart", "tcp-echo")
		_ = old.SetDeadline(time.Now().Add(patience))
		if _, err := old.r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection outlives its instance: %v", err)
		}
		testkit.Eventually(t, "the app knows the address of its client", func() bool {
			g, err := s.greet(t, "1101")
			return err == nil && strings.HasSuffix(strings.TrimSpace(g.greeting), "you are "+g.LocalAddr().String())
		})
		contains(t, cfOK(t, home, "stop", "tcp-echo"), "OK")
		testkit.Eventually(t, "the port of a stopped app answers no more", func() bool {
			_, err := s.greet(t, "1101")
			return err != nil
		})
	})
}

// TestInstanceIdentity pushes the sample mutual-tls: two apps that accept only each other.
func TestInstanceIdentity(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	contains(t, cfOK(t, home, "create-shared-domain", "tcp.apps.localhost", "--router-group", "default-tcp"), "OK")
	dir, err := buildSamples()
	if err != nil {
		t.Fatal(err)
	}
	cfOK(t, home, "push", "-f", filepath.Join(dir, "mutual-tls", "manifest.yml"))
	guid := func(app string) string { return strings.TrimSpace(cfOK(t, home, "app", app, "--guid")) }
	host, _, err := net.SplitHostPort(strings.TrimPrefix(s.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	cfOK(t, home, "set-env", "mutual-tls-client", "SERVER_APP", guid("mutual-tls-server"))
	cfOK(t, home, "set-env", "mutual-tls-client", "SERVER_ADDRESS", net.JoinHostPort(host, "1025"))
	cfOK(t, home, "restart", "mutual-tls-client")
	// The server allows no app yet.
	r := s.reaches(t, "mutual-tls-client", "/", 403)
	contains(t, string(r.Body), "app "+guid("mutual-tls-client")+" may not call this app")
	cfOK(t, home, "set-env", "mutual-tls-server", "ALLOWED_APP", guid("mutual-tls-client"))
	cfOK(t, home, "restart", "mutual-tls-server")
	r = s.reaches(t, "mutual-tls-client", "/", 200)
	contains(t, string(r.Body), "hello instance", "of app "+guid("mutual-tls-client"))
	contains(t, string(s.call(t, "GET", s.API+"/instance-identity/ca.pem", "", nil).want(t, 200).Body),
		"BEGIN CERTIFICATE")
}
