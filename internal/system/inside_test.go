package system

import (
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestPlanInside compares what instances are told with where the server is.
func TestPlanInside(t *testing.T) {
	t.Parallel()
	gateway := netip.MustParseAddr("10.9.0.1")
	here := Endpoints{API: "http://127.0.0.1:8080", Notifications: "http://127.0.0.1:8081", Auth: "http://127.0.0.1:8080"}
	for name, c := range map[string]struct {
		config  Config
		gateway netip.Addr
		e       Endpoints
		api     string
		auth    string
		notify  string
		router  string
		passed  map[uint16]endpoint
		names   []string
	}{
		"shared network": {
			e: here, api: "http://127.0.0.1:8080", auth: "http://127.0.0.1:8080", notify: "http://127.0.0.1:8081", router: "127.0.0.1:8080",
		},
		"loopback": {
			gateway: gateway, e: here,
			api: "http://10.9.0.1:8080", auth: "http://10.9.0.1:8080", notify: "http://10.9.0.1:8081", router: "10.9.0.1:8080",
		},
		"behind a proxy": {
			gateway: gateway, e: here, config: Config{PublicURL: "https://api.example.com", MailConfig: MailConfig{NotificationsURL: "https://notify.example.com:8443"}},
			api: "https://api.example.com", auth: "https://api.example.com", notify: "https://notify.example.com:8443", router: "10.9.0.1:8080",
			passed: map[uint16]endpoint{443: {"api.example.com", "443"}, 8443: {"notify.example.com", "8443"}},
			names:  []string{"api.example.com", "notify.example.com"},
		},
		"external authorization server on this machine": {
			gateway: gateway, e: here, config: Config{AuthURL: "http://localhost:9000"},
			api: "http://10.9.0.1:8080", auth: "http://10.9.0.1:9000", notify: "http://10.9.0.1:8081", router: "10.9.0.1:8080",
			passed: map[uint16]endpoint{9000: {"localhost", "9000"}},
		},
		"a name and the same port": {
			gateway: gateway, e: here, config: Config{PublicURL: "http://api.example.test:8080"},
			api: "http://api.example.test:8080", auth: "http://api.example.test:8080", notify: "http://10.9.0.1:8081", router: "10.9.0.1:8080",
			names: []string{"api.example.test"},
		},
		"an address": {
			gateway: gateway, e: Endpoints{API: "http://192.168.7.7:80", Notifications: "http://192.168.7.7:81"},
			api: "http://10.9.0.1:80", auth: "http://10.9.0.1:80", notify: "http://10.9.0.1:81", router: "10.9.0.1:80",
		},
	} {
		in, err := planInside(c.config, c.e, c.gateway)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if in.api != c.api || in.auth != c.auth || in.notifications != c.notify || in.router != c.router {
			t.Errorf("%s: %v", name, in.variables())
		}
		if !maps.Equal(in.passed, c.passed) || !slices.Equal(in.names, c.names) {
			t.Errorf("%s: passed %v, names %v", name, in.passed, in.names)
		}
	}
}

// TestPassage passes connections of instances on, and none of others.
func TestPassage(t *testing.T) {
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
			_, _ = c.Write([]byte("hello"))
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, ours := range []bool{true, false} {
		p := &passage{at: netip.MustParseAddrPort("127.0.0.1:0"), to: endpoint{"localhost", port}, log: slog.New(slog.DiscardHandler), owner: func(netip.Addr) (string, bool) { return "app", ours }}
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", p.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		got := make([]byte, 5)
		n, _ := c.Read(got)
		if string(got[:n]) != map[bool]string{true: "hello", false: ""}[ours] {
			t.Errorf("ours %t: %q", ours, got[:n])
		}
		c.Close()
		p.Stop()
	}
}
