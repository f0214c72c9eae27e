//go:build linux

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
)

// Access is what the firewall knows of an instance.
type Access struct {
	Reach []netip.AddrPort // beside what all may connect to
	Zone  engine.Zone
	App   string
}

// Allow sets what all instances may connect to, over TCP and UDP, replacing what was
// allowed before. Established connections are not cut.
func (n *Network) Allow(tcp, udp []netip.AddrPort) error {
	if err := checkEndpoints(append(slices.Clone(tcp), udp...)); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.allow, n.allowUDP = tcp, udp
	return n.writeFirewall()
}

func checkEndpoints(list []netip.AddrPort) error {
	for _, p := range list {
		if !p.Addr().Unmap().Is4() {
			return fmt.Errorf("%v: instances have IPv4 only", p)
		}
	}
	return nil
}

// Enforce replaces the rules, and stores them for the next server.
func (n *Network) Enforce(r engine.Rules) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if reflect.DeepEqual(n.rules, r) {
		return nil
	}
	before := n.rules
	n.rules = r
	if err := n.writeFirewall(); err != nil {
		n.rules = before
		return errors.Join(fmt.Errorf("firewall (nftables): %w", err), n.writeFirewall())
	}
	if err := local.WriteJSON(n.rulesFile(), r); err != nil {
		return fmt.Errorf("the rules are enforced, and a restarted server will not know them at first: %w", err)
	}
	return nil
}

// Admit lets the instance with that address connect to what its access says, in addition to
// what all may. Nil means that there is no instance any more.
func (n *Network) Admit(a netip.Addr, x *Access) error {
	if x != nil {
		if err := checkEndpoints(x.Reach); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.access[a]
	delete(n.access, a)
	if x != nil {
		n.access[a] = x
	}
	if err := n.change(a, before, x); err != nil {
		// If the update fails, replace the whole table.
		return n.writeFirewall()
	}
	return nil
}

// change changes the sets of an existing table.
func (n *Network) change(a netip.Addr, before, after *Access) error {
	numbering.Lock()
	defer numbering.Unlock()
	k, err := n.connection()
	if err != nil {
		return err
	}
	edit := func(change func(*nftables.Set, []nftables.SetElement) error, all []member) {
		for _, m := range all {
			err = errors.Join(err, change(m.set, m.list))
		}
	}
	for _, t := range n.tables(nftables.TableFamilyINet) {
		edit(k.SetDeleteElements, n.elementsOf(t, a, before))
		edit(k.SetAddElements, n.elementsOf(t, a, after))
	}
	if n.guarded && (before == nil) != (after == nil) {
		change := k.SetAddElements
		if after == nil {
			change = k.SetDeleteElements
		}
		for _, t := range n.tables(nftables.TableFamilyBridge) {
			edit(change, n.guardElements(t, a))
		}
	}
	if err != nil {
		return errors.Join(err, n.forget())
	}
	return k.flush()
}

// sets are the sets of the table that its base chains use.
type sets struct{ allowed, reach, zones, apps, known *nftables.Set }

func (n *Network) sets(t *nftables.Table) sets {
	jumps := func(name string) *nftables.Set {
		return &nftables.Set{Table: t, Name: name, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict}
	}
	return sets{
		allowed: &nftables.Set{
			Table: t, Name: allowedSet, Concatenation: true,
			KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService),
		},
		reach: &nftables.Set{
			Table: t, Name: reachSet, Concatenation: true,
			KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr, nftables.TypeInetService),
		},
		zones: jumps(zoneMap),
		apps:  jumps(appMap),
		known: &nftables.Set{Table: t, Name: knownSet, KeyType: nftables.TypeIPAddr},
	}
}

// instancesOf is the set with the addresses of an app that is the destination of a policy.
func instancesOf(t *nftables.Table, number int) *nftables.Set {
	return &nftables.Set{Table: t, Name: fmt.Sprint("i", number), KeyType: nftables.TypeIPAddr}
}

// member is an element of a set.
type member struct {
	set  *nftables.Set
	list []nftables.SetElement
}

