//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
)

var _ engine.Enforcer = (*Engine)(nil)

// access is what the firewall knows of an instance.
type access struct {
	reach []Endpoint
	zone  engine.Zone
	app   string
}

// Enforce implements engine.Enforcer.
func (e *Engine) Enforce(_ context.Context, r engine.Rules) error {
	n := e.net
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

// rulesFile has the rules for the next server.
func (n *network) rulesFile() string { return filepath.Join(filepath.Dir(n.file), "rules.json") }

// Complete sets the Reach, the zone and the app of instances that were started by an older
// server without them.
func (e *Engine) Complete(reach func(labels map[string]string) []Endpoint, zone func(labels map[string]string) (engine.Zone, string)) error {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.instances))
	e.mu.Unlock()
	var errs []error
	for _, in := range all {
		if in.Reach != nil && in.Zone != nil {
			continue
		}
		labels, may := in.dir.Meta().Labels, in.access()
		if in.Reach == nil {
			may.reach = reach(labels)
		}
		if in.Zone == nil {
			may.zone, may.app = zone(labels)
		}
		errs = append(errs, e.net.admit(in.Addr, &may))
	}
	return errors.Join(errs...)
}

// admit lets the instance with that address connect to what its access says, in addition to
// what all may. Nil means that there is no instance any more.
func (n *network) admit(a netip.Addr, x *access) error {
	if x != nil {
		if err := checkEndpoints(x.reach); err != nil {
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
func (n *network) change(a netip.Addr, before, after *access) error {
	numbering.Lock()
	defer numbering.Unlock()
	c, err := nftables.New()
	if err != nil {
		return err
	}
	sets := n.sets(n.inet())
	gone, come := n.elementsOf(a, before), n.elementsOf(a, after)
	for i, set := range sets.ofInstances() {
		if len(gone[i]) > 0 {
			if err := c.SetDeleteElements(set, gone[i]); err != nil {
				return err
			}
		}
		if len(come[i]) > 0 {
			if err := c.SetAddElements(set, come[i]); err != nil {
				return err
			}
		}
	}
	if n.guarded && (before == nil) != (after == nil) {
		change := c.SetAddElements
		if after == nil {
			change = c.SetDeleteElements
		}
		if err := change(n.guardSources(), []nftables.SetElement{n.guardElement(a)}); err != nil {
			return err
		}
	}
	return c.Flush()
}

// sets are the sets of the table.
type sets struct{ allowed, reach, zones, apps, policies *nftables.Set }

// ofInstances are those with elements for each instance, in the order of elementsOf.
func (s sets) ofInstances() [3]*nftables.Set { return [...]*nftables.Set{s.reach, s.zones, s.apps} }

func (n *network) sets(t *nftables.Table) sets {
	return sets{
		allowed: &nftables.Set{
			Table: t, Name: allowedSet, Concatenation: true,
			KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService),
		},
		reach: &nftables.Set{
			Table: t, Name: reachSet, Concatenation: true,
			KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr, nftables.TypeInetService),
		},
		zones: &nftables.Set{Table: t, Name: zoneMap, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict},
		apps:  &nftables.Set{Table: t, Name: appMap, IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeMark},
		policies: &nftables.Set{
			Table: t, Name: policySet, Concatenation: true, Interval: true,
			KeyType: nftables.MustConcatSetType(nftables.TypeMark, nftables.TypeMark, nftables.TypeInetProto, nftables.TypeInetService),
		},
	}
}

// elementsOf returns the elements of an instance in each of the sets that have some.
func (n *network) elementsOf(a netip.Addr, x *access) (list [3][]nftables.SetElement) {
	if x == nil {
		return list
	}
	list[0] = reachElements(a, x.reach)
	if chain := n.chains[groupsKey(n.rules.GroupsOf(x.zone))]; chain != "" {
		list[1] = []nftables.SetElement{{Key: a.AsSlice(), VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}}
	}
	if number := n.numbers[x.app]; number != 0 {
		list[2] = []nftables.SetElement{{Key: a.AsSlice(), Val: binaryutil.NativeEndian.PutUint32(number)}}
	}
	return list
}

func groupsKey(guids []string) string { return strings.Join(guids, " ") }

const (
	// messageElements is how many elements fit into one message to the kernel.
	messageElements = 500
	// socketBuffer holds the kernel's answers to a table of thousands of chains.
	socketBuffer = 32 << 20
)

// writeFirewall replaces both tables, each in one step.
func (n *network) writeFirewall() error {
	// The library numbers sets with an unguarded variable.
	numbering.Lock()
	defer numbering.Unlock()
	err := n.writeTable()
	if errors.Is(err, unix.ENOENT) && !n.deaf {
		// Without a log for packets in the kernel, rules that use it are refused.
		n.deaf = true
		if err = n.writeTable(); err != nil {
			n.deaf = false
		}
	}
	if err != nil {
		return err
	}
	return n.writeGuard()
}

// bigConn returns a connection to the kernel for large tables.
func bigConn() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(socketBuffer), c.SetWriteBuffer(socketBuffer))
	}))
}

