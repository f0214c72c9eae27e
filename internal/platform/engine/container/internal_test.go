//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	if _, err := freeSubnet("igtest", 0, []used{{netip.MustParsePrefix("0.0.0.0/1"), "a"}, {netip.MustParsePrefix("128.0.0.0/1"), "b"}}); err == nil {
		t.Error("no error when nothing is free")
	}
}

func TestYield(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix("10.200.16.0/20")
	n := &network{name: "ig5", chosen: netChoice{Subnet: p}}
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
	n := &network{name: "ig12345678", chosen: netChoice{Subnet: netip.MustParsePrefix("10.200.16.0/20")}, taken: map[netip.Addr]string{}}
	n.next = n.gateway().Next()
	seen, veths := map[netip.Addr]bool{n.gateway(): true}, map[string]bool{}
	for range 4093 {
		a, err := n.take("x")
		if err != nil {
			t.Fatal(err)
		}
		if seen[a] || !n.chosen.Subnet.Contains(a) || a == netip.MustParseAddr("10.200.31.255") || a == netip.MustParseAddr("10.200.16.0") {
			t.Fatalf("%v after %d others", a, len(seen))
		}
		seen[a] = true
		if c := n.veth(a); len(c) > 15 || veths[c] {
			t.Fatalf("veth %s", c)
		} else {
			veths[c] = true
		}
	}
	if a, err := n.take("x"); err == nil {
		t.Errorf("one too many: %v", a)
	}
	last := netip.MustParseAddr("10.200.17.1")
	n.release(last)
	if a, err := n.take("x"); a != last {
		t.Errorf("took %v, %v, want the released %v", a, err, last)
	}
}

