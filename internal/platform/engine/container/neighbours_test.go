//go:build linux

package container_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/engine/container/network"
	"ingot/internal/platform/engine/enginetest"
)

// What engines on one machine share, and what keeps them apart:
//
//	forwarding (ip_forward)       enabled by the first that needs it, disabled when the last engine is gone
//	settings of interfaces        each engine changes those of its bridge only
//	address ranges, routes        chosen and taken under a lock of the machine
//	bridges, veth pairs           the hash of the engine's root is in the name
//	firewall tables, and copies   the same; rules match the engine's own bridge or subnet only
//	translation of addresses      of the engine's own subnet only; connections of others stay
//	names in the network          the same hash
//	holders of firewalls          processes with the table's name
//	parents of control groups     the same hash, also below ingot.slice
//	/run, mounts, runc's state    a directory with the same hash
//	loop devices                  found by their file
//	user ids of instances         chosen at random among 12,000 ranges
//	resolv.conf, hosts            files of each engine
//	leftovers                     removed of deleted engines only that no server uses
//
// There are no ipsets, and no rules in tables of others.

// TestNeighbours does everything that engines do with what they share, beside an engine whose
// instances must not notice: connections that are allowed work all the time, others are refused
// all the time, and limits stay.
//
//nolint:paralleltest // it changes a setting of the whole machine, and others would hide that
func TestNeighbours(t *testing.T) {
	for _, egress := range []bool{false, true} {
		t.Run(fmt.Sprintf("egress %t", egress), func(t *testing.T) {
			n := newNeighbour(t, egress)
			for _, test := range []struct {
				name string
				do   func(*testing.T)
			}{
				{"closed", neighbourCloses},
				{"left its instances, and removed them later", neighbourReturns},
				{"removed", neighbourLeaves},
				{"killed, and another server cleans up", neighbourKilled},
				{"killed, deleted, and another engine cleans up", neighbourDeleted},
				{"tried", neighbourTries},
				{"closed, of two at a time", neighboursClose},
			} {
				t.Run(test.name, func(t *testing.T) { n.notices(t, test.do) })
			}
		})
	}
}

// another opens an engine with a way out, which needs forwarding.
func another(t *testing.T, dir string, o container.Options) *container.Engine {
	t.Helper()
	o.Root, o.Init, o.Egress = dir, enginetest.InitPath(), true
	e, err := container.New(t.Context(), o)
	testkit.Must(t, err)
	return e
}

// gone sees that nothing of an engine is left.
func gone(t *testing.T, dir string) {
	t.Helper()
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
}

func neighbourCloses(t *testing.T) {
	dir := enginetest.TempDir(t)
	e := another(t, dir, container.Options{})
	start(t, e, idle("a"))
	testkit.Must(t, e.Enforce(t.Context(), rules([]platform.SecurityRule{rule("all", "0.0.0.0/0", "")}, nil)))
	testkit.Must(t, e.Remove(t.Context(), "a"))
	testkit.Must(t, e.Close())
	gone(t, dir)
}

func neighbourReturns(t *testing.T) {
	dir := enginetest.TempDir(t)
	e := another(t, dir, container.Options{})
	start(t, e, idle("a"))
	testkit.Must(t, e.Close())
	e = another(t, dir, container.Options{})
	testkit.Must(t, e.Remove(t.Context(), "a"))
	testkit.Must(t, e.Close())
	gone(t, dir)
}

func neighbourLeaves(t *testing.T) {
	dir := enginetest.TempDir(t)
	e := another(t, dir, container.Options{})
	start(t, e, idle("a"))
	testkit.Must(t, e.Close())
	e = another(t, dir, container.Options{Leaving: true})
	testkit.Must(t, e.Remove(t.Context(), "a"))
	testkit.Must(t, e.Close())
	gone(t, dir)
}

