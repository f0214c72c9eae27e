//go:build linux

package network

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

// Network is an engine's bridge, the addresses on it, and its firewall.
//
//	instance ─eth0══veth──┐ isolated ports: instances cannot reach each other
//	instance ─eth0══veth──┤
//	                 bridge (gateway) ── host
type Network struct {
	name   string // of the bridge, and prefix of the veth names
	table  string // of the firewall
	egress bool
	root   string // of the engine, as owner of the bridge; it has the files for the next server
	holder string // ingot-init, as holder of the firewall; "" for none
	log    *slog.Logger

	occupied *net.UnixConn // says to other servers that it is in use; nil if another program has its name
	watch    *rulesWatch   // nil until it is protected
	unfollow func()        // ends followMachine; nil if it does not run
	bridge   int           // its index
	adopted  bool          // from an earlier server
	chosen   netChoice

	mu       sync.Mutex
	taken    map[netip.Addr]string // by instance id
	next     netip.Addr
	allow    []netip.AddrPort // for all instances, over TCP
	allowUDP []netip.AddrPort
	access   map[netip.Addr]*Access // of single ones, by their address
	rules    engine.Rules
	groups   map[string]string // chains of the firewall, by group
	chains   map[string]string // and by the groups of a zone
	sources  map[string]int    // numbers of apps that are the source of a policy
	dests    map[string]int    // and of those that are the destination of one
	deaf     bool              // the machine has no log for packets
	guarded  bool              // it has tables of bridges
	uncopied bool              // it has no tables with owners

	unforgetful sync.Once // warns of a kernel that cannot forget connections

	kernel *kernel       // owns the copies of the tables
	port   atomic.Uint32 // of its socket, which is in all notifications of its changes
	copies map[nftables.TableFamily]*nftables.Table
	before []local.ProcessID // holders of earlier servers
}

// Options configure a network.
type Options struct {
	// Hash is in all names.
	Hash string
	// Root is the directory of the engine.
	Root string
	// Egress lets instances connect to other machines where rules allow it. It enables the
	// host's IPv4 forwarding.
	Egress bool
	// Allow is what instances may always connect to, over TCP.
	Allow []netip.AddrPort
	// Holder is ingot-init, which keeps the copy of the firewall when the server ends; "" for
	// none.
	Holder string
	Log    *slog.Logger
}

// NamePrefix begins the names of firewall tables and of all else that engines have outside of
// their root, except for links: their names have 15 bytes at most.
const (
	NamePrefix = "ingot-"
	linkPrefix = "ig"
)

// netChoice is stored in the engine's root.
type netChoice struct {
	Subnet netip.Prefix `json:"subnet"`
}

// Marks of bridges, before the engine's root.
const (
	closedMark = "ingot "
	egressMark = "ingot-egress "
)

// Open creates the bridge, or adopts the one that an earlier server left for its instances. The
// firewall is written by Protect, when these are known; until then it is as that server left it.
func Open(o Options) (*Network, error) {
	n := &Network{
		name: linkPrefix + o.Hash, table: NamePrefix + o.Hash, root: o.Root,
		egress: o.Egress, allow: o.Allow, holder: o.Holder, log: o.Log,
	}
	err := n.followMachine()
	if err == nil {
		var ours []netip.Prefix
		if ours, err = machineAddresses(); err == nil {
			err = inNet(func() error {
				if err := n.occupy(o.Hash); err != nil {
					return err
				}
				return errors.Join(claim(ours), n.open())
			})
		}
	}
	if err != nil {
		n.endFollowing()
		n.vacate()
		return nil, err
	}
	return n, nil
}

// occupy tells other servers that the network is in use. A program that keeps its name does the same.
func (n *Network) occupy(hash string) (err error) {
	if n.occupied, err = awaitOccupy(hash); errors.Is(err, errOccupied) {
		n.log.Warn("another program has the name of the network of the instances", "name", NamePrefix+hash)
		return nil
	}
	return err
}

// vacate ends occupy.
func (n *Network) vacate() {
	if n.occupied != nil {
		_ = n.occupied.Close() // nothing was written
	}
}

