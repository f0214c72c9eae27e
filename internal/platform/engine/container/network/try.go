//go:build linux

package network

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
)

// TryLinks reports why links cannot be made here.
func TryLinks() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = fmt.Sprintf("igt%d", os.Getpid())
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	defer func() { _ = netlink.LinkDel(bridge) }()
	attrs.Name = fmt.Sprintf("igu%d", os.Getpid())
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprintf("igv%d", os.Getpid())}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	return netlink.LinkDel(veth)
}

// TryFirewall reports why a firewall cannot be written here.
func TryFirewall() error {
	name := fmt.Sprintf("ingot-try-%d", os.Getpid())
	n := &Network{table: name, name: "ig-try", chosen: netChoice{Subnet: pools[0]}}
	return errors.Join(n.writeFirewall(), n.unhold(), removeTable(name))
}
