package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
)

func started(t *testing.T, c Config) *net.Resolver {
	t.Helper()
	c.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	if c.May == nil {
		c.May = func(netip.Addr) bool { return true }
	}
	s := New(c)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return resolver(s, "")
}

// resolver asks a server; network, if not empty, in place of the usual one.
func resolver(s *Server, network string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, n, _ string) (net.Conn, error) {
		if network != "" {
			n = network
		}
		var d net.Dialer
		return d.DialContext(ctx, n, s.Addr().String())
	}}
}

// TestAnswers asks for names of the platform and others, over UDP and TCP.
func TestAnswers(t *testing.T) {
	t.Parallel()
	ours := Config{
		Answer: netip.MustParseAddr("10.1.2.3"),
		Ours:   func(name string) bool { return strings.HasSuffix("."+name, ".apps.example.test") },
	}
	// The server of all other names is one of the same kind.
	world := New(Config{
		Listen: netip.MustParseAddrPort("127.0.0.1:0"), Answer: netip.MustParseAddr("93.184.216.34"),
		Ours: func(name string) bool { return name == "elsewhere.test" }, May: func(netip.Addr) bool { return true },
		Upstreams: func() []netip.AddrPort { return nil },
	})
	if err := world.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(world.Stop)
	ours.Upstreams = func() []netip.AddrPort {
		// The first is out of order.
		return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9"), world.Addr()}
	}
	ours.Listen, ours.May = netip.MustParseAddrPort("127.0.0.1:0"), func(netip.Addr) bool { return true }
	s := New(ours)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	for _, network := range []string{"udp", "tcp"} {
		for name, want := range map[string]string{
			"web.apps.example.test.": "10.1.2.3", "WEB.Apps.example.test.": "10.1.2.3", "apps.example.test.": "10.1.2.3",
			"elsewhere.test.": "93.184.216.34",
		} {
			got, err := resolver(s, network).LookupHost(t.Context(), name)
			if err != nil || !slices.Equal(got, []string{want}) {
				t.Errorf("%s over %s: %v, %v, want %s", name, network, got, err, want)
			}
		}
		if got, err := resolver(s, network).LookupHost(t.Context(), "unknown.test."); err == nil {
			t.Errorf("unknown.test over %s: %v", network, got)
		}
		if got, err := resolver(s, network).LookupTXT(t.Context(), "web.apps.example.test."); err == nil && len(got) > 0 {
			t.Errorf("a record that is not there: %v", got)
		}
	}
}

// TestOnlyInstancesAsk sends queries from an address that may not.
func TestOnlyInstancesAsk(t *testing.T) {
	t.Parallel()
	r := started(t, Config{Answer: netip.MustParseAddr("10.1.2.3"), Ours: func(string) bool { return true },
		May: func(netip.Addr) bool { return false }})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := r.LookupHost(ctx, "x.test."); err == nil {
		t.Errorf("a stranger was answered: %v", got)
	}
}

