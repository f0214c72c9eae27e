//go:build linux

package network

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The firewall accepts packets of existing connections before it looks at anything else, and the kernel knows
// connections by addresses and ports. It keeps those of an ended instance for seconds to days, and the next instance
// with that address, or its other side, could continue them without a policy. So they are forgotten when an instance
// is disconnected, and again before the next one is connected, because a server may have been killed in between.
// Connections of running instances stay when rules change (decision 28).

// Messages and attributes of the kernel's connection tracking (linux/netfilter/nfnetlink_conntrack.h).
const (
	getConnection    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	deleteConnection = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2

	tupleOrig     = 1 // of the first packet
	tupleReply    = 2 // of the answer
	connectionID  = 12
	zoneOf        = 18
	filterWith    = 25
	tupleIP       = 1 // within a tuple
	tupleSource   = 1 // within its addresses
	filterOrig    = 1 // within a filter
	filterReply   = 2
	filterSource  = 1 << 0 // of its flags
	nfHeaderBytes = 4
)

// forgetConnections makes the kernel forget all connections from and to an address. It runs in the network of
// instances.
func (n *Network) forgetConnections(a netip.Addr) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err == nil {
		defer c.Close()
		for _, side := range []uint16{tupleOrig, tupleReply} {
			err = forgetFiltered(c, side, a)
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
				err = forgetListed(c, side, a)
			}
			if err != nil {
				break
			}
		}
	}
	for _, missing := range []error{unix.EINVAL, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT} {
		if errors.Is(err, missing) {
			n.unforgetful.Do(func() {
				n.log.Warn("the kernel cannot forget connections of removed instances (nf_conntrack_netlink): later ones with "+
					"the same address could continue them", "err", err)
			})
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("forgetting connections of %v: %w", a, err)
	}
	return nil
}

// forgetFiltered removes connections that have the address as the source of their first packet, or of
// the answer; the kernel chooses them, since Linux 6.8. Older ones refuse it, as a tuple without ports.
func forgetFiltered(c *netlink.Conn, side uint16, a netip.Addr) error {
	data, err := sourceFilter(side, a)
	if err != nil {
		return err
	}
	_, err = c.Execute(connectionMessage(deleteConnection, netlink.Acknowledge, data))
	return err
}

// forgetListed is forgetFiltered for older kernels. Since Linux 5.8 the list is filtered, and before it
// has all connections.
func forgetListed(c *netlink.Conn, side uint16, a netip.Addr) error {
	data, err := sourceFilter(side, a)
	if err != nil {
		return err
	}
	list, err := c.Execute(connectionMessage(getConnection, netlink.Dump, data))
	if err != nil {
		return err
	}
	for _, m := range list {
		which, source, err := identify(m.Data, side)
		if err != nil {
			return err
		}
		if which == nil || !bytes.Equal(source, a.AsSlice()) {
			continue
		}
		_, err = c.Execute(connectionMessage(deleteConnection, netlink.Acknowledge, which))
		if err != nil && !errors.Is(err, unix.ENOENT) { // it has just ended
			return err
		}
	}
	return nil
}

func connectionMessage(kind netlink.HeaderType, flags netlink.HeaderFlags, data []byte) netlink.Message {
	// With version 0, a removal would be of all families.
	header := []byte{unix.AF_INET, 1, 0, 0}
	return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | flags},
		Data: append(header, data...)}
}

// sourceFilter returns attributes that match connections with a source.
func sourceFilter(side uint16, a netip.Addr) ([]byte, error) {
	flags := uint16(filterOrig)
	if side == tupleReply {
		flags = filterReply
	}
	e := netlink.NewAttributeEncoder()
	e.Nested(side, func(tuple *netlink.AttributeEncoder) error {
		tuple.Nested(tupleIP, func(ip *netlink.AttributeEncoder) error {
			ip.Bytes(tupleSource, a.AsSlice())
			return nil
		})
		return nil
	})
	e.Nested(filterWith, func(filter *netlink.AttributeEncoder) error {
		filter.Bytes(flags, binaryutil.NativeEndian.PutUint32(filterSource))
		return nil
	})
	return e.Encode()
}

// identify returns the attributes that identify a listed connection, nil if it has no tuple, and its
// source on a side.
func identify(data []byte, side uint16) (which, source []byte, err error) {
	if len(data) < nfHeaderBytes {
		return nil, nil, nil
	}
	list, err := netlink.UnmarshalAttributes(data[nfHeaderBytes:])
	if err != nil {
		return nil, nil, err
	}
	var kept []netlink.Attribute
	known := false
	for _, one := range list {
		kind := one.Type &^ netlink.Nested
		switch kind {
		case tupleOrig, connectionID, zoneOf:
			kept = append(kept, one)
			known = known || kind == tupleOrig // without it, all connections would be removed
		}
		if kind == side {
			if source, err = sourceOf(one.Data); err != nil {
				return nil, nil, err
			}
		}
	}
	if !known {
		return nil, nil, nil
	}
	which, err = netlink.MarshalAttributes(kept)
	return which, source, err
}

// sourceOf returns the source of a tuple.
func sourceOf(tuple []byte) (source []byte, err error) {
	d, err := netlink.NewAttributeDecoder(tuple)
	if err != nil {
		return nil, err
	}
	for d.Next() {
		if d.Type() != tupleIP {
			continue
		}
		d.Nested(func(ip *netlink.AttributeDecoder) error {
			for ip.Next() {
				if ip.Type() == tupleSource {
					source = ip.Bytes()
				}
			}
			return nil
		})
	}
	return source, d.Err()
}
