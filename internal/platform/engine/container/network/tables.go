//go:build linux

package network

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/rootless"
)

// Each table exists twice: once as any other, which stays when no process of the engine runs,
// and once as a copy that belongs to a socket of the engine. A packet must pass both. Other
// programs can remove the first, for example with nft flush ruleset, which is the first line of
// Debian's nftables.conf; not the copy, which the kernel removes when the socket is closed. See
// decision 47.

// tableOwner is the flag of a table that only the socket can change that has created it, since
// Linux 5.12.
const tableOwner = 2

// kernel is a connection to the firewall of the kernel.
type kernel struct {
	*nftables.Conn
	raw  *netlink.Conn
	port uint32 // of the socket
}

func dialKernel() (*kernel, error) { return rootless.InNet(dialHere) }

func dialHere() (*kernel, error) {
	k := &kernel{}
	var err error
	k.Conn, err = nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		k.raw = c
		return errors.Join(c.SetReadBuffer(socketBuffer), c.SetWriteBuffer(socketBuffer))
	}))
	if err != nil {
		return nil, err
	}
	err = k.control(func(fd int) error {
		address, err := unix.Getsockname(fd)
		if own, ok := address.(*unix.SockaddrNetlink); ok {
			k.port = own.Pid
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, k.CloseLasting())
	}
	return k, nil
}

func (k *kernel) control(f func(fd int) error) error {
	socket, err := k.raw.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = socket.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// flush sends a transaction. After an error there may be answers left, which must not be taken
// for those to the next one.
func (k *kernel) flush() error {
	err := k.Flush()
	if err == nil {
		return nil
	}
	return errors.Join(err, k.control(func(fd int) error {
		buffer := make([]byte, 1<<16)
		for {
			if _, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return nil //nolint:nilerr // nothing is left
			}
		}
	}))
}

// createOwned creates an empty table that belongs to this connection. The library has no way
// to.
func (k *kernel) createOwned(t *nftables.Table) error {
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(t.Name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binaryutil.BigEndian.PutUint32(tableOwner)},
	})
	if err != nil {
		return err
	}
	message := func(kind int, flags netlink.HeaderFlags, family byte, resource uint16, data []byte) netlink.Message {
		header := append([]byte{family, unix.NFNETLINK_V0}, binaryutil.BigEndian.PutUint16(resource)...)
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), //nolint:gosec // of the kernel
			Flags: netlink.Request | flags}, Data: append(header, data...)}
	}
	_, err = k.raw.SendMessages([]netlink.Message{
		message(unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
		message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, netlink.Acknowledge|netlink.Create|netlink.Excl,
			byte(t.Family), 0, attributes),
		message(unix.NFNL_MSG_BATCH_END, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil),
	})
	if err == nil {
		_, err = k.raw.Receive()
	}
	return err
}

// connection returns the connection that owns the copies.
func (n *Network) connection() (*kernel, error) {
	if n.kernel != nil {
		return n.kernel, nil
	}
	k, err := dialKernel()
	if err != nil {
		return nil, err
	}
	n.kernel, n.copies = k, map[nftables.TableFamily]*nftables.Table{}
	n.port.Store(k.port)
	n.hold(k)
	return k, nil
}

// forget removes the copies and closes the connection.
func (n *Network) forget() error {
	if n.kernel == nil {
		return nil
	}
	for _, t := range n.copies {
		n.kernel.DelTable(t)
	}
	return errors.Join(n.kernel.flush(), n.detach())
}

// detach closes the connection. The copies stay as long as a holder runs.
func (n *Network) detach() error {
	if n.kernel == nil {
		return nil
	}
	k := n.kernel
	n.kernel, n.copies = nil, nil
	return k.CloseLasting()
}

// newCopy creates an empty copy of a table; nil if the kernel cannot.
func (n *Network) newCopy(k *kernel, family nftables.TableFamily) (*nftables.Table, error) {
	if n.uncopied {
		return nil, nil //nolint:nilnil // none
	}
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // never fails
	t := &nftables.Table{Family: family, Name: n.table + copySuffix + hex.EncodeToString(suffix)}
	err := k.createOwned(t)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) && family != nftables.TableFamilyBridge {
		n.uncopied = true
		return nil, nil //nolint:nilnil // an older kernel
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// copySuffix is in the names of copies.
const copySuffix = "-held-"

// tables returns the table of a family and its copy.
func (n *Network) tables(family nftables.TableFamily) []*nftables.Table {
	list := []*nftables.Table{{Family: family, Name: n.table}}
	if t := n.copies[family]; t != nil {
		list = append(list, t)
	}
	return list
}

// isCopy reports whether a table is a copy.
func (n *Network) isCopy(t *nftables.Table) bool { return t.Name != n.table }

// replace replaces a table and its copy in one step.
func (n *Network) replace(family nftables.TableFamily, fill func(*tableWriter)) error {
	k, err := n.connection()
	if err != nil {
		return err
	}
	next, err := n.newCopy(k, family)
	if err != nil {
		return err
	}
	t := &nftables.Table{Family: family, Name: n.table}
	// Adding an existing table does nothing, so that deleting never fails.
	k.AddTable(t)
	k.DelTable(t)
	k.AddTable(t)
	if before := n.copies[family]; before != nil {
		k.DelTable(before)
	}
	for _, t := range slices.DeleteFunc([]*nftables.Table{t, next}, func(t *nftables.Table) bool { return t == nil }) {
		w := &tableWriter{Conn: k.Conn, table: t, Network: n}
		fill(w)
		if w.err != nil {
			// What was prepared cannot be taken back.
			return errors.Join(w.err, n.forget())
		}
	}
	if err := k.flush(); err != nil {
		if next != nil {
			k.DelTable(next)
			err = errors.Join(err, k.flush())
		}
		return err
	}
	delete(n.copies, family)
	if next != nil {
		n.copies[family] = next
	}
	return nil
}

// summary describes what the kernel has of the tables that other programs can change: the
// number of rules in each chain.
func (n *Network) summary() ([]string, error) {
	k, err := n.connection()
	if err != nil {
		return nil, err
	}
	chains, err := k.ListChains()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, c := range chains {
		if c.Table.Name != n.table {
			continue
		}
		rules, err := k.GetRules(c.Table, c)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprint(c.Table.Family, c.Name, len(rules)))
	}
	slices.Sort(list)
	return list, nil
}
