//go:build linux

package network

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"ingot/internal/platform"
)

// tableWriter writes a new firewall table.
type tableWriter struct {
	*nftables.Conn
	*Network
	table *nftables.Table
	named int // sets of rules
	err   error
}

// addSet adds a set with its elements, in messages that are not too large.
func (w *tableWriter) addSet(set *nftables.Set, list []nftables.SetElement) {
	if err := w.AddSet(set, nil); err != nil && w.err == nil {
		w.err = err
	}
	for some := range slices.Chunk(list, messageElements) {
		if err := w.SetAddElements(set, some); err != nil && w.err == nil {
			w.err = err
		}
	}
}

func (w *tableWriter) chain(name string) *nftables.Chain {
	return w.AddChain(&nftables.Chain{Name: name, Table: w.table})
}

func (w *tableWriter) rule(chain *nftables.Chain, parts ...[]expr.Any) {
	r := &nftables.Rule{Table: w.table, Chain: chain}
	for _, p := range parts {
		r.Exprs = append(r.Exprs, p...)
	}
	w.AddRule(r)
}

func verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

// nameChains names the chains of security groups, and those that jump to them for each
// different list of groups. Zones with the same groups share one.
func (n *Network) nameChains() {
	n.groups, n.chains = map[string]string{}, map[string]string{}
	for i, guid := range slices.Sorted(maps.Keys(n.rules.Groups)) {
		n.groups[guid] = fmt.Sprint("g", i)
	}
	for _, guids := range n.rules.Zones {
		if key := groupsKey(guids); len(guids) > 0 && n.chains[key] == "" {
			n.chains[key] = fmt.Sprint("z", len(n.chains))
		}
	}
}

// addChains adds the chains of security groups and of lists of them.
func (w *tableWriter) addChains() {
	for guid, name := range w.groups {
		w.addGroup(w.chain(name), w.rules.Groups[guid].Name, w.rules.Groups[guid].Rules)
	}
	added := map[string]bool{}
	for _, guids := range w.rules.Zones {
		name := w.chains[groupsKey(guids)]
		if name == "" || added[name] {
			continue
		}
		added[name] = true
		chain := w.chain(name)
		for _, guid := range guids {
			if group := w.groups[guid]; group != "" {
				w.rule(chain, verdict(expr.VerdictJump, group))
			}
		}
	}
}

// addGroup adds the rules of a group. Those for a single address come first, because they
// are the only ones that count for addresses of the host itself, where packets have no
// outgoing interface.
func (w *tableWriter) addGroup(chain *nftables.Chain, name string, rules []platform.SecurityRule) {
	single := func(r platform.SecurityRule) bool {
		return !slices.ContainsFunc(r.Ranges(), func(to platform.AddressRange) bool { return to.First != to.Last })
	}
	for _, narrow := range []bool{true, false} {
		if !narrow {
			w.rule(chain, []expr.Any{
				&expr.Meta{Key: expr.MetaKeyOIF, Register: register},
				&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: make([]byte, 4)},
			}, verdict(expr.VerdictReturn, ""))
		}
		for _, r := range rules {
			if single(r) != narrow {
				continue
			}
			match := w.match(r)
			if r.Log != nil && *r.Log && !w.deaf && !w.isCopy(w.table) {
				w.rule(chain, match, logged(name))
			}
			w.rule(chain, match, verdict(expr.VerdictAccept, ""))
		}
	}
}

// addPolicies adds a set with the instances of each app that is the destination of a policy,
// and a chain for each that is the source of one. A single set of pairs of apps would need maps
// within a concatenation, which nft 1.0.6 cannot list.
func (w *tableWriter) addPolicies(own map[string][]nftables.SetElement) {
	type pair struct{ source, dest, protocol string }
	ports := map[pair][]platform.PortRange{}
	chains, sets := map[string]*nftables.Chain{}, map[string]*nftables.Set{}
	var pairs []pair
	for _, p := range w.Network.rules.Policies {
		key := pair{p.SourceApp, p.DestApp, p.Protocol}
		if ports[key] == nil {
			pairs = append(pairs, key)
		}
		ports[key] = append(ports[key], platform.PortRange{First: p.FirstPort, Last: p.LastPort})
		if chains[p.SourceApp] == nil {
			chains[p.SourceApp] = w.chain(policyChain(w.sources[p.SourceApp]))
		}
		if sets[p.DestApp] == nil {
			set := instancesOf(w.table, w.dests[p.DestApp])
			w.addSet(set, own[set.Name])
			sets[p.DestApp] = set
		}
	}
	for _, p := range pairs {
		over := overTCP()
		if p.protocol == platform.ProtocolUDP {
			over = overUDP()
		}
		to := append(overIPv4(),
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: destOffset, Len: 4},
			&expr.Lookup{SourceRegister: register, SetName: sets[p.dest].Name, SetID: sets[p.dest].ID})
		w.rule(chains[p.source], to, over, w.toPorts(ports[p]), verdict(expr.VerdictAccept, ""))
	}
}

// toPorts compares the destination port.
func (w *tableWriter) toPorts(list []platform.PortRange) []expr.Any {
	ports := merged(list, func(p platform.PortRange) (uint32, uint32) { return uint32(p.First), uint32(p.Last) })
	return append([]expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
	}, w.within(ports, 2, nftables.TypeInetService)...)
}

// logged writes a packet, the first of a connection, to the kernel's log; not all of a
// flood.
func logged(group string) []expr.Any {
	return []expr.Any{
		&expr.Limit{Type: expr.LimitTypePkts, Rate: 10, Unit: expr.LimitTimeSecond, Burst: 50},
		&expr.Log{Key: 1 << unix.NFTA_LOG_PREFIX, Data: []byte(fmt.Sprintf("ingot OK %.60s ", group))},
	}
}