func (n *Network) open() error {
	n.taken, n.access, n.before = map[netip.Addr]string{}, map[netip.Addr]*Access{}, holders(n.table)
	if err := local.ReadJSON(n.choiceFile(), &n.chosen); err != nil && !errors.Is(err, fs.ErrNotExist) &&
		!local.IsCut(err) {
		return err
	}
	if local.ReadJSON(n.rulesFile(), &n.rules) != nil {
		n.rules = engine.Rules{} // until Enforce is called, which is soon
	}
	// Another engine takes no part of the same subnet meanwhile, and does not disable forwarding before
	// the bridge is marked.
	if err := lockMachine(n.log, n.openBridge); err != nil {
		return err
	}
	if n.egress {
		if err := startForwarding(n.log, forwardingMarker()); err != nil {
			return fmt.Errorf("forwarding: %w", err)
		}
	}
	n.next = n.Gateway().Next()
	return nil
}

// choiceFile has the subnet, and rulesFile the rules, for the next server.
func (n *Network) choiceFile() string { return filepath.Join(n.root, "network.json") }
func (n *Network) rulesFile() string  { return filepath.Join(n.root, "rules.json") }

// mark identifies the owner of the bridge, and whether it needs forwarding.
func (n *Network) mark() string {
	if n.egress {
		return egressMark + n.root
	}
	return closedMark + n.root
}

// Gateway returns the host's address on the bridge, as seen by instances.
func (n *Network) Gateway() netip.Addr { return n.chosen.Subnet.Addr().Next() }

// Subnet returns the instances' network.
func (n *Network) Subnet() netip.Prefix { return n.chosen.Subnet }

// Owner returns the id of the instance that has an address; "" if there is none.
func (n *Network) Owner(a netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.taken[a]
}

func (n *Network) openBridge() error {
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
			if err := local.WriteJSON(n.choiceFile(), n.chosen); err != nil {
				return err
			}
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = n.name, hardware(n.Gateway())
		snooping := false
		bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
		if err := netlink.LinkAdd(bridge); err != nil {
			return fmt.Errorf("bridge %s: %w", n.name, err)
		}
		n.bridge = bridge.Index
		if err := n.configure(bridge); err != nil {
			return errors.Join(err, netlink.LinkDel(bridge))
		}
		// A server that does not know the lock, as in another mount namespace, may have chosen
		// the same at the same time. Both see each other now; the one whose name sorts first keeps it.
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
func (n *Network) configure(link netlink.Link) error {
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
		if err := set(n.name, name, value); err != nil {
			return err
		}
	}
	// The kernel waits a while before it answers for others, and forgets to when any interface
	// goes down meanwhile.
	if err := os.WriteFile("/proc/sys/net/ipv4/neigh/"+n.name+"/proxy_delay", []byte("0"), 0); err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: ipNet(n.Gateway(), subnetBits)}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("address %v of bridge %s: %w", addr, n.name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bridge %s: %w", n.name, err)
	}
	return nil
}

// hardware derives the MAC address from an IP address. It never changes, so that no ARP
// cache is wrong when an address is reused.
func hardware(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x0a, 0x58, b[0], b[1], b[2], b[3]}
}

// Take reserves an address for an instance, avoiding recently released ones.
func (n *Network) Take(id string) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range 1 << (32 - subnetBits) {
		a := n.next
		n.next = n.next.Next()
		if !n.chosen.Subnet.Contains(n.next.Next()) { // the last is the broadcast address
			n.next = n.Gateway().Next()
		}
		if _, ok := n.taken[a]; !ok {
			n.taken[a] = id
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %v are taken", n.chosen.Subnet)
}

// Adopt records an instance of an earlier server.
func (n *Network) Adopt(a netip.Addr, id string, x Access) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taken[a] = id
	n.access[a] = &x
}

// Protect writes the firewall, and restores it whenever another program changes it.
func (n *Network) Protect() error {
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
		n.log.Warn("another program removed the firewall of the instances while no server ran: restored", "table", n.table,
			"copy", len(n.before) > 0)
	}
	if n.uncopied {
		n.log.Warn("the kernel is older than Linux 5.12: a program that removes all rules of the firewall exposes this " +
			"machine to the instances until they are restored")
	}
	n.watch = w
	w.start()
	return endHolders(n.before)
}

