package sockets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Socket is a listening socket on its way from one process to another. The function that
// gets it has to close FD.
type Socket struct {
	Name string
	// Unit means that a .socket unit of systemd opened it, which keeps it open itself.
	Unit bool
	FD   int
}

// Close closes the descriptor.
func (s Socket) Close() { _ = unix.Close(s.FD) }

// A Keeper keeps copies of sockets for the next process: the store of descriptors of
// systemd. It must not close FD.
type Keeper interface {
	Keep(s Socket) error
	Drop(name string) error
}

// Set is the listening sockets of a server. A nil Set inherits nothing and keeps nothing.
type Set struct {
	log *slog.Logger

	mu        sync.Mutex
	inherited []*inherited
	open      map[*held]bool
	keeper    Keeper
	opened    chan struct{} // closed by Open
	isOpen    bool
	kept      bool     // another process keeps the sockets open
	unused    []string // the names of inherited sockets that were closed
}

// inherited is a socket that no listener uses yet.
type inherited struct {
	Socket
	network string // tcp or udp
	at      netip.AddrPort
}

// held is a socket in use.
type held struct {
	name string
	unit bool
	raw  syscall.Conn
}

// New returns the set of a server that inherits sockets, which belong to the set from now
// on. It fails if one is not a listening TCP or a UDP socket.
func New(log *slog.Logger, list ...Socket) (*Set, error) {
	s := &Set{log: log, open: map[*held]bool{}, opened: make(chan struct{}),
		kept: slices.ContainsFunc(list, func(s Socket) bool { return s.Unit })}
	for i, one := range list {
		in, err := inspect(one)
		if err != nil {
			for _, rest := range list[i:] {
				rest.Close()
			}
			s.CloseRest()
			return nil, err
		}
		s.inherited = append(s.inherited, in)
	}
	return s, nil
}

// inspect finds out what a socket listens on.
func inspect(s Socket) (*inherited, error) {
	bad := func(why string) error {
		return fmt.Errorf("the inherited socket %q cannot be used: %s; ingot listens on TCP addresses", s.Name, why)
	}
	kind, err := unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, bad(err.Error())
	}
	in := &inherited{Socket: s, network: "tcp"}
	if kind == unix.SOCK_DGRAM {
		in.network = "udp"
	} else if listening, err := unix.GetsockoptInt(s.FD, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil ||
		listening == 0 {
		return nil, bad("it is not listening")
	}
	name, err := unix.Getsockname(s.FD)
	if err != nil {
		return nil, bad(err.Error())
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		in.at = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)) //nolint:gosec // it is a port
	case *unix.SockaddrInet6:
		in.at = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)) //nolint:gosec // it is a port
	default:
		return nil, bad("it has no IP address")
	}
	return in, nil
}

// Listen returns the inherited listener for a name and address; if none was inherited, it
// calls open. A socket fits if it has the address; for port 0, if it has the name and the
// host.
func (s *Set) Listen(ctx context.Context, name, address string, open func(ctx context.Context, name,
	address string) (net.Listener, error)) (net.Listener, error) {
	if s == nil {
		return open(ctx, name, address)
	}
	l := &listener{set: s, closed: make(chan struct{})}
	l.name = name
	if in := s.take(name, "tcp", address); in != nil {
		var err error
		file := os.NewFile(uintptr(in.FD), name) //nolint:gosec // a descriptor
		l.Listener, err = net.FileListener(file)
		_ = file.Close() // FileListener has a copy
		if err != nil {
			return nil, fmt.Errorf("the inherited socket %q cannot be used: %w", in.Name, err)
		}
		l.gate, l.unit = s.opened, in.Unit
	} else {
		var err error
		if l.Listener, err = open(ctx, name, address); err != nil {
			return nil, err
		}
	}
	raw, ok := l.Listener.(syscall.Conn)
	if !ok {
		return l.Listener, nil
	}
	l.raw = raw
	s.add(&l.held)
	return l, nil
}

// ListenUDP is like Listen for UDP.
func (s *Set) ListenUDP(name string, address netip.AddrPort) (*net.UDPConn, error) {
	in := (*inherited)(nil)
	if s != nil {
		in = s.take(name, "udp", address.String())
	}
	if in == nil {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
		if err == nil && s != nil {
			s.add(&held{name: name, raw: conn})
		}
		return conn, err
	}
	file := os.NewFile(uintptr(in.FD), name) //nolint:gosec // a descriptor
	conn, err := net.FilePacketConn(file)
	_ = file.Close() // FilePacketConn has a copy
	if err != nil {
		return nil, fmt.Errorf("the inherited socket %q cannot be used: %w", in.Name, err)
	}
	udp := conn.(*net.UDPConn) //nolint:forcetypeassert // inspect has checked it
	s.add(&held{name: name, unit: in.Unit, raw: udp})
	return udp, nil
}

