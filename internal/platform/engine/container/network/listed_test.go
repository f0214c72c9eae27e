//go:build linux

package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// everyKind fills a network with all kinds of rules.
func everyKind(n *Network) {
	endpoint := netip.MustParseAddrPort("10.200.16.1:5432")
	yes, number := true, 8
	n.allow, n.allowUDP, n.egress = []netip.AddrPort{endpoint},
		[]netip.AddrPort{netip.MustParseAddrPort("10.200.16.1:53")}, true
	n.rules = engine.Rules{
		Groups: map[string]engine.Group{
			"g": {Name: "all kinds", Rules: []platform.SecurityRule{
				{Protocol: "all", Destination: "11.0.0.0/8", Log: &yes},
				{Protocol: "tcp", Destination: "192.0.2.1", Ports: "80"},
				{Protocol: "tcp", Destination: "192.0.2.1-192.0.2.9,198.51.100.0/24", Ports: "80,443,9000"},
				{Protocol: "udp", Destination: "0.0.0.0-9.255.255.255", Ports: "1-65535"},
				{Protocol: "icmp", Destination: "203.0.113.0/24", Type: &number, Code: &number},
			}},
			"h": {Name: "none"},
		},
		Zones: map[engine.Zone][]string{{}: {"g"}, {Staging: true}: {"g", "h"}, {Space: "s"}: {"g", "h"}},
		Policies: []platform.NetworkPolicy{
			{SourceApp: "a", DestApp: "b", Protocol: "tcp", FirstPort: 8080, LastPort: 8080},
			{SourceApp: "a", DestApp: "b", Protocol: "udp", FirstPort: 1, LastPort: 65535},
			{SourceApp: "b", DestApp: "a", Protocol: "tcp", FirstPort: 8000, LastPort: 9000},
		},
	}
	address := n.Gateway()
	for i := range 5 {
		address = address.Next()
		n.access[address] = &Access{Reach: []netip.AddrPort{endpoint}, Zone: engine.Zone{Space: "s"},
			App: string(rune('a' + i))}
	}
}

// Operators list their own rules with the nft of their distribution, which reads the tables of
// all programs: Debian's 1.0.6 stopped with an assertion at some of them.
func TestListed(t *testing.T) {
	t.Parallel()
	inOwnNetwork(t, "listed")
}

// listAll lists all kinds of rules, in its own network.
func listAll() error {
	n := &Network{name: "igtest", table: "ingot-test", chosen: netChoice{Subnet: netip.MustParsePrefix("10.200.16.0/20")},
		access: map[netip.Addr]*Access{}}
	everyKind(n)
	if err := n.writeFirewall(); err != nil {
		return fmt.Errorf("%wthis needs nftables: %w", errSkip, err)
	}
	if !n.guarded {
		fmt.Fprintln(os.Stderr, "the kernel has no tables of bridges")
	}
	var errs []error
	for _, args := range [][]string{{"list", "ruleset"}, {"-j", "list", "ruleset"}, {"-a", "list", "ruleset"},
		{"-nn", "list", "table", "inet", n.table}} {
		out, err := exec.Command("nft", args...).CombinedOutput() //nolint:noctx // ends soon
		if err != nil || !strings.Contains(string(out), n.table) || len(args) < 5 &&
			strings.Count(string(out), copySuffix) < 2 {
			errs = append(errs, fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, out))
		}
		if args[0] == "-j" && !json.Valid(out) {
			errs = append(errs, fmt.Errorf("nft -j prints %s, want JSON", out))
		}
	}
	// What was saved can be loaded, without the copies, which belong to us.
	if err := n.forget(); err != nil {
		return errors.Join(append(errs, err)...)
	}
	out, err := exec.Command("nft", "list", "ruleset").CombinedOutput() //nolint:noctx // ends soon
	if err != nil || strings.Contains(string(out), copySuffix) {
		errs = append(errs, fmt.Errorf("nft list ruleset without copies: %w: %s", err, out))
	}
	check := exec.Command("nft", "-c", "-f", "-") //nolint:noctx // ends soon
	check.Stdin = strings.NewReader("flush ruleset\n" + string(out))
	if said, err := check.CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("loading what nft listed: %w: %s\n%s", err, said, out))
	}
	return errors.Join(errs...)
}
