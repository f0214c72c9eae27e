//go:build linux

package container_test

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
)

// elsewhere is another machine: a network namespace behind an interface of this one.
type elsewhere struct {
	t    *testing.T
	pid  int
	addr netip.Addr
	link string // its name on the host
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	need(t)
	hold := exec.Command("unshare", "-n", "sh", "-c", "echo unshared; exec cat")
	in, err := hold.StdinPipe() // it ends with this process
	testkit.Must(t, err)
	out, err := hold.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, hold.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = hold.Process.Kill()
		_ = hold.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("unshare: %v", err)
	}
	e := &elsewhere{t: t, pid: hold.Process.Pid}
	// A network of documentation (RFC 5737), four addresses of it that no other has.
	base := netip.AddrFrom4([4]byte{198, 51, 100, byte(reserved(t)) * 4})
	here, there := base.Next(), base.Next().Next()
	name := "igt-" + strings.ToLower(rand.Text()[:10])
	e.addr, e.link = there, name
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() }) // also of a half
	for _, args := range []string{
		"ip link add " + name + " type veth peer name eth0 netns " + fmt.Sprint(e.pid),
		"ip addr add " + here.String() + "/30 dev " + name, "ip link set " + name + " up",
		"nsenter -t PID -n ip addr add " + there.String() + "/30 dev eth0", "nsenter -t PID -n ip link set eth0 up",
		"nsenter -t PID -n ip link set lo up",
		"nsenter -t PID -n ip route add default via " + here.String(),
	} {
		args = strings.ReplaceAll(args, "PID", fmt.Sprint(e.pid))
		if out, err := exec.Command("sh", "-c", args).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	return e
}

// reserved returns a number below 64 that no other test has meanwhile, in any process.
func reserved(t *testing.T) int {
	t.Helper()
	n := 0
	testkit.Eventually(t, "there is a free network", func() bool {
		for n = range 64 {
			if l, err := net.Listen("unix", fmt.Sprintf("@ingot-elsewhere-%d", n)); err == nil {
				t.Cleanup(func() { l.Close() })
				return true
			}
		}
		return false
	})
	return n
}

// within runs f in the namespace.
func (e *elsewhere) within(f func() error) {
	e.t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", e.pid))
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		e.t.Fatal(err)
	}
}

// listen accepts connections to a port.
func (e *elsewhere) listen(port int) {
	e.t.Helper()
	e.within(func() error {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			e.t.Cleanup(func() { l.Close() })
		}
		return err
	})
}

// accept accepts connections to a port, and closes them.
func (e *elsewhere) accept(port int) {
	e.t.Helper()
	e.within(func() error {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		e.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		return nil
	})
}

// packets counts the datagrams that arrive at a port.
func (e *elsewhere) packets(port int) func() int {
	e.t.Helper()
	got := make(chan struct{}, 1000)
	e.within(func() error {
		c, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		e.t.Cleanup(func() { c.Close() })
		go func() {
			buffer := make([]byte, 64<<10)
			for {
				if _, _, err := c.ReadFrom(buffer); err != nil {
					return
				}
				got <- struct{}{}
			}
		}()
		return nil
	})
	return func() int { return len(got) }
}

// connects reports whether a connection from inside an instance succeeds.
func connects(t *testing.T, e *container.Engine, id string, to netip.Addr, port int) bool {
	t.Helper()
	out, status := inside(t, e, id, fmt.Sprintf(`timeout 60 bash -c 'exec 3<>/dev/tcp/%s/%d'`, to, port))
	if status == 124 {
		t.Errorf("%s to %s:%d: the packets were dropped, not rejected", id, to, port)
	}
	if status != 0 && !strings.Contains(out, "refused") && !strings.Contains(out, "No route") &&
		!strings.Contains(out, "unreachable") {
		t.Errorf("%s to %s:%d: %s", id, to, port, out)
	}
	return status == 0
}

func rule(protocol, destination, ports string) platform.SecurityRule {
	return platform.SecurityRule{Protocol: protocol, Destination: destination, Ports: ports}
}

// rules returns those of a group for all zones, and of one for the space "own".
func rules(all, own []platform.SecurityRule) engine.Rules {
	return engine.Rules{
		Groups: map[string]engine.Group{"all": {Name: "all", Rules: all}, "own": {Name: "own", Rules: own}},
		Zones:  map[engine.Zone][]string{{}: {"all"}, {Staging: true}: nil, {Space: "own"}: {"all", "own"}},
	}
}

