//go:build linux

package container

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The guard is a second table, of the bridge, where it is still known from which instance
// a packet comes: it drops everything but IPv4 and ARP from the instance's own address.
// Otherwise a packet with a forged source would have the rules of another instance.
// Instances may not forge packets anyway, so an old kernel without such tables will do.

const guardSet = "sources" // interface . address

func (n *network) bridgeTable() *nftables.Table {
	return &nftables.Table{Family: nftables.TableFamilyBridge, Name: n.table}
}

func (n *network) guardSources() *nftables.Set {
	return &nftables.Set{
		Table: n.bridgeTable(), Name: guardSet, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIPAddr),
	}
}

func (n *network) guardElement(a netip.Addr) nftables.SetElement {
	key := make([]byte, unix.IFNAMSIZ)
	copy(key, n.veth(a))
	return nftables.SetElement{Key: append(key, a.AsSlice()...)}
}

// writeGuard replaces the table of the bridge.
func (n *network) writeGuard() error {
	c, err := bigConn()
	if err != nil {
		return err
	}
	t := n.bridgeTable()
	c.AddTable(t)
	c.DelTable(t)
	c.AddTable(t)
	w := &tableWriter{Conn: c, table: t, network: n}
	set := n.guardSources()
	var all []nftables.SetElement
	for a := range n.access {
		all = append(all, n.guardElement(a))
	}
	w.addSet(set, all)
	accept := nftables.ChainPolicyAccept // other bridges are not affected
	chain := c.AddChain(&nftables.Chain{
		Name: "guard", Table: t, Type: nftables.ChainTypeFilter, Policy: &accept, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityFilter,
	})
	// All of its ports, by the beginning of their names.
	ours := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte(n.veth(n.gateway()))[:len(n.name)+1]},
	}
	for protocol, offset := range map[uint16]uint32{unix.ETH_P_IP: sourceOffset, unix.ETH_P_ARP: arpSourceOffset} {
		w.rule(chain, ours, []expr.Any{
			&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: register},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{byte(protocol >> 8), byte(protocol)}},
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: firstWord},
			&expr.Payload{DestRegister: firstWord + unix.IFNAMSIZ/4, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
			&expr.Lookup{SourceRegister: firstWord, SetName: set.Name, SetID: set.ID},
		}, verdict(expr.VerdictAccept, ""))
	}
	w.rule(chain, ours, verdict(expr.VerdictDrop, ""))
	if w.err != nil {
		return w.err
	}
	err = c.Flush()
	n.guarded = err == nil
	if slices.ContainsFunc([]error{unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.ENOENT}, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}
