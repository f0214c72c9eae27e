//go:build linux

package network

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/big"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const subnetBits = 20 // 4093 instances

// pools are the ranges for subnets, the least used of the private ranges first.
var pools = []netip.Prefix{
	netip.MustParsePrefix("10.128.0.0/9"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("10.0.0.0/9"),
}

// used is a subnet in use on this machine, and its interface.
type used struct {
	prefix netip.Prefix
	link   string
}

// usedPrefixes returns the subnets of all interfaces but one, and of all routes but default
// routes.
func usedPrefixes(but string) ([]used, error) {
	links, err := listLinks()
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var list []used
	note := func(n *net.IPNet, index int) {
		if n == nil {
			return
		}
		p, ok := prefix(n)
		if ok && p.Bits() > 0 && names[index] != but {
			list = append(list, used{p, names[index]})
		}
	}
	addrs, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		note(a.IPNet, a.LinkIndex)
	}
	routes, err := whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		note(r.Dst, r.LinkIndex)
	}
	return list, nil
}

func listLinks() ([]netlink.Link, error) { return whole(netlink.LinkList) }

// whole repeats a netlink list request until the list did not change meanwhile.
func whole[T any](ask func() ([]T, error)) (list []T, err error) {
	for range 100 {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

func overlapsAny(p netip.Prefix, list []used) bool {
	for _, u := range list {
		if p.Overlaps(u.prefix) {
			return true
		}
	}
	return false
}

// mustYield reports whether another engine's bridge, whose name sorts first, has the same
// subnet.
func (n *Network) mustYield(list []used) bool {
	for _, u := range list {
		if u.link != n.name && n.chosen.Subnet.Overlaps(u.prefix) &&
			(u.link < n.name || !strings.HasPrefix(u.link, linkPrefix)) {
			return true
		}
	}
	return false
}

// freeSubnet searches from an offset that depends on the name, so that engines rarely
// collide.
func freeSubnet(name string, try int, list []used) (netip.Prefix, error) {
	h := fnv.New32a()
	fmt.Fprint(h, name, try)
	for _, pool := range pools {
		count := uint32(1) << (subnetBits - pool.Bits())
		for i := range count {
			p := nthSubnet(pool, (h.Sum32()+i)%count)
			if !overlapsAny(p, list) {
				return p, nil
			}
		}
	}
	return netip.Prefix{}, errors.New("no free subnet in 10/8, 100.64/10 and 172.16/12: every one has a route already")
}

func nthSubnet(pool netip.Prefix, i uint32) netip.Prefix {
	b := pool.Masked().Addr().As4()
	v := new(big.Int).SetBytes(b[:])
	v.Add(v, big.NewInt(int64(i)<<(32-subnetBits)))
	var out [4]byte
	v.FillBytes(out[:])
	return netip.PrefixFrom(netip.AddrFrom4(out), subnetBits)
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, ones-(bits-a.BitLen())).Masked(), true
}

func ipNet(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, 32)}
}