// Unprotected returns why the firewall could not be restored; nil if it holds.
func (n *Network) Unprotected() error {
	if n.watch == nil {
		return nil
	}
	return n.watch.why()
}

// Restored returns how often another program has changed the firewall. It was restored each
// time, or Unprotected says why not.
func (n *Network) Restored() int64 {
	if n.watch == nil { // it could not be protected
		return 0
	}
	return n.watch.restored.Load()
}

// Leave stops restoring the firewall. Its tables stay, and their copies with the holder.
func (n *Network) Leave() error {
	defer n.vacate()
	n.endFollowing()
	var err error
	if n.watch != nil {
		err = n.watch.close()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(err, n.detach())
}

// unhold removes the copies of the tables.
func (n *Network) unhold() error {
	n.mu.Lock()
	err := n.forget()
	n.mu.Unlock()
	return errors.Join(err, endHolders(holders(n.table)))
}

// Release makes the address of a removed instance available.
func (n *Network) Release(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, a)
}

// veth returns the name of the host's end of an instance's veth pair.
func (n *Network) veth(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("%s-%04x", n.name, (uint(b[2])<<8|uint(b[3]))&(1<<(32-subnetBits)-1))
}

// Connect creates a veth pair from the bridge into a process's network namespace, where its
// end becomes eth0 with the address.
func (n *Network) Connect(p local.ProcessID, a netip.Addr) error {
	return inNet(func() error { return n.connect(p, a) })
}

func (n *Network) connect(p local.ProcessID, a netip.Addr) error {
	if err := n.forgetConnections(a); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex, attrs.Flags = n.veth(a), n.bridge, net.FlagUp
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: hardware(a),
		PeerNamespace: netlink.NsPid(p.PID)}
	err := netlink.LinkAdd(veth)
	if errors.Is(err, unix.EEXIST) { // left over by a server that died
		if err := n.Disconnect(a); err != nil {
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
	_, err = Within(p, func() (struct{}, error) { return struct{}{}, n.address(a) })
	return err
}

// address configures eth0. It runs inside the namespace.
func (n *Network) address(a netip.Addr) error {
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
	if err := h.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: n.Gateway().AsSlice()}); err != nil {
		return fmt.Errorf("route of eth0: %w", err)
	}
	return nil
}

// Disconnect removes an instance's veth pair and connections; it is not an error if there are none.
func (n *Network) Disconnect(a netip.Addr) error {
	return inNet(func() error {
		if err := removeLink(n.veth(a)); err != nil {
			return err
		}
		return n.forgetConnections(a)
	})
}

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

// Sweep removes veth pairs without an instance.
func (n *Network) Sweep() error { return inNet(n.sweep) }

func (n *Network) sweep() error {
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

// Remove removes the bridge and the firewall.
func (n *Network) Remove() error { return inNet(n.remove) }

func (n *Network) remove() error {
	return errors.Join(n.unhold(), removeTable(n.table), removeLink(n.name),
		stopForwarding(n.log, forwardingMarker()))
}

// RemoveOrphans removes the networks of engines whose root is gone, that have no instances, and that
// no server uses.
// clear removes what else the engine with that hash had; if it reports false, the network stays.
func RemoveOrphans(log *slog.Logger, clear func(hash string) (bool, error)) error {
	return inNet(func() error { return removeOrphans(log, clear) })
}

func removeOrphans(log *slog.Logger, clear func(hash string) (bool, error)) error {
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
		errs = append(errs, removeOrphan(log, hash, a.Name, clear))
	}
	return errors.Join(errs...)
}

func removeOrphan(log *slog.Logger, hash, bridge string, clear func(hash string) (bool, error)) error {
	conn, err := occupy(hash)
	if errors.Is(err, errOccupied) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	cleared, err := clear(hash)
	if !cleared {
		return err
	}
	name := NamePrefix + hash
	// The bridge comes last, because the rest is found by it.
	return errors.Join(err, endHolders(holders(name)), removeTable(name), removeLink(bridge),
		stopForwarding(log, forwardingMarker()))
}