// match matches the packets that a rule allows.
func (w *tableWriter) match(r platform.SecurityRule) []expr.Any {
	address := func(a netip.Addr) uint32 { b := a.As4(); return binary.BigEndian.Uint32(b[:]) }
	to := merged(r.Ranges(), func(r platform.AddressRange) (uint32, uint32) { return address(r.First), address(r.Last) })
	parts := slices.Concat(overIPv4(), []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: destOffset, Len: 4},
	}, w.within(to, 4, nftables.TypeIPAddr))
	switch r.Protocol {
	case platform.ProtocolTCP, platform.ProtocolUDP:
		over := overTCP()
		if r.Protocol == platform.ProtocolUDP {
			over = overUDP()
		}
		parts = slices.Concat(parts, over, w.toPorts(r.PortRanges()))
	case platform.ProtocolICMP:
		parts = append(parts, over(unix.IPPROTO_ICMP)...)
		for offset, value := range []*int{r.Type, r.Code} {
			if value != nil && *value >= 0 {
				parts = append(parts,
					&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, //nolint:gosec // 0 or 1
						Offset: uint32(offset), Len: 1},
					&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{byte(*value)}})
			}
		}
	}
	return parts
}

// within compares the register with ranges of numbers of so many bytes.
func (w *tableWriter) within(ranges [][2]uint32, size int, kind nftables.SetDatatype) []expr.Any {
	data := func(n uint32) []byte { return binaryutil.BigEndian.PutUint32(n)[4-size:] }
	if len(ranges) == 1 && ranges[0][0] == ranges[0][1] {
		return []expr.Any{&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data(ranges[0][0])}}
	}
	if len(ranges) == 1 {
		return []expr.Any{&expr.Range{Op: expr.CmpOpEq, Register: register, FromData: data(ranges[0][0]),
			ToData: data(ranges[0][1])}}
	}
	w.named++
	set := &nftables.Set{Table: w.table, Name: fmt.Sprint("s", w.named), KeyType: kind, Interval: true}
	var list []nftables.SetElement
	for _, r := range ranges {
		list = append(list, nftables.SetElement{Key: data(r[0])})
		// What reaches to the end has none.
		if end := r[1] + 1; end&(1<<(8*size)-1) != 0 {
			list = append(list, nftables.SetElement{Key: data(end), IntervalEnd: true})
		}
	}
	w.addSet(set, list)
	return []expr.Any{&expr.Lookup{SourceRegister: register, SetName: set.Name, SetID: set.ID}}
}

// addRules adds the chains that all packets pass, and their rules.
func (w *tableWriter) addRules(s sets) {
	accept := nftables.ChainPolicyAccept // other traffic is not affected
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook,
		priority *nftables.ChainPriority) *nftables.Chain {
		return w.AddChain(&nftables.Chain{Name: name, Table: w.table, Type: kind, Policy: &accept, Hooknum: hook,
			Priority: priority})
	}
	input := chain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	forward := chain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	nat := chain("leave", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	from, to := onInterface(expr.MetaKeyIIFNAME, w.name), onInterface(expr.MetaKeyOIFNAME, w.name)
	yes := verdict(expr.VerdictAccept, "")
	no := []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
	reset := []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}

	w.rule(input, from, established(), yes)
	w.rule(input, from, listed(s.allowed), yes)
	w.rule(input, from, listedOf(s.reach), yes)
	for _, p := range w.allowUDP {
		w.rule(input, from, overUDP(), toSubnet(netip.PrefixFrom(p.Addr().Unmap(), 32)), toPort(p.Port()), yes)
	}
	w.rule(input, from, ruled(s.zones))
	// A copy that an earlier server has left knows nothing of later instances.
	known, knownTo := w.known(s, sourceOffset), w.known(s, destOffset)
	w.rule(input, from, known, overTCP(), reset)
	w.rule(input, from, known, no)

	w.rule(forward, from, established(), yes)
	w.rule(forward, from, to, ruled(s.apps))
	w.rule(forward, from, to, known, overTCP(), reset)
	w.rule(forward, from, to, known, no)
	w.rule(forward, from, listed(s.allowed), yes)
	w.rule(forward, from, listedOf(s.reach), yes)
	if w.egress {
		for _, server := range nameServers() {
			w.rule(forward, from, toSubnet(netip.PrefixFrom(server, server.BitLen())), toPort(53), yes)
		}
		w.rule(forward, from, ruled(s.zones))
	}
	w.rule(forward, from, known, overTCP(), reset)
	w.rule(forward, from, known, no)
	w.rule(forward, to, established(), yes)
	w.rule(forward, to, knownTo, no)

	w.rule(nat, fromSubnet(w.chosen.Subnet), notOnInterface(expr.MetaKeyOIFNAME, w.name), []expr.Any{&expr.Masq{}})
}

// known matches, in a copy, packets from or to instances that it knows.
func (w *tableWriter) known(s sets, offset uint32) []expr.Any {
	if !w.isCopy(w.table) {
		return nil
	}
	return append(overIPv4(),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		&expr.Lookup{SourceRegister: register, SetName: s.known.Name, SetID: s.known.ID})
}

// ruled goes to the chain of the packet's source.
func ruled(chains *nftables.Set) []expr.Any {
	return append(overIPv4(),
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: 4},
		&expr.Lookup{SourceRegister: register, SetName: chains.Name, SetID: chains.ID, IsDestRegSet: true},
	)
}
