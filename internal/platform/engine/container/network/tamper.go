//go:build linux

package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/rootless"
)

// rulesWatch restores the firewall when another program removes or changes a part of it. The
// kernel reports every change of any table, and who made it.
type rulesWatch struct {
	net      *Network
	conn     *netlink.Conn
	work     background.WaitGroup
	closed   atomic.Bool
	restored atomic.Int64
	exposed  atomic.Pointer[error] // why the firewall could not be restored
	tried    time.Time             // when it was restored last
	warned   map[string]bool       // of chains of other firewalls
}

const (
	// restoreInterval is how often a firewall is written again that could not be restored.
	restoreInterval = time.Second
	watchBuffer     = 16 << 20
)

// watchRules begins to restore the firewall, which is written afterwards.
func watchRules(n *Network) (*rulesWatch, error) {
	conn, err := rootless.InNet(func() (*netlink.Conn, error) { return netlink.Dial(unix.NETLINK_NETFILTER, nil) })
	if err != nil {
		return nil, err
	}
	if err := errors.Join(conn.SetReadBuffer(watchBuffer), conn.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		return nil, errors.Join(fmt.Errorf("notifications of the firewall: %w", err), conn.Close())
	}
	return &rulesWatch{net: n, conn: conn, warned: map[string]bool{}}, nil
}

// start restores from now on.
func (w *rulesWatch) start() {
	w.warnOfOthers()
	w.work.Loop(context.Background(), "engine firewall", w.run) // until close
}

func (w *rulesWatch) close() error {
	w.closed.Store(true)
	err := w.conn.Close()
	w.work.Wait()
	return err
}

// why returns why instances are exposed; nil if they are not.
func (w *rulesWatch) why() error {
	if err := w.exposed.Load(); err != nil {
		return *err
	}
	return nil
}

// transaction is what another program has changed in one step.
type transaction struct {
	ours  bool // a part of our tables
	drops bool // a chain that drops what it does not accept
	by    string
}

func (w *rulesWatch) run() {
	var t transaction
	for {
		w.setDeadline()
		messages, err := w.conn.Receive()
		switch {
		case w.closed.Load():
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			if _, err := w.restore(); err == nil {
				w.net.log.Info("the firewall of the instances is restored; instances start again", "table", w.net.table)
			}
			continue
		case errors.Is(err, unix.ENOBUFS):
			w.check() // some notifications are lost
			continue
		case err != nil:
			w.net.log.Warn("reading notifications of the firewall failed", "err", err)
			time.Sleep(restoreInterval)
			continue
		}
		for _, m := range messages {
			if t.add(m, w.net) {
				w.finish(t)
				t = transaction{}
			}
		}
	}
}

// setDeadline sees that a firewall that could not be restored is written again.
func (w *rulesWatch) setDeadline() {
	var at time.Time // never
	if w.why() != nil {
		at = w.tried.Add(restoreInterval)
	}
	_ = w.conn.SetReadDeadline(at) // fails when it is closed, and then reading does
}

// add adds a notification; last reports whether it ends the transaction.
func (t *transaction) add(m netlink.Message, n *Network) (last bool) {
	if int(m.Header.Type)>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 || m.Header.PID == n.port.Load() {
		return false
	}
	attributes, err := netlink.UnmarshalAttributes(m.Data[4:])
	if err != nil {
		return false
	}
	kind := int(m.Header.Type) & 0xff
	if kind == unix.NFT_MSG_NEWGEN {
		t.by = author(attributes)
		return true
	}
	const tableName = 1 // of all kinds
	for _, a := range attributes {
		switch {
		case a.Type == tableName:
			t.ours = t.ours || string(bytes.TrimRight(a.Data, "\x00")) == n.table
		case a.Type == unix.NFTA_CHAIN_POLICY && kind == unix.NFT_MSG_NEWCHAIN:
			t.drops = t.drops || binary.BigEndian.Uint32(append(a.Data, 0, 0, 0, 0)) == uint32(nftables.ChainPolicyDrop)
		}
	}
	return false
}

