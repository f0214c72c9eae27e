//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
)

// network is an engine's bridge, the addresses on it, and its firewall.
//
//	instance ─eth0══veth──┐ isolated ports: instances cannot reach each other
//	instance ─eth0══veth──┤
//	                 bridge (gateway) ── host
type network struct {
	name   string // of the bridge, and prefix of the veth names
	table  string // of the firewall
	file   string // stores the choice for the next server
	egress bool
	root   string // of the engine, as owner of the bridge
	holder string // ingot-init, as holder of the firewall; "" for none
	log    *slog.Logger

	watch   *rulesWatch // nil until it is protected
	bridge  int         // its index
	adopted bool        // from an earlier server
	chosen  netChoice

	mu       sync.Mutex
	taken    map[netip.Addr]string // by instance id
	next     netip.Addr
	allow    []Endpoint // for all instances, over TCP
	allowUDP []Endpoint
	access   map[netip.Addr]*access // of single ones, by their address
	rules    engine.Rules
	groups   map[string]string // chains of the firewall, by group
	chains   map[string]string // and by the groups of a zone
	sources  map[string]int    // numbers of apps that are the source of a policy
	dests    map[string]int    // and of those that are the destination of one
	deaf     bool              // the machine has no log for packets
	guarded  bool              // it has tables of bridges
	uncopied bool              // it has no tables with owners

	kernel *kernel       // owns the copies of the tables
	port   atomic.Uint32 // of its socket, which is in all notifications of its changes
	copies map[nftables.TableFamily]*nftables.Table
	before []local.ProcessID // holders of earlier servers
}

// netChoice is stored in the engine's root.
type netChoice struct {
	Subnet netip.Prefix `json:"subnet"`
}

const (
	subnetBits = 20 // 4093 instances

	// Marks of bridges, before the engine's root.
	closedMark = "ingot "
	egressMark = "ingot-egress "
)

// pools are the ranges for subnets, the least used of the private ranges first.
var pools = []netip.Prefix{
	netip.MustParsePrefix("10.128.0.0/9"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("10.0.0.0/9"),
}

// openNetwork creates the bridge, or adopts the one that an earlier server left for its
// instances. The firewall is written when these are known; until then it is as that server
// left it.
func openNetwork(n *network) (*network, error) {
	n.taken, n.access, n.before = map[netip.Addr]string{}, map[netip.Addr]*access{}, holders(n.table)
	if err := local.ReadJSON(n.file, &n.chosen); err != nil && !errors.Is(err, fs.ErrNotExist) && !local.IsCut(err) {
		return nil, err
	}
	if local.ReadJSON(n.rulesFile(), &n.rules) != nil {
		n.rules = engine.Rules{} // until Enforce is called, which is soon
	}
	if err := n.openBridge(); err != nil {
		return nil, err
	}
	if n.egress {
		if err := startForwarding(forwarded); err != nil {
			return nil, fmt.Errorf("forwarding: %w", err)
		}
	}
	n.next = n.gateway().Next()
	return n, nil
}

// mark identifies the owner of the bridge, and whether it needs forwarding.
func (n *network) mark() string {
	if n.egress {
		return egressMark + n.root
	}
	return closedMark + n.root
}

// gateway returns the host's address on the bridge.
func (n *network) gateway() netip.Addr { return n.chosen.Subnet.Addr().Next() }

func (n *network) openBridge() error {
	link, err := netlink.LinkByName(n.name)
	if err == nil && n.chosen.Subnet.IsValid() {
		n.bridge, n.adopted = link.Attrs().Index, true
		return n.configure(link)
	}
	if err == nil {
		if err := netlink.LinkDel(link); err != nil {
			return fmt.Errorf("old bridge %s: %w", n.name, err)
		}
	}
	for try := range 64 {
		subnet := n.chosen.Subnet
		used, err := usedPrefixes(n.name)
		if err != nil {
			return err
		}
		if !subnet.IsValid() || overlapsAny(subnet, used) {
			if subnet, err = freeSubnet(n.name, try, used); err != nil {
				return err
			}
		}
		if subnet != n.chosen.Subnet { // otherwise a full disk is no reason to fail
			n.chosen.Subnet = subnet
			if err := local.WriteJSON(n.file, n.chosen); err != nil {
				return err
			}
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = n.name, hardware(n.gateway())
		snooping := false
		bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
		if err := netlink.LinkAdd(bridge); err != nil {
			return fmt.Errorf("bridge %s: %w", n.name, err)
		}
		n.bridge = bridge.Index
		if err := n.configure(bridge); err != nil {
			return errors.Join(err, netlink.LinkDel(bridge))
		}
		// Another server may have chosen the same at the same time. Both see each other
		// now; the one whose name sorts first keeps it.
		used, err = usedPrefixes("")
		if err != nil {
			return errors.Join(err, netlink.LinkDel(bridge))
		}
		if !n.mustYield(used) {
			return nil
		}
		n.chosen.Subnet = netip.Prefix{}
		if err := netlink.LinkDel(bridge); err != nil {
			return err
		}
	}
	return errors.New("no free subnet after several tries")
}

// configure sets the address of the bridge and brings it up.
func (n *network) configure(link netlink.Link) error {
	// No IPv6 on the host's side; without IPv6 on the host there is no such file.
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+n.name+"/disable_ipv6", []byte("1"), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := netlink.LinkSetAlias(link, n.mark()); err != nil {
		return fmt.Errorf("bridge %s: %w", n.name, err)
	}
	// Instances reach each other only through the host, which answers their ARP requests for
	// each other and forwards what the firewall accepts.
	for name, value := range map[string]string{"forwarding": "1", "proxy_arp_pvlan": "1", "send_redirects": "0"} {
		if err := setBridge(n.name, name, value); err != nil {
			return err
		}
	}
	// The kernel waits a while before it answers for others, and forgets to when any interface
	// goes down meanwhile.
	if err := os.WriteFile("/proc/sys/net/ipv4/neigh/"+n.name+"/proxy_delay", []byte("0"), 0); err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: ipNet(n.gateway(), subnetBits)}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("address %v of bridge %s: %w", addr, n.name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bridge %s: %w", n.name, err)
	}
	return nil
}

// used is a subnet in use on this machine, and its interface.
type used struct {
	prefix netip.Prefix
	link   string
}

// usedPrefixes returns the subnets of all interfaces but one, and of all routes but default
// routes.
func usedPrefixes(but string) ([]used, error) {
	links, err := listLinks()
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	var list []used
	note := func(n *net.IPNet, index int) {
		if n == nil {
			return
		}
		p, ok := prefix(n)
		if ok && p.Bits() > 0 && names[index] != but {
			list = append(list, used{p, names[index]})
		}
	}
	addrs, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		note(a.IPNet, a.LinkIndex)
	}
	routes, err := whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		note(r.Dst, r.LinkIndex)
	}
	return list, nil
}

