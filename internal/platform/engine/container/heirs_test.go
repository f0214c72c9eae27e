//go:build linux

package container_test

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/rootless"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/engine/enginetest"
)

// What an ended instance had could become a later one's, by what both have in common. Why it does not:
//
//	by its address
//	  connections the kernel follows     forgotten when it is disconnected, and before the next one is connected
//	  zone, app, Reach in the firewall   elements of sets, which are removed with it
//	  guard of the bridge                the same
//	  neighbour (ARP) entries            the hardware address is derived from the address
//	  labels of the address              those of the instance that has it now; none in between
//	  connections the router keeps       their other side is gone: the next instance resets them
//	  routes, apps.internal              made of the instances that run; addresses go round before one is taken again
//	by its user ids
//	  files                              on its disk, which is removed; layers are read-only
//	  shared memory, queues, semaphores  of its IPC namespace
//	  keyrings                           of its user namespace, and the system calls are refused (TestSystemCalls)
//	  processes, ssh sessions            of its PID namespace and control group
//	by its id
//	  control group, mounts, /run        removed with it, or before another one with that id starts

// talking is a server that answers on ports of TCP and UDP.
const talking = `
import socket, threading
def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 5000))
    while True:
        b, a = s.recvfrom(99)
        s.sendto(b, a)
def talk(c):
    while True:
        b = c.recv(99)
        if not b: return
        c.sendall(b)
threading.Thread(target=datagrams).start()
l = socket.create_server(("", 8080))
while True: threading.Thread(target=talk, args=(l.accept()[0],)).start()
`

// asking connects from a port and prints if something answers. A rejected datagram is an error of a later call,
// and the kernel does not report each.
const asking = `python3 -c '
import socket
u = %q == "udp"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if u else socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("", %d)); s.settimeout(1 if u else 60)
def ask():
    s.connect((%q, %d))
    for i in range(60):
        s.send(b"x")
        try:
            s.recv(9); print("reached"); return
        except TimeoutError: pass
    print("nothing")
try: ask()
except OSError as e: print("refused", e)
'`

func asks(t *testing.T, e *container.Engine, from, network string, source int, to netip.Addr, port int) string {
	t.Helper()
	out, _ := inside(t, e, from, fmt.Sprintf(asking, network, source, to.String(), port))
	word, _, _ := strings.Cut(out, " ")
	if word != "reached" && word != "refused" {
		t.Errorf("%s to %v:%d over %s: %s", from, to, port, network, out)
	}
	return word
}

// connectionsOf returns the connections of an address that the kernel follows.
func connectionsOf(t *testing.T, a netip.Addr) (list []string) {
	t.Helper()
	flows, err := rootless.InNet(func() ([]*netlink.ConntrackFlow, error) {
		return netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	})
	testkit.Must(t, err)
	for _, f := range flows {
		for _, ip := range [][]byte{f.Forward.SrcIP, f.Forward.DstIP, f.Reverse.SrcIP, f.Reverse.DstIP} {
			if slices.Equal(netip.AddrFrom4([4]byte(ip[len(ip)-4:])).AsSlice(), a.AsSlice()) {
				list = append(list, f.String())
				break
			}
		}
	}
	return list
}

// heirs is an engine with an instance that ends, and one that stays.
type heirs struct {
	dir    string
	engine *container.Engine
	addr   map[string]netip.Addr
	rules  engine.Rules
}

func (h *heirs) open(t *testing.T) {
	t.Helper()
	var err error
	h.engine, err = container.New(t.Context(), container.Options{Root: h.dir, Init: enginetest.InitPath()})
	testkit.Must(t, err)
}

func (h *heirs) start(t *testing.T, id, app string) {
	t.Helper()
	s := idle(id)
	s.App, s.Labels = app, map[string]string{"app": app}
	s.Launch.Members[0].Args = []string{"/usr/bin/env", "python3", "-c", talking}
	h.addr[id] = netip.MustParseAddr(start(t, h.engine, s).Internal)
	awaitPort(t, h.addr[id], 8080)
}

const leftPort = 40009

// leave adds a connection, as a server may have left it that was killed.
func (h *heirs) leave(t *testing.T, from, to netip.Addr) {
	t.Helper()
	one := netlink.IPTuple{SrcIP: from.AsSlice(), SrcPort: leftPort, DstIP: to.AsSlice(), DstPort: 5000,
		Protocol: unix.IPPROTO_UDP}
	back := netlink.IPTuple{SrcIP: one.DstIP, SrcPort: one.DstPort, DstIP: one.SrcIP, DstPort: one.SrcPort,
		Protocol: one.Protocol}
	_, err := rootless.InNet(func() (struct{}, error) {
		return struct{}{}, netlink.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET,
			&netlink.ConntrackFlow{FamilyType: unix.AF_INET, Forward: one, Reverse: back, TimeOut: 1000})
	})
	testkit.Must(t, err)
	if len(connectionsOf(t, from)) != 1 {
		t.Fatal("the kernel does not follow the connection")
	}
}

