//go:build linux

package network

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/platform/engine/local"
)

const (
	runDir     = "/run"
	forwarding = "/proc/sys/net/ipv4/ip_forward"
	interfaces = "/proc/sys/net/ipv4/conf"
	// forwarded exists while an engine has enabled forwarding. It is shared by all engines,
	// because forwarding is a setting of the whole machine.
	forwarded = runDir + "/ingot-forwarding"
)

// unforwarded is what the machine had before an engine enabled forwarding. The kernel forgets it:
// it sets the settings of all interfaces as well.
type unforwarded struct {
	// Interfaces are those that forwarded by themselves.
	Interfaces []string `json:"interfaces"`
	// Bridges are those of other programs.
	Bridges []string `json:"bridges"`
}

// startForwarding enables forwarding on the host, and writes the marker. The bridge that needs it
// must exist and be marked.
func startForwarding(marker string) error {
	return withForwarding(func() error {
		b, err := os.ReadFile(forwarding)
		if err != nil || strings.TrimSpace(string(b)) != "0" {
			return err
		}
		links, err := listLinks()
		if err != nil {
			return err
		}
		var before unforwarded
		for _, l := range links {
			if b, err := os.ReadFile(settingOf(l.Attrs().Name, "forwarding")); err == nil &&
				strings.TrimSpace(string(b)) == "1" && !isOurs(l) {
				before.Interfaces = append(before.Interfaces, l.Attrs().Name)
			}
		}
		before.Bridges = foreignBridges(links)
		text, err := json.Marshal(before)
		if err != nil {
			return err
		}
		if err := os.WriteFile(marker, text, 0o600); err != nil {
			return err
		}
		return os.WriteFile(forwarding, []byte("1"), 0)
	})
}

// stopForwarding disables it again, if an engine enabled it and no one else needs it: another
// engine, or a program such as Docker that made a bridge meanwhile and found it enabled.
func stopForwarding(marker string) error {
	return withForwarding(func() error {
		if _, err := os.Lstat(marker); err != nil {
			return nil //nolint:nilerr // not enabled by an engine
		}
		var before unforwarded
		if err := local.ReadJSON(marker, &before); err != nil && !local.IsCut(err) {
			return err
		}
		links, err := listLinks()
		if err != nil {
			return err
		}
		again := before.Interfaces
		for _, l := range links {
			if isOurs(l) && strings.HasPrefix(l.Attrs().Alias, egressMark) {
				return nil
			}
			if isOurs(l) {
				again = append(again, l.Attrs().Name)
			}
		}
		if slices.ContainsFunc(foreignBridges(links),
			func(name string) bool { return !slices.Contains(before.Bridges, name) }) {
			return os.Remove(marker)
		}
		err = errors.Join(os.WriteFile(forwarding, []byte("0"), 0), os.Remove(marker))
		for _, name := range again {
			if e := setBridge(name, "forwarding", "1"); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
		return err
	})
}

// isOurs reports whether an interface is the bridge of an engine.
func isOurs(l netlink.Link) bool {
	return l.Type() == "bridge" && (strings.HasPrefix(l.Attrs().Alias, egressMark) ||
		strings.HasPrefix(l.Attrs().Alias, closedMark))
}

// foreignBridges returns the bridges that are not those of engines.
func foreignBridges(links []netlink.Link) (names []string) {
	for _, l := range links {
		if l.Type() == "bridge" && !isOurs(l) {
			names = append(names, l.Attrs().Name)
		}
	}
	return names
}

// settingOf returns the file of a setting of an interface in the kernel.
func settingOf(name, setting string) string {
	return filepath.Join(interfaces, name, setting)
}

// setBridge changes a setting of a bridge in the kernel.
func setBridge(bridge, name, value string) error {
	return os.WriteFile(settingOf(bridge, name), []byte(value), 0)
}

// withForwarding locks out other engines of this machine while f runs.
func withForwarding(f func() error) error {
	lock, err := os.Open(runDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return os.NewSyscallError("flock", err)
	}
	return f() // closing releases the lock
}
