//go:build linux

package network

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/testkit"
)

// inEmptyNet calls f in a network that has nothing, and no connections.
func inEmptyNet(tb testing.TB, f func()) {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("a network needs root")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			defer close(done) // also after a Fatal of f
			f()
			return
		}
		done <- err
	}()
	if err := <-done; err != nil {
		tb.Skipf("a network needs rights: %v", err)
	}
}

// connection is one that the kernel follows: its first packet went from the first to the second, and the
// answer comes from the third to the fourth.
type connection struct {
	over                     uint8
	from, to, answers, asked string
}

func (c connection) add(tb testing.TB) {
	tb.Helper()
	tuple := func(from, to string) netlink.IPTuple {
		f, t := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
		return netlink.IPTuple{Protocol: c.over, SrcIP: f.Addr().AsSlice(), SrcPort: f.Port(), DstIP: t.Addr().AsSlice(),
			DstPort: t.Port()}
	}
	flow := &netlink.ConntrackFlow{FamilyType: unix.AF_INET, Forward: tuple(c.from, c.to),
		Reverse: tuple(c.answers, c.asked), TimeOut: 1000}
	if c.over == unix.IPPROTO_TCP {
		flow.ProtoInfo = &netlink.ProtoInfoTCP{State: 3} // established
	}
	if err := netlink.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, flow); err != nil {
		tb.Fatal(err)
	}
}

func followed(tb testing.TB) (list []string) {
	tb.Helper()
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	testkit.Must(tb, err)
	port := func(ip net.IP, port uint16) string { return fmt.Sprintf("%v:%d", ip, port) }
	for _, f := range flows {
		list = append(list, port(f.Forward.SrcIP, f.Forward.SrcPort)+" "+port(f.Forward.DstIP, f.Forward.DstPort))
	}
	slices.Sort(list)
	return list
}

// TestForgetConnections: with what the kernel has now, and with what older ones have.
func TestForgetConnections(t *testing.T) {
	t.Parallel()
	gone := []connection{
		{unix.IPPROTO_TCP, "10.9.0.2:40000", "10.9.0.3:8080", "10.9.0.3:8080", "10.9.0.2:40000"},
		{unix.IPPROTO_TCP, "10.9.0.3:40000", "10.9.0.2:8080", "10.9.0.2:8080", "10.9.0.3:40000"},
		{unix.IPPROTO_TCP, "10.9.0.1:40000", "10.9.0.2:8080", "10.9.0.2:8080", "10.9.0.1:40000"}, // from the host
		{unix.IPPROTO_UDP, "10.9.0.2:40001", "10.9.0.3:53", "10.9.0.3:53", "10.9.0.2:40001"},
		// To another machine, with the address of this one; and from one, to a port of this one.
		{unix.IPPROTO_TCP, "10.9.0.2:40002", "192.0.2.1:443", "192.0.2.1:443", "198.51.100.1:40002"},
		{unix.IPPROTO_TCP, "192.0.2.1:40003", "198.51.100.1:80", "10.9.0.2:8080", "192.0.2.1:40003"},
	}
	stay := []connection{
		{unix.IPPROTO_TCP, "10.9.0.3:40000", "10.9.0.4:8080", "10.9.0.4:8080", "10.9.0.3:40000"},
		{unix.IPPROTO_UDP, "10.9.0.20:40000", "10.9.0.4:53", "10.9.0.4:53", "10.9.0.20:40000"},
		{unix.IPPROTO_TCP, "10.9.0.3:2", "192.0.2.1:443", "192.0.2.1:443", "198.51.100.1:2"},
	}
	a := netip.MustParseAddr("10.9.0.2")
	for name, forget := range map[string]func(*Network) error{
		"filtered": func(n *Network) error { return n.forgetConnections(a) },
		"listed": func(*Network) error {
			c, err := mdlayher.Dial(unix.NETLINK_NETFILTER, nil)
			if err != nil {
				return err
			}
			defer c.Close()
			return errors.Join(forgetListed(c, tupleOrig, a), forgetListed(c, tupleReply, a))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inEmptyNet(t, func() {
				for _, c := range stay {
					c.add(t)
				}
				want := followed(t)
				if len(want) != len(stay) {
					t.Fatalf("the kernel follows %d connections", len(want))
				}
				for _, c := range gone {
					c.add(t)
				}
				n := &Network{log: slog.New(slog.NewTextHandler(t.Output(), nil))}
				for range 2 { // nothing to forget is no error
					if err := forget(n); err != nil {
						t.Fatal(err)
					}
				}
				if got := followed(t); !slices.Equal(got, want) {
					t.Errorf("left are %q, want %q", got, want)
				}
			})
		})
	}
}

// BenchmarkForgetConnections forgets those of one address among 50,000 others:
//
//	go test -run '^$' -bench ForgetConnections ./internal/platform/engine/container/network
func BenchmarkForgetConnections(b *testing.B) {
	a := netip.MustParseAddr("10.9.0.2")
	inEmptyNet(b, func() {
		for i := range 50000 {
			from, to := fmt.Sprintf("10.9.%d.9:%d", 1+i/1000, 1000+i), "192.0.2.1:443"
			connection{unix.IPPROTO_TCP, from, to, to, from}.add(b)
		}
		c, err := mdlayher.Dial(unix.NETLINK_NETFILTER, nil)
		testkit.Must(b, err)
		defer c.Close()
		for name, forget := range map[string]func(*mdlayher.Conn, uint16, netip.Addr) error{
			"filtered": forgetFiltered, "listed": forgetListed,
		} {
			began, times := time.Now(), 0
			for ; times < 20; times++ {
				testkit.Must(b, errors.Join(forget(c, tupleOrig, a), forget(c, tupleReply, a)))
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/float64(times)/1000, name+"-ms")
		}
	})
}