// TestSecurityGroups changes the rules of running instances, and tries them from inside.
func TestSecurityGroups(t *testing.T) {
	t.Parallel()
	far := newElsewhere(t)
	e, _ := opened(t, container.Options{Egress: true})
	for _, port := range []int{80, 81, 82} {
		far.listen(port)
	}
	datagrams := far.packets(5000)
	for id, zone := range map[string]engine.Zone{"plain": {Space: "other"}, "own": {Space: "own"},
		"build": {Space: "own", Staging: true}} {
		s := idle(id)
		s.Zone = zone
		start(t, e, s)
	}
	to := far.addr.String()
	network := netip.PrefixFrom(far.addr, 30).Masked().String()
	for name, test := range map[string]struct {
		all, own []platform.SecurityRule
		want     map[string][]int // ports that each reaches
	}{
		"nothing": {nil, nil, nil},
		"a port for all": {[]platform.SecurityRule{rule("tcp", to, "80")}, nil,
			map[string][]int{"plain": {80}, "own": {80}}},
		"more for one": {[]platform.SecurityRule{rule("tcp", network, "80")},
			[]platform.SecurityRule{rule("tcp", network, "81-82")}, map[string][]int{"plain": {80}, "own": {80, 81, 82}}},
		"a list": {nil, []platform.SecurityRule{rule("tcp", "192.0.2.1,"+network+",203.0.113.0/24", "7,80,82")},
			map[string][]int{"own": {80, 82}}},
		"everything": {[]platform.SecurityRule{rule("all", "0.0.0.0/0", "")}, nil,
			map[string][]int{"plain": {80, 81, 82}, "own": {80, 81, 82}}},
		"to the last address": {[]platform.SecurityRule{rule("all", "1.0.0.0/8,198.0.0.0-255.255.255.255", "")}, nil,
			map[string][]int{"plain": {80, 81, 82}, "own": {80, 81, 82}}},
		"overlapping": {[]platform.SecurityRule{rule("tcp", network+",198.51.100.0/24,"+to, "80"),
			rule("udp", to, "81")}, nil, map[string][]int{"plain": {80}, "own": {80}}},
		"others": {[]platform.SecurityRule{rule("all", "0.0.0.0-198.51.99.255,198.51.101.0-255.255.255.255", ""),
			rule("udp", to, "80-82")}, nil, nil},
	} {
		if err := e.Enforce(t.Context(), rules(test.all, test.own)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, id := range []string{"plain", "own", "build"} {
			for _, port := range []int{80, 81, 82} {
				want := fmt.Sprint(test.want[id])
				if got := connects(t, e, id, far.addr, port); got != strings.Contains(want, fmt.Sprint(port)) {
					t.Errorf("%s: %s to port %d: reached %t, want those of %s", name, id, port, got, want)
				}
			}
		}
	}
	// Datagrams, also fragmented ones, which have no ports but in the first.
	send := `dd if=/dev/zero bs=%d count=1 > /dev/udp/%s/5000; sleep 0.2`
	for i, allowed := range []bool{false, true, false} {
		var all []platform.SecurityRule
		if allowed {
			all = append(all, rule("udp", to, "5000"))
		}
		if err := e.Enforce(t.Context(), rules(all, nil)); err != nil {
			t.Fatal(err)
		}
		before := datagrams()
		inside(t, e, "plain", fmt.Sprintf(send, 10, to))
		inside(t, e, "plain", fmt.Sprintf(send, 20000, to))
		if allowed {
			testkit.Eventually(t, "large datagrams arrive too", func() bool { return datagrams()-before == 2 })
		}
		if got := datagrams() - before; (got == 0) == allowed {
			t.Errorf("round %d, allowed %t: %d datagrams arrived", i, allowed, got)
		}
	}
}

// TestNetworkPolicies tries connections between instances, which only policies allow, and
// whatever security groups say.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	e, dir := opened(t, container.Options{})
	addr := map[string]netip.Addr{}
	for _, id := range []string{"a0", "a1", "b0", "c0"} {
		s := idle(id)
		s.App = id[:1]
		s.Launch.Members[0].Args = []string{"/bin/bash", "-c",
			`for p in 8080 8081 9000; do python3 -m http.server $p >/dev/null 2>&1 & done; wait`}
		addr[id] = netip.MustParseAddr(start(t, e, s).Internal)
	}
	for _, to := range addr {
		for _, port := range []int{8080, 8081, 9000} {
			awaitPort(t, to, port)
		}
	}
	policy := func(from, to, protocol string, first, last int) platform.NetworkPolicy {
		return platform.NetworkPolicy{SourceApp: from, DestApp: to, Protocol: protocol, FirstPort: first, LastPort: last}
	}
	all := rules([]platform.SecurityRule{rule("all", "0.0.0.0/0", "")}, nil)
	for _, test := range []struct {
		name     string
		policies []platform.NetworkPolicy
		want     map[string]string // ports of pairs
	}{
		{"none", nil, nil},
		{"one", []platform.NetworkPolicy{policy("a", "b", "tcp", 8080, 8080)}, map[string]string{"a0-b0": "8080",
			"a1-b0": "8080"}},
		{"ranges that overlap", []platform.NetworkPolicy{policy("a", "b", "tcp", 8000, 8080),
			policy("a", "b", "tcp", 8080, 8100), policy("a", "b", "udp", 1, 65535)},
			map[string]string{"a0-b0": "8080 8081", "a1-b0": "8080 8081"}},
		{"to itself, and another way", []platform.NetworkPolicy{policy("a", "a", "tcp", 9000, 9000),
			policy("c", "a", "tcp", 1, 8080)},
			map[string]string{"a0-a1": "9000", "a1-a0": "9000", "c0-a0": "8080", "c0-a1": "8080"}},
		{"none again", nil, nil},
	} {
		all.Policies = test.policies
		if err := e.Enforce(t.Context(), all); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		for from := range addr {
			for to, at := range addr {
				for _, port := range []int{8080, 8081, 9000} {
					want := from == to || strings.Contains(test.want[from+"-"+to], fmt.Sprint(port))
					if got := connects(t, e, from, at, port); got != want {
						t.Errorf("%s: %s to %s, port %d: reached %t, want %t", test.name, from, to, port, got, want)
					}
				}
			}
		}
	}
	// An instance that comes later, while other interfaces come and go.
	comeAndGo(t)
	all.Policies = []platform.NetworkPolicy{policy("d", "b", "tcp", 8080, 8080)}
	if err := e.Enforce(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	s := idle("d0")
	s.App = "d"
	start(t, e, s)
	if !connects(t, e, "d0", addr["b0"], 8080) || connects(t, e, "d0", addr["b0"], 8081) ||
		connects(t, e, "d0", addr["c0"], 8080) {
		t.Error("a new instance does not have the policies of its app")
	}
	spoof(t, e, dir, addr)
}

// comeAndGo adds and removes an interface of the host until the test ends.
func comeAndGo(t *testing.T) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(done); <-ended })
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Flags = fmt.Sprintf("comego%d", os.Getpid()), net.FlagUp
	go func() {
		defer close(ended)
		for link := (&netlink.Bridge{LinkAttrs: attrs}); ; {
			if err := errors.Join(netlink.LinkAdd(link), netlink.LinkDel(link)); err != nil {
				t.Errorf("an interface of the host: %v", err)
				return
			}
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond): // others can list interfaces meanwhile
			}
		}
	}()
}

