//go:build linux

package container

import (
	"encoding/json"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// everyKind fills a network with all kinds of rules.
func everyKind(n *network) {
	endpoint := netip.MustParseAddrPort("10.200.16.1:5432")
	yes, number := true, 8
	n.allow, n.allowUDP, n.egress = []Endpoint{endpoint}, []Endpoint{netip.MustParseAddrPort("10.200.16.1:53")}, true
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
	address := n.gateway()
	for i := range 5 {
		address = address.Next()
		n.access[address] = &access{reach: []Endpoint{endpoint}, zone: engine.Zone{Space: "s"}, app: string(rune('a' + i))}
	}
}

// Operators list their own rules with the nft of their distribution, which reads the tables of
// all programs: Debian's 1.0.6 stopped with an assertion at some of them.
func TestListed(t *testing.T) {
	t.Parallel()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("nft is not installed")
	}
	err = onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		n := &network{name: "igtest", table: "ingot-test", chosen: netChoice{Subnet: netip.MustParsePrefix("10.200.16.0/20")}, access: map[netip.Addr]*access{}}
		everyKind(n)
		if err := n.writeFirewall(); err != nil {
			return err
		}
		if !n.guarded {
			t.Log("the kernel has no tables of bridges")
		}
		for _, args := range [][]string{{"list", "ruleset"}, {"-j", "list", "ruleset"}, {"-a", "list", "ruleset"}, {"-nn", "list", "table", "inet", n.table}} {
			out, err := exec.CommandContext(t.Context(), nft, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), n.table) || len(args) < 5 && strings.Count(string(out), copySuffix) < 2 {
				t.Errorf("nft %s: %v: %s", strings.Join(args, " "), err, out)
			}
			if args[0] == "-j" && !json.Valid(out) {
				t.Errorf("nft -j prints %s, want JSON", out)
			}
		}
		// What was saved can be loaded, without the copies, which belong to us.
		if err := n.forget(); err != nil {
			return err
		}
		out, err := exec.CommandContext(t.Context(), nft, "list", "ruleset").CombinedOutput()
		if err != nil || strings.Contains(string(out), copySuffix) {
			t.Errorf("nft list ruleset without copies: %v: %s", err, out)
		}
		check := exec.CommandContext(t.Context(), nft, "-c", "-f", "-")
		check.Stdin = strings.NewReader("flush ruleset\n" + string(out))
		if said, err := check.CombinedOutput(); err != nil {
			t.Errorf("loading what nft listed: %v: %s\n%s", err, said, out)
		}
		return nil
	})
	if err != nil {
		t.Skipf("this needs root and nftables: %v", err)
	}
}