func neighbourKilled(t *testing.T) {
	dir := enginetest.TempDir(t)
	killEnforcing(t, dir, "192.0.2.1") // it has a way out
	e := another(t, dir, container.Options{})
	testkit.Must(t, e.Close())
	gone(t, dir)
}

func neighbourDeleted(t *testing.T) {
	dir := enginetest.TempDir(t)
	killEnforcing(t, dir, "192.0.2.1")
	testkit.Must(t, os.RemoveAll(dir))
	third := enginetest.TempDir(t)
	e := another(t, third, container.Options{})
	gone(t, dir)
	testkit.Must(t, e.Close())
	gone(t, third)
}

func neighbourTries(t *testing.T) {
	testkit.Must(t, container.Probe(t.Context(), container.Options{Init: enginetest.InitPath(), Egress: true}))
	testkit.Must(t, network.TryLinks())
	testkit.Must(t, network.TryFirewall())
}

func neighboursClose(t *testing.T) {
	first, second := enginetest.TempDir(t), enginetest.TempDir(t)
	all := []*container.Engine{another(t, first, container.Options{}), another(t, second, container.Options{})}
	done := make(chan error, len(all))
	for _, e := range all {
		go func() { done <- e.Close() }()
	}
	for range all {
		testkit.Must(t, <-done)
	}
	gone(t, first)
	gone(t, second)
}

// neighbour is an engine with instances that watch what reaches what.
type neighbour struct {
	engine *container.Engine
	dir    string
	egress bool
	script string // of the instance that connects
}

// answering is a server that tells each client its address, and then returns what it gets.
const answering = `
import socket, threading
def talk(c, a):
    c.sendall(a[0].encode() + b"\n")
    while True:
        b = c.recv(99)
        if not b: return
        c.sendall(b)
def listen(p):
    s = socket.create_server(("", p))
    while True: threading.Thread(target=talk, args=s.accept()).start()
for p in (8080, 9000): threading.Thread(target=listen, args=(p,)).start()
`

// connecting compares what is reached with what should be, until it gets a line. An address that
// answers says which address it sees.
const connecting = `
import socket, sys, threading, time
allowed, refused, own = %s, %s, "%s"
def tries(at):
    try: return socket.create_connection(at, 30)
    except OSError as e: return e
def ask(c):
    c.sendall(b"x")
    return c.recv(9)
held = tries(allowed[0])
seen = held.recv(99).decode().strip()
if seen != own: print("the address is seen as", seen)
rounds, end = 0, threading.Event()
def read(): sys.stdin.readline(); end.set()
threading.Thread(target=read).start()
while not end.is_set() or rounds < 3:
    for at in allowed:
        c = tries(at)
        if isinstance(c, OSError): print("round", rounds, "cut off from", at, c); continue
        if at == allowed[0]:
            seen = c.recv(99).decode().strip()
            if seen != own: print("round", rounds, "the address is seen as", seen)
        c.close()
    for at in refused:
        c = tries(at)
        if not isinstance(c, OSError): print("round", rounds, "open to", at); c.close()
    try:
        if ask(held) != b"x": print("round", rounds, "the connection is cut")
    except OSError as e: print("round", rounds, "the connection is cut:", e)
    rounds += 1
    time.sleep(.005)
    if rounds == 1: print("ready", flush=True)
print("done", flush=True)
`