func (n *network) writeTable() error {
	c, err := bigConn()
	if err != nil {
		return err
	}
	t := n.inet()
	// Adding an existing table does nothing, so that deleting never fails.
	c.AddTable(t)
	c.DelTable(t)
	c.AddTable(t)
	w := &tableWriter{Conn: c, table: t, network: n}
	w.addChains()
	n.numberApps()
	all := n.sets(t)
	w.addSet(all.allowed, elements(n.allow))
	w.addSet(all.policies, n.policyElements())
	var own [3][]nftables.SetElement
	for a, x := range n.access {
		for i, list := range n.elementsOf(a, x) {
			own[i] = append(own[i], list...)
		}
	}
	for i, set := range all.ofInstances() {
		w.addSet(set, own[i])
	}
	w.addRules(all)
	if w.err != nil {
		return w.err
	}
	return c.Flush()
}

// numberApps numbers the apps that have policies.
func (n *network) numberApps() {
	n.numbers = map[string]uint32{}
	for _, p := range n.rules.Policies {
		for _, app := range []string{p.SourceApp, p.DestApp} {
			if n.numbers[app] == 0 {
				n.numbers[app] = uint32(len(n.numbers) + 1) //nolint:gosec // there are not as many
			}
		}
	}
}

// policyElements returns the elements of the set of policies. Ranges of ports must not
// overlap there.
func (n *network) policyElements() (list []nftables.SetElement) {
	type pair struct{ source, dest, protocol string }
	ports := map[pair][]platform.PortRange{}
	for _, p := range n.rules.Policies {
		key := pair{p.SourceApp, p.DestApp, p.Protocol}
		ports[key] = append(ports[key], platform.PortRange{First: p.FirstPort, Last: p.LastPort})
	}
	for p, ranges := range ports {
		number := map[string]byte{platform.ProtocolTCP: unix.IPPROTO_TCP, platform.ProtocolUDP: unix.IPPROTO_UDP}[p.protocol]
		key := slices.Concat(binaryutil.NativeEndian.PutUint32(n.numbers[p.source]), binaryutil.NativeEndian.PutUint32(n.numbers[p.dest]), []byte{number, 0, 0, 0})
		with := func(port uint16) []byte {
			return slices.Concat(key, binaryutil.BigEndian.PutUint16(port), []byte{0, 0})
		}
		for _, r := range merged(ranges, func(r platform.PortRange) (uint32, uint32) { return uint32(r.First), uint32(r.Last) }) {
			list = append(list, nftables.SetElement{Key: with(uint16(r[0])), KeyEnd: with(uint16(r[1]))}) //nolint:gosec // were ports
		}
	}
	return list
}

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
