//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"ingot/internal/base/safedial"
)

// The firewall of an engine:
//
//	from an instance to …
//	  answers to a connection from outside   accept
//	  what Allow names, for all instances    accept
//	  what its own Spec.Reach names          accept
//	  the host, by any of its addresses      reject
//	  another instance                       reject (and the bridge keeps them apart)
//	  the internet                           reject; accept with egress
//	  private and other special networks     reject
//	to an instance, forwarded from elsewhere reject
//	IPv6                                     reject
//
// The host itself may connect to every instance.

// Names of the sets.
const (
	allowedSet = "allowed" // destination . port, for all instances
	reachSet   = "reach"   // source . destination . port
)

// Allow sets what all instances may connect to, over TCP and UDP, replacing what was
// allowed before. Established connections are not cut.
func (e *Engine) Allow(_ context.Context, tcp, udp []Endpoint) error {
	if err := checkEndpoints(append(slices.Clone(tcp), udp...)); err != nil {
		return err
	}
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.allow, n.allowUDP = tcp, udp
	return n.writeFirewall()
}

func checkEndpoints(list []Endpoint) error {
	for _, p := range list {
		if !p.Addr().Unmap().Is4() {
			return fmt.Errorf("%v: instances have IPv4 only", p)
		}
	}
	return nil
}

// permit lets the instance with that address connect to exactly these endpoints, in
// addition to what all may.
func (n *network) permit(a netip.Addr, endpoints []Endpoint) error {
	if err := checkEndpoints(endpoints); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.reach[a]
	if len(before) == 0 && len(endpoints) == 0 {
		return nil
	}
	delete(n.reach, a)
	if len(endpoints) > 0 {
		n.reach[a] = endpoints
	}
	if err := n.changeReach(a, before, endpoints); err != nil {
		// If the update fails, replace the whole table.
		return n.writeFirewall()
	}
	return nil
}

// changeReach changes the set of an existing table.
func (n *network) changeReach(a netip.Addr, gone, come []Endpoint) error {
	numbering.Lock()
	defer numbering.Unlock()
	c, err := nftables.New()
	if err != nil {
		return err
	}
	set := n.reachSet(n.inet())
	if len(gone) > 0 {
		if err := c.SetDeleteElements(set, reachElements(a, gone)); err != nil {
			return err
		}
	}
	if len(come) > 0 {
		if err := c.SetAddElements(set, reachElements(a, come)); err != nil {
			return err
		}
	}
	return c.Flush()
}

func (n *network) inet() *nftables.Table {
	return &nftables.Table{Family: nftables.TableFamilyINet, Name: n.table}
}

func (n *network) reachSet(t *nftables.Table) *nftables.Set {
	return &nftables.Set{
		Table: t, Name: reachSet, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr, nftables.TypeInetService),
	}
}

// Gateway returns the host's address as seen by instances. Services for them can listen
// there, and need Allow or the Reach of an instance.
func (e *Engine) Gateway() netip.Addr { return e.net.gateway() }

// Subnet returns the instances' network. Services on Gateway should refuse all other
// clients.
func (e *Engine) Subnet() netip.Prefix { return e.net.chosen.Subnet }

// Labels returns the labels of the instance that has an address; nil if there is none.
func (e *Engine) Labels(a netip.Addr) map[string]string {
	e.net.mu.Lock()
	id := e.net.taken[a]
	e.net.mu.Unlock()
	in, err := e.find(id)
	if err != nil {
		return nil
	}
	return in.dir.Meta().Labels
}

// Complete sets the Reach of instances that were started by an older server without it.
func (e *Engine) Complete(reach func(labels map[string]string) []Endpoint) error {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.instances))
	e.mu.Unlock()
	var errs []error
	for _, in := range all {
		if in.Reach == nil {
			errs = append(errs, e.net.permit(in.Addr, reach(in.dir.Meta().Labels)))
		}
	}
	return errors.Join(errs...)
}

// numbering is held while firewall sets are created, by any engine of this process.
var numbering sync.Mutex