func newNeighbour(t *testing.T, egress bool) *neighbour {
	t.Helper()
	far := newElsewhere(t)
	far.accept(80)
	far.accept(81)
	e, dir := opened(t, container.Options{Egress: egress})
	addr := map[string]netip.Addr{}
	for _, id := range []string{"from", "to"} {
		s := idle(id)
		s.App = id
		if id == "to" {
			s.Launch.Members[0].Args = []string{"/usr/bin/env", "python3", "-c", answering}
		}
		addr[id] = netip.MustParseAddr(start(t, e, s).Internal)
	}
	awaitPort(t, addr["to"], 8080)
	awaitPort(t, addr["to"], 9000)
	all := rules([]platform.SecurityRule{rule("tcp", far.addr.String(), "80")}, nil)
	all.Policies = []platform.NetworkPolicy{{SourceApp: "from", DestApp: "to", Protocol: "tcp", FirstPort: 8080,
		LastPort: 8080}}
	testkit.Must(t, e.Enforce(t.Context(), all))
	at := func(a netip.Addr, port int) string { return fmt.Sprintf("(%q, %d)", a, port) }
	allowed := []string{at(addr["to"], 8080)}
	refused := []string{at(addr["to"], 9000), at(e.Gateway(), 80), at(far.addr, 81)}
	if egress {
		allowed = append(allowed, at(far.addr, 80))
	} else {
		refused = append(refused, at(far.addr, 80))
	}
	list := func(l []string) string { return "[" + strings.Join(l, ", ") + "]" }
	return &neighbour{engine: e, dir: dir, egress: egress,
		script: fmt.Sprintf(connecting, list(allowed), list(refused), addr["from"])}
}

// notices fails the test if the instances notice what happens elsewhere, or could have: of what
// the kernel reports, nothing may be about them.
func (n *neighbour) notices(t *testing.T, do func(*testing.T)) {
	t.Helper()
	before := n.has(t)
	restored := n.engine.FirewallRestored()
	p, err := n.engine.Exec(t.Context(), "from",
		engine.ExecRequest{Args: []string{"/usr/bin/env", "python3", "-c", n.script}})
	testkit.Must(t, err)
	defer p.Close()
	out := bufio.NewScanner(p.Stdout())
	until := func(word string) {
		t.Helper()
		for out.Scan() {
			if out.Text() == word {
				return
			}
			t.Error(out.Text())
		}
		errs, _ := io.ReadAll(p.Stderr())
		t.Fatalf("the connections ended without %q: %s", word, errs)
	}
	until("ready")
	limits := n.limits(t)
	changes := watchLinks(t, containertest.Of(n.dir).Links(t))
	do(t)
	for _, change := range changes() {
		t.Errorf("the network of other instances was changed: %s", change)
	}
	if now := n.limits(t); now != limits {
		t.Errorf("the limits are\n%s\nand were\n%s", now, limits)
	}
	_, err = io.WriteString(p.Stdin(), "\n")
	testkit.Must(t, err)
	until("done")
	if after := n.has(t); !slices.Equal(after, before) {
		t.Errorf("the other engine has\n%s\nand had\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	if now := n.engine.FirewallRestored(); now != restored {
		t.Errorf("the firewall was restored %d times", now-restored)
	}
	if held := n.engine.Describe().Held; held != "" {
		t.Errorf("the other engine is held: %s", held)
	}
	late := idle("late") // one more can start
	late.App = "late"
	start(t, n.engine, late)
	testkit.Must(t, n.engine.Remove(context.Background(), "late"))
}

// has returns what the engine has on this machine, but for processes that come and go.
func (n *neighbour) has(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(leftovers(t, n.dir),
		func(thing string) bool { return strings.HasPrefix(thing, "process: ") })
}

// limits returns the settings of the engine's control groups.
func (n *neighbour) limits(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, thing := range leftovers(t, n.dir) {
		group, ok := strings.CutPrefix(thing, "cgroup: ")
		if !ok {
			continue
		}
		for _, name := range []string{"cgroup.subtree_control", "memory.max", "memory.high", "memory.swap.max",
			"memory.limit_in_bytes", "pids.max", "cpu.weight", "cpu.shares", "io.weight", "devices.list", "cgroup.procs"} {
			if b, err := os.ReadFile(filepath.Join(group, name)); err == nil { // each version has others
				fmt.Fprintf(&all, "%s/%s: %s", group, name, b)
			}
		}
	}
	if !strings.Contains(all.String(), "/from/memory.") {
		t.Fatalf("there are no limits of memory: %s", all.String())
	}
	return all.String()
}
