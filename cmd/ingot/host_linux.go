package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/distro"
	"ingot/internal/base/pattern"
	"ingot/internal/cli/core"
	"ingot/internal/platform/engine/container"
)

// host looks at what the machine itself decides: whether it is a container, its network, its
// security modules and its time zone.
func (p *process) host() []core.Finding {
	all := []core.Finding{network(machineAddresses())}
	if runtime := container.Inside("/"); runtime != "" {
		all = append(all, core.Finding{Name: "container", State: core.FindingOK,
			Found: "this machine is a container (" + runtime + ")"})
	}
	all = append(all, securityModules("/", p.uid)...)
	if f, ok := p.timeZone(); ok {
		all = append(all, f)
	}
	return all
}

// ownBridge is the name of an interface that the container engine has made.
var ownBridge = pattern.OnUse(`^ig[0-9a-f]{6,}`)

// machineAddresses returns the addresses of the machine without those for containers.
func machineAddresses() ([]net.Addr, error) {
	interfaces, err := net.Interfaces()
	var all []net.Addr
	for _, one := range interfaces {
		if !ownBridge().MatchString(one.Name) {
			addresses, addressErr := one.Addrs()
			all, err = append(all, addresses...), errors.Join(err, addressErr)
		}
	}
	return all, err
}

// network says which kinds of addresses the machine has. Apps in containers have IPv4 addresses
// only.
func network(addresses []net.Addr, err error) core.Finding {
	f := core.Finding{Name: "network", State: core.FindingOK}
	if err != nil {
		f.State, f.Get = core.FindingNote, "the addresses of this machine cannot be listed: "+err.Error()
		return f
	}
	var loopback, four, six bool
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		switch addr := prefix.Addr().Unmap(); {
		case err != nil || addr.IsLinkLocalUnicast():
		case addr.IsLoopback():
			loopback = loopback || addr.Is4()
		default:
			four, six = four || addr.Is4(), six || addr.Is6()
		}
	}
	switch {
	case !loopback:
		f.State, f.Found = core.FindingMissing, "no 127.0.0.1"
		f.Get = "the server needs the address 127.0.0.1, on machines with IPv6 only too: ip address add 127.0.0.1/8 dev lo"
	case four && six:
		f.Found = "IPv4 and IPv6"
	case four:
		f.Found = "IPv4"
	case six:
		f.State, f.Found = core.FindingNote, "IPv6 only"
		f.Get = "clients reach the server and its apps over IPv6 (--listen '[::]:8080'), but apps in containers have IPv4 " +
			"addresses only and cannot connect to other machines: let them use a proxy on this machine, or give it an IPv4 " +
			"address"
	default:
		f.State, f.Found, f.Get = core.FindingNote, "loopback only", "other machines cannot connect to this one"
	}
	return f
}

// securityModules looks for SELinux and AppArmor below root, which is / but for tests.
func securityModules(root string, uid int) []core.Finding {
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(root, name)) // empty if the kernel does not have it
		return strings.TrimRight(strings.TrimSpace(string(text)), "\x00")
	}
	var all []core.Finding
	switch read("sys/fs/selinux/enforce") {
	case "1":
		all = append(all, core.Finding{Name: "SELinux", State: core.FindingNote, Found: "enforcing",
			Get: "Ingot has no policy for it and was not tested with it: if something is denied, 'ausearch -m avc -ts recent' " +
				"shows what, and 'setenforce 0' until the next reboot shows whether it is the cause"})
	case "0":
		all = append(all, core.Finding{Name: "SELinux", State: core.FindingOK, Found: "permissive"})
	}
	if read("sys/module/apparmor/parameters/enabled") != "Y" {
		return all
	}
	f := core.Finding{Name: "AppArmor", State: core.FindingOK, Found: "enabled, this program is not confined"}
	if profile := read("proc/self/attr/current"); profile != "" && !strings.HasPrefix(profile, "unconfined") {
		f.State, f.Found = core.FindingNote, "enabled, this program has the profile "+profile
		f.Get = "the profile may forbid mounts and namespaces, without which there are no containers: run it without one " +
			"(Docker: --security-opt apparmor=unconfined)"
	} else if uid != 0 && read("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
		f.State, f.Found = core.FindingNote, "enabled, user namespaces are for root only"
		f.Get = "containers of users other than root need them: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	}
	return append(all, f)
}

// timeZone returns a finding if the time zone of the environment is not installed: times that
// are shown to users are in UTC then. Stored times, logs and the API always are.
func (p *process) timeZone() (core.Finding, bool) {
	zone := strings.TrimPrefix(p.getenv("TZ"), ":")
	if zone == "" {
		return core.Finding{}, false
	}
	if _, err := time.LoadLocation(zone); err != nil && !isFile(zone) {
		return core.Finding{Name: "time zone", State: core.FindingNote, Found: zone,
			Get: "it is not installed, so times are shown in UTC: " + distro.Install("zoneinfo")}, true
	}
	return core.Finding{}, false
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return filepath.IsAbs(path) && !errors.Is(err, fs.ErrNotExist)
}

// checkHost returns an error if no server can run on this machine, and warnings.
func (p *process) checkHost() (warnings []string, err error) {
	for _, f := range p.host() {
		if f.Name != "network" {
			continue
		}
		if f.State == core.FindingMissing {
			return nil, errors.New(f.Get)
		}
		if f.Found == "IPv6 only" {
			warnings = append(warnings, fmt.Sprintf("this machine has addresses of IPv6 only: %s", f.Get))
		}
	}
	return warnings, nil
}