func listLinks() ([]netlink.Link, error) { return whole(netlink.LinkList) }

// whole repeats a netlink list request until the list did not change meanwhile.
func whole[T any](ask func() ([]T, error)) (list []T, err error) {
	for range 100 {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

func overlapsAny(p netip.Prefix, list []used) bool {
	for _, u := range list {
		if p.Overlaps(u.prefix) {
			return true
		}
	}
	return false
}

// mustYield reports whether another engine's bridge, whose name sorts first, has the same
// subnet.
func (n *network) mustYield(list []used) bool {
	for _, u := range list {
		if u.link != n.name && n.chosen.Subnet.Overlaps(u.prefix) && (u.link < n.name || !strings.HasPrefix(u.link, linkPrefix)) {
			return true
		}
	}
	return false
}

// freeSubnet searches from an offset that depends on the name, so that engines rarely
// collide.
func freeSubnet(name string, try int, list []used) (netip.Prefix, error) {
	h := fnv.New32a()
	fmt.Fprint(h, name, try)
	for _, pool := range pools {
		count := uint32(1) << (subnetBits - pool.Bits())
		for i := range count {
			p := nthSubnet(pool, (h.Sum32()+i)%count)
			if !overlapsAny(p, list) {
				return p, nil
			}
		}
	}
	return netip.Prefix{}, errors.New("no free subnet in 10/8, 100.64/10 and 172.16/12: every one has a route already")
}

func nthSubnet(pool netip.Prefix, i uint32) netip.Prefix {
	b := pool.Masked().Addr().As4()
	v := new(big.Int).SetBytes(b[:])
	v.Add(v, big.NewInt(int64(i)<<(32-subnetBits)))
	var out [4]byte
	v.FillBytes(out[:])
	return netip.PrefixFrom(netip.AddrFrom4(out), subnetBits)
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if !ok || bits == 0 {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, ones-(bits-a.BitLen())).Masked(), true
}

func ipNet(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, 32)}
}

// hardware derives the MAC address from an IP address. It never changes, so that no ARP
// cache is wrong when an address is reused.
func hardware(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x0a, 0x58, b[0], b[1], b[2], b[3]}
}

// take reserves an address for an instance, avoiding recently released ones.
func (n *network) take(id string) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range 1 << (32 - subnetBits) {
		a := n.next
		n.next = n.next.Next()
		if !n.chosen.Subnet.Contains(n.next.Next()) { // the last is the broadcast address
			n.next = n.gateway().Next()
		}
		if _, ok := n.taken[a]; !ok {
			n.taken[a] = id
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %v are taken", n.chosen.Subnet)
}

// adopt records an instance of an earlier server.
func (n *network) adopt(a netip.Addr, id string, x access) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taken[a] = id
	n.access[a] = &x
}

// protect writes the firewall, and restores it whenever another program changes it.
func (n *network) protect() error {
	w, err := watchRules(n)
	if err != nil {
		return err
	}
	n.mu.Lock()
	found, err := n.summary()
	if err == nil {
		err = n.writeFirewall()
	}
	n.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("firewall (nftables): %w", err), w.close())
	}
	if n.adopted && len(n.access) > 0 && len(found) == 0 {
		w.restored.Add(1)
		n.log.Warn("another program removed the firewall of the instances while no server ran: restored", "table", n.table, "copy", len(n.before) > 0)
	}
	if n.uncopied {
		n.log.Warn("the kernel is older than Linux 5.12: a program that removes all rules of the firewall exposes this machine to the instances until they are restored")
	}
	n.watch = w
	w.start()
	return endHolders(n.before)
}

