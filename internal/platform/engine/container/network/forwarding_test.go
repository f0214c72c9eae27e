//go:build linux

package network

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/rootless"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/local"
)

var quiet = slog.New(slog.DiscardHandler)

// TestForwarding enables and disables forwarding in its own network.
func TestForwarding(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can do this")
	}
	for name, test := range map[string]func(t *testing.T, marker string){
		"Alone": func(t *testing.T, marker string) {
			forward(t, marker, true)
			forwards(t, "all", true)
			forward(t, marker, false)
			forwards(t, "all", false)
		},
		"EnabledBefore": func(t *testing.T, marker string) {
			setForwarding(t, "all", "1")
			forward(t, marker, true)
			forward(t, marker, false)
			forwards(t, "all", true)
		},
		"OtherEngine": func(t *testing.T, marker string) {
			forward(t, marker, true)
			other := addBridge(t, "other", egressMark+"other")
			forward(t, marker, false)
			forwards(t, "all", true)
			if err := netlink.LinkDel(other); err != nil {
				t.Fatal(err)
			}
			forward(t, marker, false)
			forwards(t, "all", false)
		},
		// The instances of another engine without a way out need it for each other.
		"ClosedEngine": func(t *testing.T, marker string) {
			other := addBridge(t, "other", closedMark+"other")
			setForwarding(t, "other", "1")
			forward(t, marker, true)
			forward(t, marker, false)
			forwards(t, "all", true)
			forwards(t, "other", true)
			testkit.Must(t, netlink.LinkDel(other))
			forward(t, marker, false)
			forwards(t, "all", false)
		},
		// Another program enabled it for its own interface: the kernel would forget that.
		"OwnInterface": func(t *testing.T, marker string) {
			addBridge(t, "docker", "")
			addBridge(t, "quiet", "")
			setForwarding(t, "docker", "1")
			forward(t, marker, true)
			forward(t, marker, false)
			for name, want := range map[string]bool{"all": false, "default": false, "docker": true, "quiet": false} {
				forwards(t, name, want)
			}
		},
		// The kernel changes these as well.
		"OtherSettings": func(t *testing.T, marker string) {
			setForwarding(t, "default", "1")
			testkit.Must(t, set("all", "accept_redirects", "0"))
			forward(t, marker, true)
			forward(t, marker, false)
			forwards(t, "all", false)
			forwards(t, "default", true)
			if !isSetting("all", "accept_redirects", "0") {
				t.Error("the machine accepts redirects, and did not")
			}
		},
		// A killed server may have left a bridge without a mark, or that of a trial.
		"Unmarked": func(t *testing.T, marker string) {
			forward(t, marker, true)
			addBridge(t, "ig0123abcd", "")
			addBridge(t, "igt-abcdef2345", "")
			forward(t, marker, false)
			forwards(t, "all", false)
		},
		// Another program found it enabled, and relies on it.
		"NewBridge": func(t *testing.T, marker string) {
			forward(t, marker, true)
			addBridge(t, "docker", "")
			forward(t, marker, false)
			forwards(t, "all", true)
			if _, err := os.Lstat(marker); err == nil {
				t.Error("it would be disabled later")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ownNetwork(t)
			test(t, filepath.Join(t.TempDir(), "marker"))
		})
	}
}

// ownNetwork gives a test its own network.
func ownNetwork(t *testing.T) {
	t.Helper()
	outside := forwardingMarker()
	runtime.LockOSThread() // without unlocking it: the thread ends with the test
	testkit.Must(t, unix.Unshare(unix.CLONE_NEWNET))
	setForwarding(t, "all", "0") // the kernel may copy it from the machine
	setForwarding(t, "default", "0")
	if forwardingMarker() == outside {
		t.Fatalf("the marker %s is also that of another network", outside)
	}
}

// TestOpenTogether opens and removes networks of several engines that would like the same subnet, while
// another enables and disables forwarding: each has its own subnet, and forwards.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can do this")
	}
	ownNetwork(t)
	ns, err := os.Open("/proc/thread-self/ns/net")
	testkit.Must(t, err)
	defer ns.Close()
	within := func(name string, f func() error) <-chan error {
		return background.Async(name, func() error {
			_, err := rootless.Within(ns, func() (struct{}, error) { return struct{}{}, f() })
			return err
		})
	}
	const engines = 6
	for range 10 {
		var nets [engines]*Network
		var done []<-chan error
		for i := range nets {
			n := &Network{name: fmt.Sprintf("ig%08x", i), table: fmt.Sprintf("ingot-%08x", i), root: t.TempDir(),
				egress: i == 0, log: quiet}
			testkit.Must(t, local.WriteJSON(n.choiceFile(), netChoice{Subnet: netip.MustParsePrefix("10.200.16.0/20")}))
			nets[i] = n
			done = append(done, within("open", n.open))
		}
		done = append(done, within("forwarding", func() error {
			return errors.Join(startForwarding(quiet, forwardingMarker()), stopForwarding(quiet, forwardingMarker()))
		}))
		for _, one := range done {
			testkit.Must(t, <-one)
		}
		subnets := map[netip.Prefix]string{}
		for _, n := range nets {
			if other := subnets[n.Subnet()]; other != "" {
				t.Errorf("%s and %s have %v", other, n.name, n.Subnet())
			}
			subnets[n.Subnet()] = n.name
			forwards(t, n.name, true)
		}
		done = nil
		for _, n := range nets {
			done = append(done, within("remove", func() error {
				return errors.Join(removeLink(n.name), stopForwarding(quiet, forwardingMarker()))
			}))
		}
		for _, one := range done {
			testkit.Must(t, <-one)
		}
		forwards(t, "all", false)
	}
}

// TestTrialFirewall: the firewall of a trial translates no addresses that engines have.
func TestTrialFirewall(t *testing.T) {
	t.Parallel()
	n := trialNetwork()
	for _, pool := range pools {
		if n.Subnet().Overlaps(pool) {
			t.Errorf("the trial translates addresses of %v, which engines choose from", pool)
		}
	}
}

func forward(t *testing.T, marker string, on bool) {
	t.Helper()
	change := stopForwarding
	if on {
		change = startForwarding
	}
	if err := change(quiet, marker); err != nil {
		t.Fatal(err)
	}
}

func addBridge(t *testing.T, name, alias string) netlink.Link {
	t.Helper()
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetAlias(link, alias); err != nil {
		t.Fatal(err)
	}
	return link
}

// settingFile is the setting of an interface, or that of the whole machine for "all".
func settingFile(name string) string {
	if name == "all" {
		return forwarding
	}
	return settingOf(name, "forwarding")
}

func setForwarding(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(settingFile(name), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func forwards(t *testing.T, name string, want bool) {
	t.Helper()
	b, err := os.ReadFile(settingFile(name))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(b)) == "1"; got != want {
		t.Errorf("%s forwards: %v, want %v", name, got, want)
	}
}
