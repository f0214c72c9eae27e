//go:build linux

package network

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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
		// Another program enabled it for its own interface: the kernel would forget that.
		"OwnInterface": func(t *testing.T, marker string) {
			addBridge(t, "docker", "")
			addBridge(t, "quiet", "")
			addBridge(t, "closed", closedMark+"other")
			setForwarding(t, "docker", "1")
			forward(t, marker, true)
			forward(t, marker, false)
			for name, want := range map[string]bool{"all": false, "docker": true, "quiet": false, "closed": true} {
				forwards(t, name, want)
			}
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
			runtime.LockOSThread() // without unlocking it: the thread ends with the test
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				t.Fatal(err)
			}
			setForwarding(t, "all", "0") // the kernel may copy it from the machine
			test(t, filepath.Join(t.TempDir(), "marker"))
		})
	}
}

func forward(t *testing.T, marker string, on bool) {
	t.Helper()
	change := stopForwarding
	if on {
		change = startForwarding
	}
	if err := change(marker); err != nil {
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