// elementsOf returns the elements of an instance in the sets that have some.
func (n *Network) elementsOf(t *nftables.Table, a netip.Addr, x *Access) (all []member) {
	if x == nil {
		return nil
	}
	s := n.sets(t)
	if n.isCopy(t) {
		all = append(all, member{s.known, []nftables.SetElement{{Key: a.AsSlice()}}})
	}
	if len(x.Reach) > 0 {
		all = append(all, member{s.reach, reachElements(a, x.Reach)})
	}
	jump := func(set *nftables.Set, chain string) {
		all = append(all, member{set, []nftables.SetElement{{Key: a.AsSlice(),
			VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}}})
	}
	if chain := n.chains[groupsKey(n.rules.GroupsOf(x.Zone))]; chain != "" {
		jump(s.zones, chain)
	}
	if number := n.sources[x.App]; number != 0 {
		jump(s.apps, policyChain(number))
	}
	if number := n.dests[x.App]; number != 0 {
		all = append(all, member{instancesOf(t, number), []nftables.SetElement{{Key: a.AsSlice()}}})
	}
	return all
}

func groupsKey(guids []string) string { return strings.Join(guids, " ") }

const (
	// messageElements is how many elements fit into one message to the kernel.
	messageElements = 500
	// socketBuffer holds the kernel's answers to a table of thousands of chains.
	socketBuffer = 32 << 20
)

// writeFirewall replaces both tables and their copies, each table with its copy in one step.
func (n *Network) writeFirewall() error {
	// The library numbers sets with an unguarded variable.
	numbering.Lock()
	defer numbering.Unlock()
	n.nameChains()
	n.numberApps()
	err := n.replace(nftables.TableFamilyINet, n.fillTable)
	if errors.Is(err, unix.ENOENT) && !n.deaf {
		// Without a log for packets in the kernel, rules that use it are refused.
		n.deaf = true
		if err = n.replace(nftables.TableFamilyINet, n.fillTable); err != nil {
			n.deaf = false
		}
	}
	if err != nil {
		return err
	}
	return n.writeGuard()
}

// fillTable writes the content of the table, or of its copy.
func (n *Network) fillTable(w *tableWriter) {
	w.addChains()
	all := n.sets(w.table)
	w.addSet(all.allowed, elements(n.allow))
	own := map[string][]nftables.SetElement{}
	for a, x := range n.access {
		for _, m := range n.elementsOf(w.table, a, x) {
			own[m.set.Name] = append(own[m.set.Name], m.list...)
		}
	}
	w.addPolicies(own)
	list := []*nftables.Set{all.reach, all.zones, all.apps}
	if n.isCopy(w.table) {
		list = append(list, all.known)
	}
	for _, set := range list {
		w.addSet(set, own[set.Name])
	}
	w.addRules(all)
}

// numberApps numbers the apps that are the source of a policy, and those that are the
// destination of one.
func (n *Network) numberApps() {
	n.sources, n.dests = map[string]int{}, map[string]int{}
	for _, p := range n.rules.Policies {
		if n.sources[p.SourceApp] == 0 {
			n.sources[p.SourceApp] = len(n.sources) + 1
		}
		if n.dests[p.DestApp] == 0 {
			n.dests[p.DestApp] = len(n.dests) + 1
		}
	}
}

func policyChain(number int) string { return fmt.Sprint("p", number) }

// merged returns ranges of numbers in order, without overlaps.
func merged[T any](list []T, ends func(T) (first, last uint32)) (out [][2]uint32) {
	for _, one := range list {
		first, last := ends(one)
		out = append(out, [2]uint32{first, last})
	}
	slices.SortFunc(out, func(a, b [2]uint32) int { return slices.Compare(a[:], b[:]) })
	kept := out[:0]
	for _, r := range out {
		if i := len(kept) - 1; i >= 0 && uint64(r[0]) <= uint64(kept[i][1])+1 {
			kept[i][1] = max(kept[i][1], r[1])
			continue
		}
		kept = append(kept, r)
	}
	return kept
}