// TestNonsense sends what is no query; a query after it is answered.
func TestNonsense(t *testing.T) {
	t.Parallel()
	s := New(Config{
		Listen: netip.MustParseAddrPort("127.0.0.1:0"), Answer: netip.MustParseAddr("10.1.2.3"),
		Ours: func(string) bool { return true }, May: func(netip.Addr) bool { return true },
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	for _, network := range []string{"udp", "tcp"} {
		c, err := net.Dial(network, s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "x", "\x00\x01x", strings.Repeat("\xff", 600)} {
			if _, err := c.Write([]byte(text)); err != nil {
				break // closed, which is right
			}
		}
		c.Close()
	}
	if got, err := resolver(s, "").LookupHost(t.Context(), "x.test."); err != nil || len(got) != 1 {
		t.Errorf("after nonsense: %v, %v", got, err)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got := parse("# a comment\nsearch x\nnameserver 127.0.0.53\noptions edns0\nnameserver fd00::1\nnameserver nonsense\n")
	if len(got) != 2 || got[0].String() != "127.0.0.53:53" || got[1].String() != "[fd00::1]:53" {
		t.Errorf("servers are %v, want 127.0.0.53:53 and [fd00::1]:53", got)
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(*testing.T) background.Service {
		return New(Config{
			Listen: netip.MustParseAddrPort("127.0.0.1:0"), Ours: func(string) bool { return true },
			May: func(netip.Addr) bool { return true },
		})
	})
}

// TestInternal resolves names of internal routes.
func TestInternal(t *testing.T) {
	t.Parallel()
	names := &InternalNames{}
	at := func(index int, address string) InternalInstance {
		return InternalInstance{index, netip.MustParseAddr(address)}
	}
	r := started(t, Config{
		Answer: netip.MustParseAddr("10.1.2.3"), Ours: func(string) bool { return true },
		Upstreams: func() []netip.AddrPort { return nil },
		Internal: func(name string) ([]netip.Addr, bool, bool) {
			list, exists := names.Lookup(name)
			return list, exists, strings.HasSuffix(name, ".apps.internal")
		},
	})
	expect := func(when, name, want string) {
		t.Helper()
		got, err := r.LookupHost(t.Context(), name)
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s is %v (%v), want %s", when, name, got, err, want)
		}
		var no *net.DNSError
		if want == "" && (!errors.As(err, &no) || !no.IsNotFound) {
			t.Errorf("%s: %s: got %v, want that it does not exist", when, name, err)
		}
	}
	expect("at first", "back.apps.internal.", "")
	names.Update([]InternalRoute{
		{"1", "Back.apps.internal", []InternalInstance{at(0, "10.9.0.2"), at(1, "10.9.0.3"), at(0, "10.9.0.4")}},
		{"2", "none.apps.internal", nil}, {"3", "other.apps.internal", []InternalInstance{at(0, "10.9.0.9")}},
	}, nil)
	expect("instances", "back.apps.internal.", "10.9.0.2 10.9.0.3 10.9.0.4")
	expect("instances", "BACK.Apps.Internal.", "10.9.0.2 10.9.0.3 10.9.0.4")
	expect("instances", "0.back.apps.internal.", "10.9.0.2 10.9.0.4")
	expect("instances", "1.back.apps.internal.", "10.9.0.3")
	expect("instances", "other.apps.internal.", "10.9.0.9")
	for _, name := range []string{"2.back.apps.internal.", "x.back.apps.internal.", "-1.back.apps.internal.",
		"none.apps.internal.", "0.none.apps.internal.", "nothing.apps.internal."} {
		expect("instances", name, "")
	}
	byAddress, version := names.ByAddress(0)
	if len(byAddress) != 4 || !slices.Equal(byAddress["10.9.0.4"], []string{"back.apps.internal"}) {
		t.Errorf("the names by address are %v", byAddress)
	}
	names.Update(nil, []string{"unknown"})
	if again, same := names.ByAddress(version); again != nil || same != version {
		t.Errorf("without a change: %v, version %d, want nothing of version %d", again, same, version)
	}
	expect("a name of the platform", "web.example.test.", "10.1.2.3")
	names.Update([]InternalRoute{{"1", "moved.apps.internal", []InternalInstance{at(0, "10.9.0.5")}}}, []string{"3"})
	expect("changed", "back.apps.internal.", "")
	expect("changed", "moved.apps.internal.", "10.9.0.5")
	expect("changed", "other.apps.internal.", "")
	names.Replace([]InternalRoute{{"4", "new.apps.internal", []InternalInstance{at(0, "10.9.0.6")}}})
	expect("replaced", "moved.apps.internal.", "")
	expect("replaced", "new.apps.internal.", "10.9.0.6")
	if byAddress, _ := names.ByAddress(version); len(byAddress) != 1 || !slices.Equal(byAddress["10.9.0.6"],
		[]string{"new.apps.internal"}) {
		t.Errorf("the names by address are %v", byAddress)
	}
}
