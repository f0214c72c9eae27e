package safedial_test

import (
	"errors"
	"net/netip"
	"testing"

	"ingot/internal/base/safedial"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	some, err := safedial.ParseGuard(" 10.1.0.0/16, fd00::/8 ,127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]struct{ zero, some bool }{
		"93.184.216.34":          {true, true},
		"2606:2800:220:1::1":     {true, true},
		"127.0.0.1":              {false, true},
		"::ffff:127.0.0.1":       {false, true},
		"::1":                    {false, false},
		"10.1.2.3":               {false, true},
		"10.2.2.3":               {false, false},
		"192.168.1.1":            {false, false},
		"172.16.0.1":             {false, false},
		"169.254.169.254":        {false, false},
		"::ffff:169.254.169.254": {false, false},
		"64:ff9b::a9fe:a9fe":     {false, false},
		"2002:7f00:1::":          {false, false},
		"100.100.100.200":        {false, false},
		"0.0.0.0":                {false, false},
		"::":                     {false, false},
		"224.0.0.1":              {false, false},
		"255.255.255.255":        {false, false},
		"fe80::1":                {false, false},
		"fd12::1":                {false, true},
		"168.63.129.16":          {false, false},
		"fd00:ec2::254":          {false, true},
	} {
		ip := netip.MustParseAddr(address)
		if got := (safedial.Guard{}).Permits(ip); got != want.zero {
			t.Errorf("%s: %v, want %v", address, got, want.zero)
		}
		if got := some.Permits(ip); got != want.some {
			t.Errorf("%s with networks: %v, want %v", address, got, want.some)
		}
		if !safedial.Everywhere.Permits(ip) {
			t.Errorf("%s is not everywhere", address)
		}
	}
	if err := (safedial.Guard{}).Control("tcp", "127.0.0.1:80", nil); !errors.Is(err, safedial.ErrPrivate) {
		t.Error(err)
	}
	if _, err := safedial.ParseGuard("10.0.0.1"); err == nil {
		t.Error("an address was taken for a network")
	}
	if all, err := safedial.ParseGuard("all"); err != nil || !all.Permits(netip.MustParseAddr("::1")) {
		t.Error(err)
	}
}

// TestControl sees addresses as a dialer has them.
func TestControl(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"93.184.216.34:443": true, "[2606:2800:220:1::1]:443": true,
		"127.0.0.1:80": false, "127.9.9.9:80": false, "[::1]:80": false, "10.0.0.1:80": false, "172.16.0.1:80": false,
		"192.168.1.1:80":     false,
		"169.254.169.254:80": false, "0.0.0.0:80": false, "[::]:80": false, "[fe80::1%eth0]:80": false, "[fc00::1]:80": false,
		"[::ffff:127.0.0.1]:80": false, "[::ffff:10.0.0.1]:80": false, "[64:ff9b::7f00:1]:80": false,
		"[2002:7f00:1::]:80": false,
		"100.64.0.1:80":      false, "224.0.0.1:80": false, "255.255.255.255:80": false, "198.18.0.1:80": false,
		"[::127.0.0.1]:80": false,
		"[ff02::1]:80":     false, "nonsense": false, "": false,
	} {
		if got := (safedial.Guard{}).Control("", address, nil) == nil; got != want {
			t.Errorf("%s: %t, want %t", address, got, want)
		}
	}
}
