//go:build linux

package container

import (
	"net/netip"
	"strings"
	"testing"

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