// author returns the name and the id of the process that made a change.
func author(attributes []netlink.Attribute) string {
	var name string
	var id uint32
	for _, a := range attributes {
		switch {
		case a.Type == unix.NFTA_GEN_PROC_NAME:
			name = string(bytes.TrimRight(a.Data, "\x00"))
		case a.Type == unix.NFTA_GEN_PROC_PID && len(a.Data) == 4:
			id = binary.BigEndian.Uint32(a.Data)
		}
	}
	return fmt.Sprintf("%s (process %d)", name, id)
}

func (w *rulesWatch) finish(t transaction) {
	if t.ours {
		w.restored.Add(1)
		seen := time.Now()
		held, err := w.restore()
		log := w.net.log.With("by", t.by, "table", w.net.table, "after", time.Since(seen))
		switch {
		case err != nil:
			log.Error("another program changed the firewall of the instances, and it cannot be restored: no instance starts "+
				"until it is", "copy", held, "err", err)
		case held:
			log.Warn("another program changed the firewall of the instances: restored; its copy held meanwhile")
		default:
			log.Error("another program changed the firewall of the instances: restored; until then they could reach this " +
				"machine and each other")
		}
	}
	if t.ours || t.drops {
		w.warnOfOthers()
	}
}

// restore writes the firewall; held reports whether its copy was in force meanwhile.
func (w *rulesWatch) restore() (held bool, err error) {
	n := w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	held, w.tried = len(n.copies) > 0, time.Now()
	if err = n.writeFirewall(); err != nil {
		why := fmt.Errorf("another program changed the firewall of the instances, and it cannot be restored: %w", err)
		w.exposed.Store(&why)
		return held, err
	}
	w.exposed.Store(nil)
	return held, nil
}

// check restores the firewall, and counts it if something was missing.
func (w *rulesWatch) check() {
	before, err := w.summary()
	if err == nil {
		_, err = w.restore()
	}
	after, errAfter := w.summary()
	switch err = errors.Join(err, errAfter); {
	case err != nil:
		w.net.log.Error("the firewall of the instances cannot be checked", "err", err)
	case !slices.Equal(before, after):
		w.restored.Add(1)
		w.net.log.Warn("another program changed the firewall of the instances: restored; which one is not known, because "+
			"there were too many changes", "table", w.net.table)
	}
	w.warnOfOthers()
}

func (w *rulesWatch) summary() ([]string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	return w.net.summary()
}

// warnOfOthers tells of firewalls that drop what they do not know, as those of Docker, ufw and
// firewalld: what this one accepts may then not arrive.
func (w *rulesWatch) warnOfOthers() {
	n := w.net
	n.mu.Lock()
	list, err := n.dropping()
	n.mu.Unlock()
	if err != nil {
		w.net.log.Debug("other firewalls cannot be listed", "err", err)
		return
	}
	list = slices.DeleteFunc(list, func(chain string) bool { return w.warned[chain] })
	if len(list) > 0 {
		w.net.log.Warn("another firewall drops what it does not accept: it may cut instances off from services, other apps "+
			"and the network; see docs/networking.md",
			"chains", strings.Join(list, ", "), "bridge", n.name)
	}
	for _, chain := range list {
		w.warned[chain] = true
	}
}

// dropping returns the chains of other tables that drop packets which none of their rules
// accepts.
func (n *Network) dropping() ([]string, error) {
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
		if c.Hooknum == nil || c.Policy == nil || *c.Policy != nftables.ChainPolicyDrop ||
			strings.HasPrefix(c.Table.Name, NamePrefix) {
			continue
		}
		family := map[nftables.TableFamily]string{nftables.TableFamilyIPv4: "ip",
			nftables.TableFamilyINet: "inet"}[c.Table.Family]
		if family != "" && (*c.Hooknum == *nftables.ChainHookForward || *c.Hooknum == *nftables.ChainHookInput) {
			list = append(list, fmt.Sprintf("%s %s %s", family, c.Table.Name, c.Name))
		}
	}
	slices.Sort(list)
	return list, nil
}