func TestHostname(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"a": "a", "A.b_c-9": "A-b-c-9", strings.Repeat("x", 100): strings.Repeat("x", 63),
	} {
		if got := hostname(id); got != want {
			t.Errorf("host name of %s is %s, want %s", id, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	l := withDefaults(engine.Limits{})
	if l.Memory != defaultMemory || l.Disk != defaultDisk || l.CPU != defaultShares || l.PIDs != defaultPIDs || l.Files <= 0 {
		t.Errorf("limits are %+v, want the defaults", l)
	}
	if l := withDefaults(engine.Limits{Memory: 1, Disk: 1, CPU: 1, Files: 1 << 40}); l.Memory < smallestMemory || l.Disk < smallestDisk || l.CPU < 2 || uint64(l.Files) > hardFiles() {
		t.Errorf("limits are %+v, want the smallest ones allowed and at most %d files", l, hardFiles())
	}
}

func TestNumeric(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"localhost:80": "127.0.0.1:80 [::1]:80", ":80": "127.0.0.1:80 [::1]:80", "10.1.2.3:80": "10.1.2.3:80", "[::1]:80": "[::1]:80",
	} {
		if got, err := numeric(address); err != nil || strings.Join(got, " ") != want {
			t.Errorf("numeric form of %s is %v, %v, want %s", address, got, err, want)
		}
	}
	for _, address := range []string{"", "x", "example.com:80", "localhost:http", "localhost:99999"} {
		if got, err := numeric(address); err == nil {
			t.Errorf("numeric form of %q is %v, want an error", address, got)
		}
	}
}

func TestLastOfEach(t *testing.T) {
	t.Parallel()
	got := strings.Join(lastOfEach([]string{"A=1", "B=2", "A=3", "C=", "B=4"}), " ")
	if got != "A=3 C= B=4" {
		t.Errorf("got %q, want A=3 C= B=4", got)
	}
}

// Degrade makes an engine do without what some machines lack.
func Degrade(e *Engine) { e.sharing = false }

// manyInstances returns a network with so many instances in as many spaces, and rules:
// those of all, and one group for each of the first own spaces.
func manyInstances(tb testing.TB, instances, own int) (*network, engine.Rules) {
	tb.Helper()
	name := fmt.Sprintf("igt%x", os.Getpid())
	n := &network{
		name: name, table: fmt.Sprintf("ingot-%s-%s", name, strings.ToLower(strings.Map(func(c rune) rune {
			if c == '/' || c == '_' {
				return '-'
			}
			return c
		}, tb.Name()))), file: filepath.Join(tb.TempDir(), "network.json"), egress: true,
		chosen: netChoice{Subnet: netip.MustParsePrefix("10.200.16.0/20")}, access: map[netip.Addr]*access{},
	}
	r := engine.Rules{Groups: map[string]engine.Group{"all": {Name: "all"}}, Zones: map[engine.Zone][]string{{}: {"all"}, {Staging: true}: {"all"}}}
	for i := range 16 {
		all := r.Groups["all"]
		all.Rules = append(all.Rules, platform.SecurityRule{Protocol: "all", Destination: fmt.Sprintf("%d.0.0.0/8", 11+i)})
		r.Groups["all"] = all
	}
	address := n.gateway()
	for i := range instances {
		address = address.Next()
		space, app := fmt.Sprint("space-", i), fmt.Sprint("app-", i)
		n.access[address] = &access{zone: engine.Zone{Space: space}, app: app}
		if i < own {
			group := fmt.Sprint("group-", i)
			r.Groups[group] = engine.Group{Name: group, Rules: []platform.SecurityRule{{Protocol: "tcp", Destination: fmt.Sprintf("192.168.%d.%d,192.0.2.0/24", i/250, i%250), Ports: "5432"}}}
			r.Zones[engine.Zone{Space: space}] = []string{"all", group}
		}
		r.Policies = append(r.Policies, platform.NetworkPolicy{SourceApp: app, DestApp: fmt.Sprint("app-", (i+1)%instances), Protocol: "tcp", FirstPort: 8080, LastPort: 8080 + i%3})
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
	r.Groups["all"] = engine.Group{Name: "all", Rules: []platform.SecurityRule{{Protocol: "all", Destination: strings.Join(many, ","), Log: &yes}}}
	e := &Engine{net: n}
	if err := e.Enforce(t.Context(), r); err != nil {
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
//	go test -run '^$' -bench Rules ./internal/platform/engine/container
func BenchmarkRules(b *testing.B) {
	for _, own := range []int{0, 1000} {
		b.Run(fmt.Sprintf("%d groups", own+1), func(b *testing.B) {
			n, r := manyInstances(b, 1000, own)
			e := &Engine{net: n}
			for i := 0; b.Loop(); i++ {
				changed := r.Groups["all"]
				changed.Rules = append(slices.Clone(changed.Rules), platform.SecurityRule{Protocol: "tcp", Destination: "203.0.113.0/24", Ports: fmt.Sprint(1 + i%60000)})
				next := r
				next.Groups = maps.Clone(r.Groups)
				next.Groups["all"] = changed
				if err := e.Enforce(b.Context(), next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("one more instance", func(b *testing.B) {
		n, r := manyInstances(b, 1000, 1000)
		e := &Engine{net: n}
		if err := e.Enforce(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		a := netip.MustParseAddr("10.200.30.1")
		for b.Loop() {
			if err := errors.Join(n.admit(a, &access{zone: engine.Zone{Space: "space-1"}, app: "app-1"}), n.admit(a, nil)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestRemoveGroups removes groups of which one is in use: the others are gone.
func TestRemoveGroups(t *testing.T) {
	t.Parallel()
	c, err := findCgroups()
	if err != nil {
		t.Skip(err)
	}
	group := fmt.Sprintf("ingot-test-remove-%d", os.Getpid())
	all := []string{"a", "b", "c"}
	for _, name := range all {
		if err := os.MkdirAll(c.file("pids", filepath.Join(group, name), ""), 0o755); err != nil {
			t.Skip("control groups need root:", err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "10000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has not ended by itself
		_ = cmd.Wait()         // killed
		if err := c.remove(context.Background(), group); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(c.file("pids", filepath.Join(group, "a"), "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.remove(ctx, group); err == nil || !strings.Contains(err.Error(), group+"/a") {
		t.Errorf("got %v, want an error about a", err)
	}
	if left := c.children(group); !slices.Equal(left, all[:1]) {
		t.Errorf("%v are left, want a", left)
	}
}
