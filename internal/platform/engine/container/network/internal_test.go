//go:build linux

package network

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

func TestFreeSubnet(t *testing.T) {
	t.Parallel()
	first, err := freeSubnet("igtest", 0, nil)
	if err != nil || first.Bits() != subnetBits || first != first.Masked() || !pools[0].Overlaps(first) {
		t.Fatalf("first subnet is %v, %v, want a /%d of %v", first, err, subnetBits, pools[0])
	}
	// The whole first pool taken, and a part of the second.
	list := []used{{pools[0], "eth0"}, {netip.MustParsePrefix("100.64.0.0/11"), "eth1"}}
	next, err := freeSubnet("igtest", 0, list)
	if err != nil || overlapsAny(next, list) || !pools[1].Overlaps(next) {
		t.Errorf("next subnet is %v, %v, want a free one of %v", next, err, pools[1])
	}
	if _, err := freeSubnet("igtest", 0, []used{{netip.MustParsePrefix("0.0.0.0/1"), "a"},
		{netip.MustParsePrefix("128.0.0.0/1"), "b"}}); err == nil {
		t.Error("no error when nothing is free")
	}
}

func TestYield(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix("10.200.16.0/20")
	n := &Network{name: "ig5", chosen: netChoice{Subnet: p}}
	for link, want := range map[string]bool{"ig5": false, "ig6": false, "ig4": true, "eth0": true, "docker0": true} {
		if got := n.mustYield([]used{{p, link}}); got != want {
			t.Errorf("to %s: %v", link, got)
		}
	}
	if n.mustYield([]used{{netip.MustParsePrefix("10.200.0.0/20"), "eth0"}}) {
		t.Error("to another subnet")
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	n := &Network{name: "ig12345678", chosen: netChoice{Subnet: netip.MustParsePrefix("10.200.16.0/20")},
		taken: map[netip.Addr]string{}}
	n.next = n.Gateway().Next()
	seen, veths := map[netip.Addr]bool{n.Gateway(): true}, map[string]bool{}
	for range 4093 {
		a, err := n.Take("x")
		if err != nil {
			t.Fatal(err)
		}
		if seen[a] || !n.chosen.Subnet.Contains(a) || a == netip.MustParseAddr("10.200.31.255") ||
			a == netip.MustParseAddr("10.200.16.0") {
			t.Fatalf("%v after %d others", a, len(seen))
		}
		seen[a] = true
		if c := n.veth(a); len(c) > 15 || veths[c] {
			t.Fatalf("veth %s", c)
		} else {
			veths[c] = true
		}
	}
	if a, err := n.Take("x"); err == nil {
		t.Errorf("one too many: %v", a)
	}
	last := netip.MustParseAddr("10.200.17.1")
	n.Release(last)
	if a, err := n.Take("x"); a != last {
		t.Errorf("took %v, %v, want the released %v", a, err, last)
	}
}

// manyInstances returns a network with so many instances in as many spaces, and rules:
// those of all, and one group for each of the first own spaces.
func manyInstances(tb testing.TB, instances, own int) (*Network, engine.Rules) {
	tb.Helper()
	name := fmt.Sprintf("igt%x", os.Getpid())
	n := &Network{
		name: name, table: fmt.Sprintf("ingot-%s-%s", name, strings.ToLower(strings.Map(func(c rune) rune {
			if c == '/' || c == '_' {
				return '-'
			}
			return c
		}, tb.Name()))), root: tb.TempDir(), egress: true,
		chosen: netChoice{Subnet: netip.MustParsePrefix("10.200.16.0/20")}, access: map[netip.Addr]*Access{},
	}
	r := engine.Rules{Groups: map[string]engine.Group{"all": {Name: "all"}},
		Zones: map[engine.Zone][]string{{}: {"all"}, {Staging: true}: {"all"}}}
	for i := range 16 {
		all := r.Groups["all"]
		all.Rules = append(all.Rules, platform.SecurityRule{Protocol: "all", Destination: fmt.Sprintf("%d.0.0.0/8", 11+i)})
		r.Groups["all"] = all
	}
	address := n.Gateway()
	for i := range instances {
		address = address.Next()
		space, app := fmt.Sprint("space-", i), fmt.Sprint("app-", i)
		n.access[address] = &Access{Zone: engine.Zone{Space: space}, App: app}
		if i < own {
			group := fmt.Sprint("group-", i)
			r.Groups[group] = engine.Group{Name: group, Rules: []platform.SecurityRule{{Protocol: "tcp",
				Destination: fmt.Sprintf("192.168.%d.%d,192.0.2.0/24", i/250, i%250), Ports: "5432"}}}
			r.Zones[engine.Zone{Space: space}] = []string{"all", group}
		}
		r.Policies = append(r.Policies, platform.NetworkPolicy{SourceApp: app, DestApp: fmt.Sprint("app-", (i+1)%instances),
			Protocol: "tcp", FirstPort: 8080, LastPort: 8080 + i%3})
	}
	tb.Cleanup(func() {
		if err := removeTable(n.table); err != nil {
			tb.Error(err)
		}
	})
	if err := n.writeFirewall(); err != nil {
		tb.Skipf("the firewall needs root and nftables: %v", err)
	}
	return n, r
}

// Rules of many instances fit into the messages to the kernel and its answers, and so do
// many destinations of one rule.
func TestManyRules(t *testing.T) {
	t.Parallel()
	n, r := manyInstances(t, 1000, 1000)
	var many []string
	for i := range 6000 {
		many = append(many, fmt.Sprintf("100.%d.%d.%d", 64+i/2500, i/250, 2*(i%100)))
	}
	yes := true
	r.Groups["all"] = engine.Group{Name: "all", Rules: []platform.SecurityRule{{Protocol: "all",
		Destination: strings.Join(many, ","), Log: &yes}}}
	if err := n.Enforce(r); err != nil {
		t.Fatal(err)
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	all := n.sets(n.tables(nftables.TableFamilyINet)[0])
	for _, set := range []*nftables.Set{all.zones, all.apps} {
		got, err := c.GetSetElements(set)
		if err != nil || len(got) != 1000 {
			t.Errorf("%s has %d elements (%v), want 1000", set.Name, len(got), err)
		}
	}
	if n.deaf {
		t.Log("the kernel has no log for packets")
	}
}

// BenchmarkRules changes a security group while 1,000 instances run:
//
//	go test -run '^$' -bench Rules ./internal/platform/engine/container/network
func BenchmarkRules(b *testing.B) {
	for _, own := range []int{0, 1000} {
		b.Run(fmt.Sprintf("%d groups", own+1), func(b *testing.B) {
			n, r := manyInstances(b, 1000, own)
			for i := 0; b.Loop(); i++ {
				changed := r.Groups["all"]
				changed.Rules = append(slices.Clone(changed.Rules), platform.SecurityRule{Protocol: "tcp",
					Destination: "203.0.113.0/24", Ports: fmt.Sprint(1 + i%60000)})
				next := r
				next.Groups = maps.Clone(r.Groups)
				next.Groups["all"] = changed
				if err := n.Enforce(next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("one more instance", func(b *testing.B) {
		n, r := manyInstances(b, 1000, 1000)
		if err := n.Enforce(r); err != nil {
			b.Fatal(err)
		}
		a := netip.MustParseAddr("10.200.30.1")
		for b.Loop() {
			if err := errors.Join(n.Admit(a, &Access{Zone: engine.Zone{Space: "space-1"}, App: "app-1"}),
				n.Admit(a, nil)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