func awaitPort(t *testing.T, to netip.Addr, port int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("something listens at %s:%d", to, port), func() bool {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, uint16(port)).String(), time.Second) //nolint:gosec // small
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// spoof sends packets that pretend to come from another instance, with rights that no
// instance has: those of root in its network. The policy is of d0 to b0.
func spoof(t *testing.T, e *container.Engine, dir string, addr map[string]netip.Addr) {
	t.Helper()
	d, err := e.Get(t.Context(), "d0")
	if err != nil {
		t.Fatal(err)
	}
	all := engine.Rules{Policies: []platform.NetworkPolicy{{SourceApp: "d", DestApp: "b", Protocol: "udp", FirstPort: 7000,
		LastPort: 7000}}}
	if err := e.Enforce(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	receiver, err := e.Exec(t.Context(), "b0", engine.ExecRequest{Args: []string{"python3", "-u", "-c", `
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7000))
print("ready")
while True: print(s.recvfrom(99)[0].decode())`}})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	lines := bufio.NewScanner(receiver.Stdout())
	next := func() string { lines.Scan(); return lines.Text() }
	if got := next(); got != "ready" {
		t.Fatalf("the receiver says %q", got)
	}
	send := func(source, text string) string {
		return fmt.Sprintf(`python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((%q, 0)); s.sendto(b%q, (%q, 7000))'`, source, text, addr["b0"].String())
	}
	forge := exec.Command("nsenter", "-t", fmt.Sprint(containertest.Of(dir).InitPID(t, "c0")), //nolint:gosec // a test
		"-n", "bash", "-c",
		"ip addr add "+d.Internal+"/32 dev eth0; "+send(d.Internal, "forged"))
	if out, err := forge.CombinedOutput(); err != nil {
		t.Fatalf("forging: %v: %s", err, out)
	}
	if out, status := inside(t, e, "d0", send("", "genuine")); status != 0 {
		t.Fatalf("sending: %s", out)
	}
	if got := next(); got != "genuine" {
		t.Errorf("the first datagram is %q, want genuine", got)
	}
	// What instances cannot do themselves.
	for what, script := range map[string]string{
		"a raw socket":    `socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)`,
		"a packet socket": `socket.socket(socket.AF_PACKET, socket.SOCK_RAW)`,
		"another source":  fmt.Sprintf(`socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((%q, 0))`, d.Internal),
		"IPv6":            `socket.create_connection(("2001:db8::1", 80), 3)`,
	} {
		if out, status := inside(t, e, "a0", "python3 -c 'import socket\n"+script+"'"); status == 0 {
			t.Errorf("%s: %s", what, out)
		}
	}
}