// writeFirewall replaces the whole table, in one step.
func (n *network) writeFirewall() error {
	// The library numbers sets with an unguarded variable.
	numbering.Lock()
	defer numbering.Unlock()
	c, err := nftables.New()
	if err != nil {
		return err
	}
	t := n.inet()
	// Adding an existing table does nothing, so that deleting never fails.
	c.AddTable(t)
	c.DelTable(t)
	c.AddTable(t)
	set := &nftables.Set{
		Table: t, Name: allowedSet, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService),
	}
	if err := c.AddSet(set, elements(n.allow)); err != nil {
		return err
	}
	reach := n.reachSet(t)
	var own []nftables.SetElement
	for a, endpoints := range n.reach {
		own = append(own, reachElements(a, endpoints)...)
	}
	if err := c.AddSet(reach, own); err != nil {
		return err
	}
	n.addRules(c, t, set, reach)
	return c.Flush()
}

// addRules adds the chains and their rules. Instances may connect to endpoints in one of
// the sets, and to the internet if egress is allowed.
func (n *network) addRules(c *nftables.Conn, t *nftables.Table, set, reach *nftables.Set) {
	accept := nftables.ChainPolicyAccept // other traffic is not affected
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Name: name, Table: t, Type: kind, Policy: &accept, Hooknum: hook, Priority: priority})
	}
	input := chain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	forward := chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	nat := chain("leave", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	rule := func(chain *nftables.Chain, parts ...[]expr.Any) {
		r := &nftables.Rule{Table: t, Chain: chain}
		for _, p := range parts {
			r.Exprs = append(r.Exprs, p...)
		}
		c.AddRule(r)
	}
	from, to := onInterface(expr.MetaKeyIIFNAME, n.name), onInterface(expr.MetaKeyOIFNAME, n.name)
	yes := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	no := []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
	reset := []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}

	rule(input, from, established(), yes)
	rule(input, from, listed(set), yes)
	rule(input, from, listedOf(reach), yes)
	for _, p := range n.allowUDP {
		rule(input, from, overUDP(), toSubnet(netip.PrefixFrom(p.Addr().Unmap(), 32)), toPort(p.Port()), yes)
	}
	rule(input, from, overTCP(), reset)
	rule(input, from, no)

	rule(forward, from, established(), yes)
	rule(forward, from, listed(set), yes)
	rule(forward, from, listedOf(reach), yes)
	if n.egress {
		for _, server := range nameServers() {
			rule(forward, from, toSubnet(netip.PrefixFrom(server, server.BitLen())), toPort(53), yes)
		}
		// Egress means the internet, not the networks of this machine, nor the metadata
		// service of a cloud.
		for _, refused := range safedial.RefusedIPv4() {
			rule(forward, from, toSubnet(refused), overTCP(), reset)
			rule(forward, from, toSubnet(refused), no)
		}
		rule(forward, from, notOnInterface(expr.MetaKeyOIFNAME, n.name), overIPv4(), yes)
	}
	rule(forward, from, overTCP(), reset)
	rule(forward, from, no)
	rule(forward, to, established(), yes)
	rule(forward, to, no)

	rule(nat, fromSubnet(n.chosen.Subnet), notOnInterface(expr.MetaKeyOIFNAME, n.name), []expr.Any{&expr.Masq{}})
}

// removeTable removes a firewall table; it is not an error if there is none.
func removeTable(name string) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: name})
	if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("firewall table %s: %w", name, err)
	}
	return nil
}

func elements(endpoints []Endpoint) []nftables.SetElement {
	list := make([]nftables.SetElement, 0, len(endpoints))
	for _, p := range endpoints {
		a := p.Addr().Unmap().As4()
		// Each part of a concatenation fills whole words.
		key := append(a[:], binaryutil.BigEndian.PutUint16(p.Port())...)
		list = append(list, nftables.SetElement{Key: append(key, 0, 0)})
	}
	return list
}

func reachElements(from netip.Addr, endpoints []Endpoint) []nftables.SetElement {
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
