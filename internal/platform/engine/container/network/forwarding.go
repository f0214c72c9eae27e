//go:build linux

package network

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"ingot/internal/base/pattern"
	"ingot/internal/platform/engine/local"
)

const (
	runDir     = "/run"
	forwarding = "/proc/sys/net/ipv4/ip_forward"
	interfaces = "/proc/sys/net/ipv4/conf"
)

// forwardingMarker returns the file that exists while an engine has enabled forwarding. It is shared by
// all engines, because forwarding is a setting of the whole machine, or of the network namespace in which
// their servers were started.
func forwardingMarker() string {
	namespace, _ := os.Readlink("/proc/thread-self/ns/net") // never fails for the own one
	return runDir + "/ingot-forwarding-" + strings.Trim(strings.TrimPrefix(namespace, "net:"), "[]")
}

// unforwarded is what the machine had before an engine enabled forwarding. The kernel forgets it:
// it sets the settings of all interfaces as well.
type unforwarded struct {
	// Interfaces are those that forwarded by themselves. "default" is what new ones get.
	Interfaces []string `json:"interfaces"`
	// Bridges are those of other programs.
	Bridges []string `json:"bridges"`
	// NoRedirects means that the machine refused redirects.
	NoRedirects bool `json:"no_redirects,omitempty"`
}

// startForwarding enables forwarding on the host, and writes the marker. The bridge that needs it
// must exist and be marked.
func startForwarding(log *slog.Logger, marker string) error {
	return lockMachine(log, func() error {
		b, err := os.ReadFile(forwarding)
		if err != nil || strings.TrimSpace(string(b)) != "0" {
			return err
		}
		links, err := listLinks()
		if err != nil {
			return err
		}
		before := unforwarded{NoRedirects: isSetting("all", "accept_redirects", "0")}
		for _, l := range links {
			if name := l.Attrs().Name; !isOurs(l) && isSetting(name, "forwarding", "1") {
				before.Interfaces = append(before.Interfaces, name)
			}
		}
		if isSetting("default", "forwarding", "1") {
			before.Interfaces = append(before.Interfaces, "default")
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
//
// Every other engine needs it, also one that did without before. Its instances reach each other
// through its bridge, and the kernel takes the setting of each interface along: they would be cut off
// until it is set again. What the machine forwards for them, and from them, the firewall decides.
func stopForwarding(log *slog.Logger, marker string) error {
	return lockMachine(log, func() error {
		if _, err := os.Lstat(marker); err != nil {
			return nil //nolint:nilerr // not enabled by an engine
		}
		var before unforwarded
		if err := local.ReadJSON(marker, &before); err != nil && !local.IsCut(err) {
			return err
		}
		links, err := listLinks()
		if err != nil || slices.ContainsFunc(links, isOurs) {
			return err
		}
		if slices.ContainsFunc(foreignBridges(links),
			func(name string) bool { return !slices.Contains(before.Bridges, name) }) {
			return os.Remove(marker)
		}
		err = errors.Join(os.WriteFile(forwarding, []byte("0"), 0), os.Remove(marker))
		for _, name := range before.Interfaces {
			if e := set(name, "forwarding", "1"); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
		if before.NoRedirects {
			err = errors.Join(err, set("all", "accept_redirects", "0"))
		}
		return err
	})
}

// isOurs reports whether an interface is the bridge of an engine.
func isOurs(l netlink.Link) bool {
	return l.Type() == "bridge" && (strings.HasPrefix(l.Attrs().Alias, egressMark) ||
		strings.HasPrefix(l.Attrs().Alias, closedMark))
}

// ownName matches the names of bridges of engines, which are not marked at first, and of trials.
var ownName = pattern.OnUse("^" + linkPrefix + `([0-9a-f]{8}|t-[a-z0-9]+)$`)

// foreignBridges returns the bridges that are not those of engines.
func foreignBridges(links []netlink.Link) (names []string) {
	for _, l := range links {
		if l.Type() == "bridge" && !isOurs(l) && !ownName().MatchString(l.Attrs().Name) {
			names = append(names, l.Attrs().Name)
		}
	}
	return names
}

// settingOf returns the file of a setting of an interface in the kernel.
func settingOf(name, setting string) string {
	return filepath.Join(interfaces, name, setting)
}

// set changes a setting of an interface in the kernel.
func set(name, setting, value string) error {
	return os.WriteFile(settingOf(name, setting), []byte(value), 0)
}

// isSetting reports whether an interface has a setting.
func isSetting(name, setting, value string) bool {
	b, err := os.ReadFile(settingOf(name, setting))
	return err == nil && strings.TrimSpace(string(b)) == value
}
