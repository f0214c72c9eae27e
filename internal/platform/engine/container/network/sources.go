//go:build linux

package network

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The guard is a second table, of the bridge, where it is still known from which instance
// a packet comes: it drops everything but IPv4 and ARP from the instance's own address.
// Otherwise a packet with a forged source would have the rules of another instance.
// Instances may not forge packets anyway, so an old kernel without such tables will do.

const (
	guardSet = "sources" // interface . address
	portSet  = "ports"   // interfaces, in a copy
)

func guardSources(t *nftables.Table) *nftables.Set {
	return &nftables.Set{
		Table: t, Name: guardSet, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIPAddr),
	}
}

func guardPorts(t *nftables.Table) *nftables.Set {
	// nft reads names in the byte order of the machine.
	return &nftables.Set{Table: t, Name: portSet, KeyType: nftables.TypeIFName, KeyByteOrder: binaryutil.NativeEndian}
}

// guardElements returns the elements of an instance.
func (n *Network) guardElements(t *nftables.Table, a netip.Addr) []member {
	key := make([]byte, unix.IFNAMSIZ)
	copy(key, n.veth(a))
	list := []member{{guardSources(t), []nftables.SetElement{{Key: slices.Concat(key, a.AsSlice())}}}}
	if n.isCopy(t) {
		list = append(list, member{guardPorts(t), []nftables.SetElement{{Key: key}}})
	}
	return list
}

// writeGuard replaces the table of the bridge.
func (n *Network) writeGuard() error {
	err := n.replace(nftables.TableFamilyBridge, n.fillGuard)
	n.guarded = err == nil
	if slices.ContainsFunc([]error{unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.ENOENT},
		func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

// fillGuard writes the content of the table, or of its copy.
func (n *Network) fillGuard(w *tableWriter) {
	t, c := w.table, w.Conn
	sets := []*nftables.Set{guardSources(t)}
	if n.isCopy(t) {
		sets = append(sets, guardPorts(t))
	}
	own := map[string][]nftables.SetElement{}
	for a := range n.access {
		for _, m := range n.guardElements(t, a) {
			own[m.set.Name] = append(own[m.set.Name], m.list...)
		}
	}
	for _, set := range sets {
		w.addSet(set, own[set.Name])
	}
	accept := nftables.ChainPolicyAccept // other bridges are not affected
	chain := c.AddChain(&nftables.Chain{
		Name: "guard", Table: t, Type: nftables.ChainTypeFilter, Policy: &accept, Hooknum: nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityFilter,
	})
	// All of its ports, by the beginning of their names.
	ours := []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte(n.veth(n.Gateway()))[:len(n.name)+1]},
	}
	for protocol, offset := range map[uint16]uint32{unix.ETH_P_IP: sourceOffset, unix.ETH_P_ARP: arpSourceOffset} {
		w.rule(chain, ours, []expr.Any{
			&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: register},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{byte(protocol >> 8), byte(protocol)}},
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: firstWord},
			&expr.Payload{DestRegister: firstWord + unix.IFNAMSIZ/4, Base: expr.PayloadBaseNetworkHeader,
				Offset: offset, Len: 4},
			&expr.Lookup{SourceRegister: firstWord, SetName: sets[0].Name, SetID: sets[0].ID},
		}, verdict(expr.VerdictAccept, ""))
	}
	if n.isCopy(t) {
		ours = []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register},
			&expr.Lookup{SourceRegister: register, SetName: sets[1].Name, SetID: sets[1].ID},
		}
	}
	w.rule(chain, ours, verdict(expr.VerdictDrop, ""))
}
