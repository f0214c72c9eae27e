//go:build linux

package container_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"ingot/internal/base/safedial"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
)

// TestReach tries every instance with every endpoint: each reaches what its Spec
// names, and nothing else, also after the server was started again.
func TestReach(t *testing.T) {
	t.Parallel()
	reach(t)
}

func reach(t *testing.T) {
	t.Helper()
	need(t)
	dir := enginetest.TempDir(t)
	e := open(t, dir)
	// What this test removes at its end is the engine that is open then.
	t.Cleanup(func() {
		for _, id := range []string{"first", "both", "none", "late"} {
			if err := e.Remove(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	var endpoints []container.Endpoint
	for range 3 {
		l, err := net.Listen("tcp", netip.AddrPortFrom(e.Gateway(), 0).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		endpoints = append(endpoints, l.Addr().(*net.TCPAddr).AddrPort())
	}
	want := map[string][]container.Endpoint{"first": endpoints[:1], "both": endpoints[:2], "none": nil}
	for id, may := range want {
		s := idle(id)
		s.Reach = may
		s.Labels = map[string]string{"app": "app-" + id}
		start(t, e, s)
	}
	compare := func(when string) {
		t.Helper()
		for id, may := range want {
			for i, at := range endpoints {
				out, status := inside(t, e, id, fmt.Sprintf(`exec 3<>/dev/tcp/%s/%d`, at.Addr(), at.Port()))
				if (status == 0) != slices.Contains(may, at) {
					t.Errorf("%s: instance %s and endpoint %d: reached %t, want %t: %s", when, id, i, status == 0,
						slices.Contains(may, at), out)
				}
			}
			in, err := e.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Labels(netip.MustParseAddr(in.Internal))["app"]; got != "app-"+id {
				t.Errorf("%s: the address of %s is said to be of %q", when, id, got)
			}
		}
	}
	compare("at first")
	// What all may is added, and taken away again.
	if err := e.Allow(t.Context(), endpoints[2:], nil); err != nil {
		t.Fatal(err)
	}
	if out, status := inside(t, e, "none", fmt.Sprintf(`exec 3<>/dev/tcp/%s/%d`, endpoints[2].Addr(),
		endpoints[2].Port())); status != 0 {
		t.Errorf("what all may reach: %s", out)
	}
	if err := e.Allow(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	compare("after a change for all")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, dir)
	compare("after a restart")
	// What goes takes its permissions along.
	if err := e.Remove(t.Context(), "both"); err != nil {
		t.Fatal(err)
	}
	delete(want, "both")
	want["late"] = nil
	s := idle("late")
	s.Labels = map[string]string{"app": "app-late"}
	start(t, e, s)
	compare("after one was removed")
}

// TestRefusedNetworks sees that the firewall refuses what the guard of the
// server's own connections does.
func TestRefusedNetworks(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{Egress: true})
	start(t, e, idle("a"))
	far, err := netlink.LinkByName(newElsewhere(t).link)
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	var addresses []netip.Addr
	for _, p := range safedial.RefusedIPv4() {
		a := p.Addr()
		if !p.IsSingleIP() {
			a = a.Next()
		}
		// These never leave the instance.
		if a.IsLoopback() || a.IsMulticast() || !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() || p.Addr().As4()[0] >= 240 ||
			p.Addr().As4()[0] == 0 {
			continue
		}
		addresses = append(addresses, a)
		// Without a route, on a machine without a default route, the kernel refuses them first.
		if _, err := netlink.RouteGet(a.AsSlice()); err != nil {
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: far.Attrs().Index, Dst: &net.IPNet{IP: a.AsSlice(),
				Mask: net.CIDRMask(32, 32)}}); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&script, "timeout 5 bash -c 'exec 3<>/dev/tcp/%s/81' 2>&1 | grep -q refused && echo refused || echo "+
			"'%s is not refused'\n", a, a)
	}
	out, _ := inside(t, e, "a", script.String())
	if strings.Count(out, "refused") != len(addresses) || strings.Contains(out, "not refused") {
		t.Errorf("%d addresses:\n%s", len(addresses), out)
	}
	if !strings.Contains(fmt.Sprint(addresses), "168.63.129.16") {
		t.Error("the metadata of a cloud was not tried")
	}
}

// TestBindingsInside finds the service bindings of an instance where programs
// look for them.
func TestBindingsInside(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	start(t, e, idle("a"))
	out, status := inside(t, e, "a", `mkdir -p ~/`+container.BindingsTarget+`/db && echo secret > ~/`+
		container.BindingsTarget+`/db/password && cat `+container.BindingsInside+`/db/password`)
	if status != 0 || out != "secret" {
		t.Errorf("exit status %d, output %s, want 0 and secret", status, out)
	}
}
