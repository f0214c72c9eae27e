//go:build linux

package network

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"

	"ingot/internal/base/background"
	"ingot/internal/base/rootless"
)

// machineAddresses returns the addresses of this machine that are not those of its loopback. For an ordinary
// user, the network of instances is another one, and its way out would lead to them.
func machineAddresses() ([]netip.Prefix, error) {
	if s := rootless.Current(); s == nil || s.Inside {
		return nil, nil
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var all []netip.Prefix
	for _, one := range list {
		p, err := netip.ParsePrefix(one.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			all = append(all, netip.PrefixFrom(p.Addr(), 32))
		}
	}
	return all, nil
}

// claim makes addresses those of the network of instances itself, so that the firewall rejects what instances
// send there, as it does where they share the network of the machine.
func claim(addresses []netip.Prefix) error {
	if len(addresses) == 0 {
		return nil
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, p := range addresses {
		if err := netlink.AddrReplace(lo, &netlink.Addr{IPNet: ipNet(p.Addr(), p.Bits())}); err != nil {
			return fmt.Errorf("address %v: %w", p.Addr(), err)
		}
	}
	return nil
}

// followMachine claims the addresses that this machine gets later.
func (n *Network) followMachine() error {
	if s := rootless.Current(); s == nil || s.Inside {
		return nil
	}
	changes, done := make(chan netlink.AddrUpdate), make(chan struct{})
	if err := netlink.AddrSubscribe(changes, done); err != nil {
		return fmt.Errorf("changes of this machine's addresses: %w", err)
	}
	n.unfollow = sync.OnceFunc(func() { close(done) })
	background.Go("engine addresses", func() {
		for range changes { // it is closed after done
			ours, err := machineAddresses()
			if err == nil {
				err = inNet(func() error { return claim(ours) })
			}
			if err != nil {
				n.log.Error("an address of this machine may be open to instances", "err", err)
			}
		}
	})
	return nil
}

func (n *Network) endFollowing() {
	if n.unfollow != nil {
		n.unfollow()
	}
}
