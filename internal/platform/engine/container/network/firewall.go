//go:build linux

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The firewall of an engine:
//
//	from an instance to …
//	  answers to a connection from outside   accept
//	  what Allow names, for all instances    accept
//	  what its own Spec.Reach names          accept
//	  another instance                       accept with a network policy (the bridge keeps them apart)
//	  anything else, with egress             accept with a rule of a security group
//	  the host, by any of its addresses      accept with a rule that names that single address
//	  everything else                        reject
//	to an instance, forwarded from elsewhere reject
//	IPv6                                     reject
//
// The host itself may connect to every instance.
//
// Only the first packet of a connection gets beyond the first rule. What it may is looked
// up by its source, so that it does not matter how many instances there are:
//
//	zones     source ──▶ chain of the groups of its zone ──▶ chain of each group
//	apps      source ──▶ chain of its app ──▶ destination in the set of an app, protocol, port

// Names of the sets.
const (
	allowedSet = "allowed" // destination . port, for all instances
	reachSet   = "reach"   // source . destination . port
	zoneMap    = "zones"
	appMap     = "apps"
	knownSet   = "known" // instances, in a copy
)

// numbering is held while firewall sets are created, by any engine of this process.
var numbering sync.Mutex

// removeTable removes the firewall tables of a name; it is not an error if there are none.
func removeTable(name string) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	var errs []error
	for _, family := range []nftables.TableFamily{nftables.TableFamilyINet, nftables.TableFamilyBridge} {
		c.DelTable(&nftables.Table{Family: family, Name: name})
		err := c.Flush()
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) &&
			!errors.Is(err, unix.EAFNOSUPPORT) {
			errs = append(errs, fmt.Errorf("firewall table %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func elements(endpoints []netip.AddrPort) []nftables.SetElement {
	list := make([]nftables.SetElement, 0, len(endpoints))
	for _, p := range endpoints {
		a := p.Addr().Unmap().As4()
		// Each part of a concatenation fills whole words.
		key := append(a[:], binaryutil.BigEndian.PutUint16(p.Port())...)
		list = append(list, nftables.SetElement{Key: append(key, 0, 0)})
	}
	return list
}

func reachElements(from netip.Addr, endpoints []netip.AddrPort) []nftables.SetElement {
	source := from.Unmap().As4()
	list := elements(endpoints)
	for i := range list {
		list[i].Key = append(source[:len(source):len(source)], list[i].Key...)
	}
	return list
}

// Parts of rules. Registers 8 and up are single words, of which register 1 spans four.
const (
	register     = 1
	firstWord    = 8
	sourceOffset = 12 // in the header of IPv4
	destOffset   = 16
	portOffset   = 2 // in the header of TCP
	// arpSourceOffset is the sender's IPv4 address in an ARP message.
	arpSourceOffset = 14
)

func onInterface(key expr.MetaKey, name string) []expr.Any {
	return compareInterface(key, name, expr.CmpOpEq)
}

func notOnInterface(key expr.MetaKey, name string) []expr.Any {
	return compareInterface(key, name, expr.CmpOpNeq)
}

func compareInterface(key expr.MetaKey, name string, op expr.CmpOp) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: register}, &expr.Cmp{Op: op, Register: register, Data: padded}}
}

func established() []expr.Any {
	return []expr.Any{
		&expr.Ct{Register: register, Key: expr.CtKeySTATE},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
			Xor:  binaryutil.NativeEndian.PutUint32(0),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func overIPv4() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{unix.NFPROTO_IPV4}},
	}
}

func overTCP() []expr.Any { return over(unix.IPPROTO_TCP) }
func overUDP() []expr.Any { return over(unix.IPPROTO_UDP) }

func over(protocol byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{protocol}},
	}
}

func listed(set *nftables.Set) []expr.Any {
	return append(append(overIPv4(), overTCP()...),
		&expr.Payload{DestRegister: firstWord, Base: expr.PayloadBaseNetworkHeader, Offset: destOffset, Len: 4},
		&expr.Payload{DestRegister: firstWord + 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Lookup{SourceRegister: firstWord, SetName: set.Name, SetID: set.ID},
	)
}

// listedOf is listed for a set that begins with the source.
func listedOf(set *nftables.Set) []expr.Any {
	return append(append(overIPv4(), overTCP()...),
		&expr.Payload{DestRegister: firstWord, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: 4},
		&expr.Payload{DestRegister: firstWord + 1, Base: expr.PayloadBaseNetworkHeader, Offset: destOffset, Len: 4},
		&expr.Payload{DestRegister: firstWord + 2, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Lookup{SourceRegister: firstWord, SetName: set.Name, SetID: set.ID},
	)
}

func fromSubnet(p netip.Prefix) []expr.Any { return inSubnet(p, sourceOffset) }
func toSubnet(p netip.Prefix) []expr.Any   { return inSubnet(p, destOffset) }

// toPort compares the destination port, which TCP and UDP have at the same offset.
func toPort(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.BigEndian.PutUint16(port)},
	}
}

func inSubnet(p netip.Prefix, offset uint32) []expr.Any {
	network := p.Masked().Addr().As4()
	mask := ipNet(p.Addr(), p.Bits()).Mask
	return append(overIPv4(),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: network[:]},
	)
}