// unprotected returns why the firewall could not be restored; nil if it holds.
func (n *network) unprotected() error {
	if n.watch == nil {
		return nil
	}
	return n.watch.why()
}

// leave stops restoring the firewall. Its tables stay, and their copies with the holder.
func (n *network) leave() error {
	var err error
	if n.watch != nil {
		err = n.watch.close()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(err, n.detach())
}

// unhold removes the copies of the tables.
func (n *network) unhold() error {
	n.mu.Lock()
	err := n.forget()
	n.mu.Unlock()
	return errors.Join(err, endHolders(holders(n.table)))
}

func (n *network) release(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, a)
}

// veth returns the name of the host's end of an instance's veth pair.
func (n *network) veth(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("%s-%04x", n.name, (uint(b[2])<<8|uint(b[3]))&(1<<(32-subnetBits)-1))
}

// connect creates a veth pair from the bridge into a process's network namespace, where its
// end becomes eth0 with the address.
func (n *network) connect(p local.ProcessID, a netip.Addr) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex, attrs.Flags = n.veth(a), n.bridge, net.FlagUp
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: hardware(a), PeerNamespace: netlink.NsPid(p.PID)}
	err := netlink.LinkAdd(veth)
	if errors.Is(err, unix.EEXIST) { // left over by a server that died
		if err := n.disconnect(a); err != nil {
			return err
		}
		err = netlink.LinkAdd(veth)
	}
	if err != nil {
		return fmt.Errorf("veth %s: %w", attrs.Name, err)
	}
	if err := netlink.LinkSetIsolated(veth, true); err != nil {
		return fmt.Errorf("isolating %s: %w", attrs.Name, err)
	}
	_, err = inNetworkOf(p, func() (struct{}, error) { return struct{}{}, n.address(a) })
	return err
}

// address configures eth0. It runs inside the namespace.
func (n *network) address(a netip.Addr) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	eth0, err := h.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("eth0: %w", err)
	}
	if err := h.AddrAdd(eth0, &netlink.Addr{IPNet: ipNet(a, subnetBits)}); err != nil {
		return fmt.Errorf("address of eth0: %w", err)
	}
	if err := h.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("eth0: %w", err)
	}
	if err := h.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: n.gateway().AsSlice()}); err != nil {
		return fmt.Errorf("route of eth0: %w", err)
	}
	return nil
}

// disconnect removes an instance's veth pair; it is not an error if there is none.
func (n *network) disconnect(a netip.Addr) error { return removeLink(n.veth(a)) }

func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	var none netlink.LinkNotFoundError
	if err == nil || errors.As(err, &none) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("veth %s: %w", name, err)
}

// sweep removes veth pairs without an instance.
func (n *network) sweep() error {
	links, err := listLinks()
	if err != nil {
		return err
	}
	n.mu.Lock()
	known := map[string]bool{}
	for a := range n.taken {
		known[n.veth(a)] = true
	}
	n.mu.Unlock()
	var errs []error
	for _, l := range links {
		if name := l.Attrs().Name; strings.HasPrefix(name, n.name+"-") && !known[name] {
			errs = append(errs, removeLink(name))
		}
	}
	return errors.Join(errs...)
}

// remove removes the bridge and the firewall.
func (n *network) remove() error {
	err := errors.Join(n.unhold(), removeTable(n.table), removeLink(n.name))
	if n.egress {
		err = errors.Join(err, stopForwarding(forwarded))
	}
	return err
}

// removeOrphans removes bridges of engines whose root is gone and that have no instances.
func removeOrphans(ctx context.Context, groups cgroups) error {
	links, err := listLinks()
	if err != nil {
		return err
	}
	ports := map[int]int{}
	for _, l := range links {
		ports[l.Attrs().MasterIndex]++
	}
	var errs []error
	for _, l := range links {
		a := l.Attrs()
		root, ours := strings.CutPrefix(a.Alias, closedMark)
		if !ours {
			root, ours = strings.CutPrefix(a.Alias, egressMark)
		}
		hash, named := strings.CutPrefix(a.Name, linkPrefix)
		if !ours || !named || l.Type() != "bridge" || ports[a.Index] > 0 || !filepath.IsAbs(root) {
			continue
		}
		if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		name := namePrefix + hash
		run := filepath.Join(runDir, name)
		if len(groups.children(name)) == 0 {
			errs = append(errs, groups.remove(ctx, name))
			if err := unmountBelow(run); err != nil {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, os.RemoveAll(run))
		}
		// The bridge comes last, because the rest is found by it.
		errs = append(errs, endHolders(holders(name)), removeTable(name), removeLink(a.Name), stopForwarding(forwarded))
	}
	return errors.Join(errs...)
}