// TestHeirs: an instance has nothing of an ended one whose address it gets.
func TestHeirs(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *heirs){
		"removed": func(t *testing.T, h *heirs) {
			testkit.Must(t, h.engine.Remove(t.Context(), "old"))
			if left := connectionsOf(t, h.addr["old"]); len(left) > 0 {
				t.Errorf("connections are left:\n%s", strings.Join(left, "\n"))
			}
			testkit.Must(t, h.engine.Close())
			h.leave(t, h.addr["old"], h.addr["peer"])
			h.open(t) // the first free address is the next again
		},
		"ended while no server ran": func(t *testing.T, h *heirs) {
			first := containertest.Of(h.dir).InitPID(t, "old")
			testkit.Must(t, h.engine.Close())
			testkit.Must(t, syscall.Kill(first, syscall.SIGKILL))
			h.open(t)
			testkit.Must(t, h.engine.Remove(t.Context(), "old"))
			testkit.Must(t, h.engine.Close())
			h.open(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need(t)
			h := &heirs{dir: enginetest.TempDir(t), addr: map[string]netip.Addr{}}
			h.open(t)
			h.inherit(t, end)
			for _, id := range []string{"heir", "peer"} {
				testkit.Must(t, h.engine.Remove(t.Context(), id))
			}
			testkit.Must(t, h.engine.Close())
			gone(t, h.dir)
		})
	}
}

func (h *heirs) inherit(t *testing.T, end func(*testing.T, *heirs)) {
	t.Helper()
	h.start(t, "old", "old")
	h.start(t, "peer", "peer")
	for _, network := range []string{"tcp", "udp"} {
		for _, pair := range [][2]string{{"old", "peer"}, {"peer", "old"}} {
			h.rules.Policies = append(h.rules.Policies, platform.NetworkPolicy{SourceApp: pair[0], DestApp: pair[1],
				Protocol: network, FirstPort: 5000, LastPort: 8080})
		}
	}
	testkit.Must(t, h.engine.Enforce(t.Context(), h.rules))
	ask := func(from, to, want string) {
		t.Helper()
		for network, port := range map[string]int{"tcp": 8080, "udp": 5000} {
			if got := asks(t, h.engine, from, network, 40000, h.addr[to], port); got != want {
				t.Errorf("%s to %s over %s: %s, want %s", from, to, network, got, want)
			}
		}
	}
	ask("old", "peer", "reached")
	ask("peer", "old", "reached")
	h.stays(t)
	_, status := inside(t, h.engine, "old", `set -e
for f in ~/left /tmp/left /dev/shm/left /var/tmp/left; do echo x > $f; done
(exec 3<>/dev/tcp/`+h.addr["peer"].String()+`/8080; exec sleep 1000) >/dev/null 2>&1 &
ipcmk -M 100 -S 1 -Q >/dev/null; true`)
	if status != 0 {
		t.Error("the files cannot be written")
	}
	if len(connectionsOf(t, h.addr["old"])) < 4 {
		t.Fatal("the kernel does not follow the connections")
	}
	end(t, h)
	if l := h.engine.Labels(h.addr["old"]); l != nil {
		t.Errorf("the released address has the labels %v", l)
	}
	h.start(t, "heir", "stranger")
	if h.addr["heir"] != h.addr["old"] {
		t.Fatalf("the address is %v, want %v again", h.addr["heir"], h.addr["old"])
	}
	for _, left := range connectionsOf(t, h.addr["heir"]) {
		if strings.Contains(left, fmt.Sprintf("port=%d", leftPort)) {
			t.Errorf("a connection is left: %s", left)
		}
	}
	ask("heir", "peer", "refused")
	ask("peer", "heir", "refused")
	if l := h.engine.Labels(h.addr["heir"]); l["app"] != "stranger" {
		t.Errorf("the labels of the address are %v", l)
	}
	out, _ := inside(t, h.engine, "heir", `ls -d ~/left /tmp/left /dev/shm/left /var/tmp/left 2>/dev/null
ipcs -m -s -q | grep ^0x; ps -e -o args= | grep "sleep 100[0]"`)
	if out != "" {
		t.Errorf("the later instance has\n%s", out)
	}
}

// stays sees that a connection stays when its policy is removed, as docs/networking.md says.
func (h *heirs) stays(t *testing.T) {
	t.Helper()
	p, err := h.engine.Exec(t.Context(), "old", engine.ExecRequest{Args: []string{"/usr/bin/env", "python3", "-uc",
		fmt.Sprintf(`
import socket
c = socket.create_connection((%q, 8080), 60)
for i in range(2):
    c.sendall(b"x")
    print(c.recv(9))
    if i == 0: input()
`, h.addr["peer"].String())}})
	testkit.Must(t, err)
	defer p.Close()
	out := bufio.NewScanner(p.Stdout())
	for i := range 2 {
		if !out.Scan() || out.Text() != "b'x'" {
			t.Fatalf("%d: the answer is %q", i, out.Text())
		}
		if i == 0 {
			testkit.Must(t, h.engine.Enforce(t.Context(), engine.Rules{}))
			_, err := io.WriteString(p.Stdin(), "\n")
			testkit.Must(t, err)
		}
	}
	testkit.Must(t, h.engine.Enforce(t.Context(), h.rules))
}