// take removes the inherited socket that fits.
func (s *Set) take(name, network, address string) *inherited {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := -1
	for i, in := range s.inherited {
		if in.network != network || !sameHost(host, in.at.Addr()) {
			continue
		}
		named := in.Name == name
		if port == 0 && named || port == uint64(in.at.Port()) && (named || found < 0) {
			found = i
		}
	}
	if found < 0 {
		return nil
	}
	in := s.inherited[found]
	s.inherited = slices.Delete(s.inherited, found, found+1)
	return in
}

// sameHost reports whether the host of an address to listen on stands for at.
func sameHost(host string, at netip.Addr) bool {
	if host == "" {
		return at.IsUnspecified()
	}
	resolved, err := net.ResolveIPAddr("ip", host)
	if err != nil {
		return false
	}
	ip, ok := netip.AddrFromSlice(resolved.IP)
	ip, at = ip.Unmap(), at.Unmap()
	// For 0.0.0.0 Go opens a socket of both families, whose address is ::.
	return ok && (ip == at || ip.IsUnspecified() && at.IsUnspecified())
}

func (s *Set) add(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[h] = true
	s.keep(h)
}

func (s *Set) remove(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, h)
	if s.keeper != nil && !h.unit {
		if err := s.keeper.Drop(h.name); err != nil {
			s.log.Warn("a socket that was closed is still kept for the next start", "socket", h.name, "error", err)
		}
	}
}

// keep gives a copy to the keeper.
func (s *Set) keep(h *held) {
	if s.keeper == nil || h.unit {
		return
	}
	one, err := h.socket()
	if err == nil {
		err = s.keeper.Keep(one)
		one.Close()
	}
	if err != nil {
		s.log.Warn("a socket is not kept for the next start, so connections are refused during a restart", "socket", h.name,
			"error", err)
	}
}

// socket returns a copy of the socket.
func (h *held) socket() (Socket, error) {
	raw, err := h.raw.SyscallConn()
	if err != nil {
		return Socket{}, err
	}
	// Without os.File, which would set the socket to blocking mode for all processes.
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(from uintptr) { fd, dupErr = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 3) })
	if err == nil {
		err = dupErr
	}
	return Socket{Name: h.name, Unit: h.unit, FD: fd}, err
}

// Sockets returns copies of all sockets in use, for the next process.
func (s *Set) Sockets() ([]Socket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Socket, 0, len(s.open))
	for h := range s.open {
		one, err := h.socket()
		if errors.Is(err, net.ErrClosed) {
			delete(s.open, h) // of UDP
			continue
		}
		if err != nil {
			for _, done := range list {
				done.Close()
			}
			return nil, fmt.Errorf("copy the socket %q: %w", h.name, err)
		}
		list = append(list, one)
	}
	return list, nil
}

// Open lets inherited listeners accept connections, and closes the sockets that no listener
// uses, because their clients would wait without an answer.
func (s *Set) Open() {
	s.mu.Lock()
	if !s.isOpen {
		s.isOpen = true
		close(s.opened)
	}
	s.mu.Unlock()
	s.CloseRest()
}

// KeepWith gives copies of all sockets, also of those opened later, to a keeper; nil ends
// that, and the keeper keeps what it has.
func (s *Set) KeepWith(k Keeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper = k
	if k == nil {
		return
	}
	s.kept = true
	for _, name := range s.unused {
		if err := k.Drop(name); err != nil {
			s.log.Warn("a socket that is not used is still kept for the next start", "socket", name, "error", err)
		}
	}
	s.unused = nil
	for h := range s.open {
		s.keep(h)
	}
}

// Kept reports whether connections wait for the next process when this one exits.
func (s *Set) Kept() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// CloseRest closes the inherited sockets that no listener uses.
func (s *Set) CloseRest() {
	s.mu.Lock()
	rest := s.inherited
	s.inherited = nil
	for _, in := range rest {
		if !in.Unit {
			s.unused = append(s.unused, in.Name)
		}
	}
	s.mu.Unlock()
	for _, in := range rest {
		in.Close()
		if in.Unit {
			s.log.Warn("systemd passed a socket that no flag names, and it was closed: correct ingot.socket or the flag",
				"socket", in.Name, "address", in.at.String())
		}
	}
}

// listener is a listener of a set.
type listener struct {
	net.Listener
	held
	set    *Set
	gate   <-chan struct{} // nil if it may accept at once
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	if l.gate != nil {
		select {
		case <-l.gate:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	return l.Listener.Accept()
}

// Close closes the listener in this process.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.set.remove(&l.held)
	})
	return l.Listener.Close()
}
