package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/cli/core"
)

// TestDoctorNetwork: a machine without IPv4 is told what does not work there.
func TestDoctorNetwork(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		addresses    string
		err          error
		state, words string
	}{
		"both":         {"127.0.0.1/8 ::1/128 192.0.2.7/24 2001:db8::7/64", nil, core.FindingOK, "IPv4 and IPv6"},
		"IPv4":         {"127.0.0.1/8 192.0.2.7/24 fe80::1/64", nil, core.FindingOK, "IPv4"},
		"IPv6":         {"127.0.0.1/8 ::1/128 2001:db8::7/64", nil, core.FindingNote, "cannot connect to other machines"},
		"link-local":   {"127.0.0.1/8 ::1/128 169.254.3.4/16 2001:db8::7/64", nil, core.FindingNote, "IPv6 only"},
		"loopback":     {"127.0.0.1/8 ::1/128", nil, core.FindingNote, "loopback only"},
		"no 127.0.0.1": {"::1/128 2001:db8::7/64", nil, core.FindingMissing, "ip address add 127.0.0.1/8 dev lo"},
		"not listed":   {"", errors.New("netlink: permission denied"), core.FindingNote, "permission denied"},
	} {
		var addresses []net.Addr
		for _, one := range strings.Fields(tc.addresses) {
			ip, prefix, err := net.ParseCIDR(one)
			if err != nil {
				t.Fatal(err)
			}
			addresses = append(addresses, &net.IPNet{IP: ip, Mask: prefix.Mask})
		}
		if f := network(addresses, tc.err); f.State != tc.state || !strings.Contains(f.Found+f.Get, tc.words) {
			t.Errorf("%s: %+v, want %s and %q", name, f, tc.state, tc.words)
		}
	}
}

// TestDoctorSecurityModules: SELinux and AppArmor are named with what to do.
func TestDoctorSecurityModules(t *testing.T) {
	t.Parallel()
	const restrict = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	for name, tc := range map[string]struct {
		files map[string]string
		uid   int
		want  string
	}{
		"none":       {nil, 0, ""},
		"enforcing":  {map[string]string{"sys/fs/selinux/enforce": "1"}, 0, "ausearch -m avc"},
		"permissive": {map[string]string{"sys/fs/selinux/enforce": "0"}, 0, "permissive"},
		"disabled":   {map[string]string{"sys/module/apparmor/parameters/enabled": "N\n"}, 0, ""},
		"enabled": {map[string]string{"sys/module/apparmor/parameters/enabled": "Y\n",
			"proc/self/attr/current": "unconfined\n", restrict: "1\n"}, 0, "not confined"},
		"confined": {map[string]string{"sys/module/apparmor/parameters/enabled": "Y\n",
			"proc/self/attr/current": "docker-default (enforce)\n"}, 0, "apparmor=unconfined"},
		"Ubuntu's user": {map[string]string{"sys/module/apparmor/parameters/enabled": "Y\n",
			"proc/self/attr/current": "unconfined\n", restrict: "1\n"}, 1000, "sysctl -w " +
			"kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		root := t.TempDir()
		for file, text := range tc.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all := securityModules(root, tc.uid)
		if tc.want == "" {
			if len(all) > 0 {
				t.Errorf("%s: %+v, want nothing", name, all)
			}
			continue
		}
		if len(all) != 1 || !strings.Contains(all[0].Found+all[0].Get, tc.want) {
			t.Errorf("%s: %+v, want %q", name, all, tc.want)
		}
	}
}

// TestDoctorTimeZone: a zone that is not installed is named.
func TestDoctorTimeZone(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]bool{"": false, "UTC": false, "Asia/Nowhere": true, "/nonexistent/zone": true} {
		f, found := (&process{getenv: env("TZ", zone)}).timeZone()
		if found != want || found && !strings.Contains(f.Get, "tzdata") {
			t.Errorf("TZ=%s: %+v %v, want %v", zone, f, found, want)
		}
	}
}
