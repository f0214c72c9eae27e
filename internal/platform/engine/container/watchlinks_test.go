//go:build linux

package container_test

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/testkit"
)

// watchLinks returns a function that returns what the kernel reported since about interfaces that
// cuts them off: that they went away or down, lost an address or a route, or do not forward.
func watchLinks(t *testing.T, names map[int]string) (changes func() []string) {
	t.Helper()
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	testkit.Must(t, conn.SetReadBuffer(16<<20))
	for _, group := range []uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
		unix.RTNLGRP_IPV4_NETCONF} {
		testkit.Must(t, conn.JoinGroup(group))
	}
	return func() (list []string) {
		t.Helper()
		// The kernel reports in order, so an interface of this test ends what happened before.
		attrs := links.NewLinkAttrs()
		attrs.Name = "igw-" + strings.ToLower(rand.Text()[:10])
		link := &links.Bridge{LinkAttrs: attrs}
		testkit.Must(t, links.LinkAdd(link))
		end := link.Attrs().Index
		testkit.Must(t, links.LinkDel(link))
		for {
			messages, err := conn.Receive()
			testkit.Must(t, err)
			for _, m := range messages {
				what, index := cutsOff(m)
				if what == "is deleted" && index == end {
					return list
				}
				if name := names[index]; name != "" && what != "" {
					list = append(list, name+" "+what)
				}
			}
		}
	}
}

// cutsOff returns what a message says about an interface; "" if that is harmless.
func cutsOff(m netlink.Message) (what string, index int) {
	number := func(at int) int {
		if len(m.Data) < at+4 {
			return 0
		}
		return int(binary.NativeEndian.Uint32(m.Data[at:]))
	}
	attribute := func(header int, kind uint16) (int, bool) {
		if len(m.Data) < header {
			return 0, false
		}
		list, err := netlink.UnmarshalAttributes(m.Data[header:])
		if err != nil {
			return 0, false
		}
		for _, a := range list {
			if a.Type == kind && len(a.Data) == 4 {
				return int(binary.NativeEndian.Uint32(a.Data)), true
			}
		}
		return 0, false
	}
	switch m.Header.Type {
	case unix.RTM_DELLINK:
		return "is deleted", number(4)
	case unix.RTM_NEWLINK:
		if number(8)&unix.IFF_UP == 0 {
			return "is down", number(4)
		}
	case unix.RTM_DELADDR:
		return "lost an address", number(4)
	case unix.RTM_DELROUTE:
		index, _ = attribute(unix.SizeofRtMsg, unix.RTA_OIF)
		return "lost a route", index
	case unix.RTM_NEWNETCONF:
		const configured, forwards = 1, 2 // NETCONFA_IFINDEX, NETCONFA_FORWARDING
		index, _ = attribute(4, configured)
		if on, ok := attribute(4, forwards); ok && on == 0 {
			return "does not forward", index
		}
	}
	return "", 0
}
