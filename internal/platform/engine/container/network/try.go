//go:build linux

package network

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
)

// TryLinks reports why links cannot be made here.
func TryLinks() error { return inNet(tryLinks) }

func tryLinks() error {
	// Not the process's number: a link that a killed process left would have that name too.
	id := strings.ToLower(rand.Text()[:10])
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "igt-" + id
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	defer func() { _ = netlink.LinkDel(bridge) }()
	attrs.Name = "igu-" + id
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "igv-" + id}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	return netlink.LinkDel(veth)
}

// TryFirewall reports why a firewall cannot be written here.
func TryFirewall() error {
	n := trialNetwork()
	return inNet(func() error { return errors.Join(n.writeFirewall(), n.unhold(), removeTable(n.table)) })
}

// unusedSubnet is a network of documentation (RFC 5737). A trial must not translate the addresses of an engine's
// instances, nor those of other machines.
var unusedSubnet = netip.MustParsePrefix("192.0.2.0/28")

// trialNetwork returns a network whose firewall matches no packet.
func trialNetwork() *Network {
	return &Network{table: NamePrefix + "try-" + strings.ToLower(rand.Text()), name: "ig-try",
		chosen: netChoice{Subnet: unusedSubnet}}
}
