package instancenet

import (
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestPlan compares what instances are told with where the server is.
func TestPlan(t *testing.T) {
	t.Parallel()
	gateway := netip.MustParseAddr("10.9.0.1")
	services := func(api, notifications string) Services {
		return Services{API: Address{Local: api}, Notifications: Address{Local: notifications}}
	}
	here := services("http://127.0.0.1:8080", "http://127.0.0.1:8081")
	for name, c := range map[string]struct {
		public  Services
		gateway netip.Addr
		e       Services
		api     string
		auth    string
		notify  string
		router  string
		passed  map[uint16]Target
		names   []string
	}{
		"shared network": {
			e: here, api: "http://127.0.0.1:8080", auth: "http://127.0.0.1:8080", notify: "http://127.0.0.1:8081",
			router: "127.0.0.1:8080",
		},
		"loopback": {
			gateway: gateway, e: here,
			api: "http://10.9.0.1:8080", auth: "http://10.9.0.1:8080", notify: "http://10.9.0.1:8081", router: "10.9.0.1:8080",
		},
		"behind a proxy": {
			gateway: gateway, e: here, public: Services{API: Address{Public: "https://api.example.com"},
				Notifications: Address{Public: "https://notify.example.com:8443"}},
			api: "https://api.example.com", auth: "https://api.example.com", notify: "https://notify.example.com:8443",
			router: "10.9.0.1:8080",
			passed: map[uint16]Target{443: {"api.example.com", "443"}, 8443: {"notify.example.com", "8443"}},
			names:  []string{"api.example.com", "notify.example.com"},
		},
		"external authorization server on this machine": {
			gateway: gateway, e: here, public: Services{Auth: Address{Public: "http://localhost:9000"}},
			api: "http://10.9.0.1:8080", auth: "http://10.9.0.1:9000", notify: "http://10.9.0.1:8081", router: "10.9.0.1:8080",
			passed: map[uint16]Target{9000: {"localhost", "9000"}},
		},
		"a name and the same port": {
			gateway: gateway, e: here, public: Services{API: Address{Public: "http://api.example.test:8080"}},
			api: "http://api.example.test:8080", auth: "http://api.example.test:8080", notify: "http://10.9.0.1:8081",
			router: "10.9.0.1:8080",
			names:  []string{"api.example.test"},
		},
		"an address": {
			gateway: gateway, e: services("http://192.168.7.7:80", "http://192.168.7.7:81"),
			api: "http://10.9.0.1:80", auth: "http://10.9.0.1:80", notify: "http://10.9.0.1:81", router: "10.9.0.1:80",
		},
	} {
		c.e.API.Public, c.e.Auth.Public, c.e.Notifications.Public = c.public.API.Public, c.public.Auth.Public,
			c.public.Notifications.Public
		in, err := New(c.e, c.gateway)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if in.API != c.api || in.Auth != c.auth || in.Notifications != c.notify || in.Router != c.router {
			t.Errorf("%s: variables are %v, want API %s, auth %s, notifications %s, router %s", name, in.Variables(), c.api,
				c.auth, c.notify, c.router)
		}
		if !maps.Equal(in.Forwarded, c.passed) || !slices.Equal(in.Names, c.names) {
			t.Errorf("%s: forwarded %v, names %v", name, in.Forwarded, in.Names)
		}
	}
}

// TestForwarder forwards connections of instances, and closes those of others.
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
			_, _ = c.Write([]byte("hello"))
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, ours := range []bool{true, false} {
		p := &Forwarder{At: netip.MustParseAddrPort("127.0.0.1:0"), To: Target{"localhost", port},
			Log: slog.New(slog.DiscardHandler), Owner: func(netip.Addr) (string, bool) { return "app", ours }}
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
