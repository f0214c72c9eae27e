//go:build linux

package network

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
)

// BenchmarkForward compares the way between two instances with the rules of 1,000 others
// and without them, in turns:
//
//	go test -run '^$' -bench Forward -benchtime 20x ./internal/platform/engine/container/network
func BenchmarkForward(b *testing.B) {
	few, rules := manyInstances(b, 2, 2)
	many, allRules := manyInstances(b, 1000, 1000)
	// The rules of both go to one network, which is real.
	name := fmt.Sprintf("igf%x", os.Getpid())
	n := &Network{name: name, table: NamePrefix + name, root: b.TempDir(), egress: true,
		log: slog.New(slog.DiscardHandler)}
	if err := n.open(); err != nil {
		b.Skipf("the network needs root: %v", err)
	}
	b.Cleanup(func() {
		if err := n.Remove(); err != nil {
			b.Error(err)
		}
	})
	moved := func(of *Network) map[netip.Addr]*Access {
		list, to := map[netip.Addr]*Access{}, n.Gateway()
		from := of.Gateway()
		for range of.access {
			from, to = from.Next(), to.Next()
			list[to] = of.access[from]
		}
		return list
	}
	set := func(of *Network, r engine.Rules) {
		n.mu.Lock()
		n.access = maps.Clone(moved(of))
		n.mu.Unlock()
		if err := n.Enforce(r); err != nil {
			b.Fatal(err)
		}
	}
	set(few, rules)
	from, to := attached(b, n, n.Gateway().Next()), attached(b, n, n.Gateway().Next().Next())
	listener, err := Within(to, func() (net.Listener, error) { return net.Listen("tcp", ":8080") })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go echo(listener)
	dial := func() net.Conn {
		conn, err := Within(from, func() (net.Conn, error) {
			return net.DialTimeout("tcp", netip.AddrPortFrom(n.Gateway().Next().Next(), 8080).String(), 10*time.Second)
		})
		if err != nil {
			b.Fatal(err)
		}
		return conn
	}
	conn := dial()
	defer conn.Close()
	const trips, connections = 5000, 300
	var trip, connect [2]time.Duration
	for b.Loop() {
		for i, one := range []func(){func() { set(few, rules) }, func() { set(many, allRules) }} {
			one()
			began := time.Now()
			for range trips {
				roundTrip(b, conn)
			}
			trip[i] += time.Since(began)
			began = time.Now()
			for range connections {
				c := dial()
				roundTrip(b, c)
				c.Close()
			}
			connect[i] += time.Since(began)
		}
	}
	for i, label := range []string{"2", "1000"} {
		b.ReportMetric(float64(trip[i].Nanoseconds())/float64(b.N*trips), "ns/trip-"+label)
		b.ReportMetric(float64(connect[i].Nanoseconds())/float64(b.N*connections), "ns/connection-"+label)
	}
}

// attached starts a process with its own network and connects it.
func attached(b *testing.B, n *Network, a netip.Addr) local.ProcessID {
	b.Helper()
	cmd := exec.Command("sleep", "10000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it has not ended by itself
		_ = cmd.Wait()         // killed
	})
	p, err := local.Identify(cmd.Process.Pid)
	if err == nil {
		err = n.Connect(p, a)
	}
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func echo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go func() {
				_, _ = io.Copy(conn, conn) // until the client closes it
				conn.Close()
			}()
		}
	}
}

func roundTrip(b *testing.B, conn net.Conn) {
	one := [1]byte{}
	if _, err := conn.Write(one[:]); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(conn, one[:]); err != nil {
		b.Fatal(err)
	}
}
