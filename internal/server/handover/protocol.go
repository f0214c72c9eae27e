package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/server/sockets"
)

// Protocol is the version of the messages. A server answers a request of another version
// with an error that says so.
const Protocol = 1

// The files of the data directory.
const (
	SocketName  = "handover.sock"
	ForwardName = "forward.sock"
)

// The kinds of messages.
const (
	kindReplace  = "replace"
	kindReload   = "reload"
	kindSockets  = "sockets"
	kindYield    = "yield"
	kindYielded  = "yielded"
	kindReady    = "ready"
	kindReleased = "released"
	kindDone     = "done"
	kindError    = "error"
)

// message is one packet.
type message struct {
	Kind     string   `json:"kind"`
	Protocol int      `json:"protocol,omitempty"`
	Version  string   `json:"version,omitempty"`
	PID      int      `json:"pid,omitempty"`
	Sockets  []passed `json:"sockets,omitempty"`
	// More means that another message of the same kind follows.
	More  bool   `json:"more,omitempty"`
	Error string `json:"error,omitempty"`
}

// passed is a socket whose descriptor is in the packet, too.
type passed struct {
	Name string `json:"name"`
	Unit bool   `json:"unit,omitempty"`
}

const (
	// perMessage is how many descriptors one packet has; Linux allows 253.
	perMessage = 64
	maxMessage = 64 << 10
	// answerTime is for answers that take no work.
	answerTime = 10 * time.Second
	// releaseTime is for the predecessor to stop accepting connections, which it does not undo: if the successor
	// gave up meanwhile, no process would serve. With many connections on a busy machine it took 15 s.
	releaseTime = 5 * time.Minute
)

// Peer is a process at the other end.
type Peer struct {
	Version string
	PID     int
}

func (p Peer) String() string { return fmt.Sprintf("ingot %s (pid %d)", p.Version, p.PID) }

// errGone means that the other process has closed the connection, because it ended.
var errGone = errors.New("the other process is gone")

// conn is a connection of the protocol.
type conn struct{ c *net.UnixConn }

func (c conn) send(m message, fds ...int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_ = c.c.SetWriteDeadline(time.Now().Add(answerTime))
	_, _, err = c.c.WriteMsgUnix(text, rights, nil)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return errGone
	}
	return err
}

// receive waits for a message until the deadline; the zero time means no limit.
func (c conn) receive(deadline time.Time) (m message, fds []int, err error) {
	_ = c.c.SetReadDeadline(deadline)
	text, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*perMessage))
	n, have, _, _, err := c.c.ReadMsgUnix(text, rights)
	switch {
	case errors.Is(err, io.EOF) || err == nil && n == 0 || errors.Is(err, syscall.ECONNRESET):
		return m, nil, errGone
	case err != nil:
		return m, nil, err
	}
	control, err := unix.ParseSocketControlMessage(rights[:have])
	if err != nil {
		return m, nil, err
	}
	for _, one := range control {
		if some, err := unix.ParseUnixRights(&one); err == nil {
			fds = append(fds, some...)
		}
	}
	err = json.Unmarshal(text[:n], &m)
	if err == nil && m.Kind == kindError {
		err = errors.New(m.Error)
	}
	if err != nil {
		closeAll(fds)
		return m, nil, err
	}
	return m, fds, nil
}

// expect receives a message of a kind.
func (c conn) expect(kind string, deadline time.Time) (m message, fds []int, err error) {
	m, fds, err = c.receive(deadline)
	if err == nil && m.Kind != kind {
		closeAll(fds)
		return m, nil, fmt.Errorf("unexpected message %q, want %q", m.Kind, kind)
	}
	return m, fds, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// sendSockets sends and closes sockets.
func (c conn) sendSockets(m message, list []sockets.Socket) error {
	defer func() {
		for _, one := range list {
			one.Close()
		}
	}()
	for rest := list; ; {
		part := rest[:min(perMessage, len(rest))]
		rest = rest[len(part):]
		m.Sockets, m.More = nil, len(rest) > 0
		var fds []int
		for _, one := range part {
			m.Sockets = append(m.Sockets, passed{one.Name, one.Unit})
			fds = append(fds, one.FD)
		}
		if err := c.send(m, fds...); err != nil || !m.More {
			return err
		}
	}
}

func (c conn) receiveSockets() (from Peer, list []sockets.Socket, err error) {
	for {
		m, fds, err := c.expect(kindSockets, time.Now().Add(answerTime))
		if err == nil && len(fds) != len(m.Sockets) {
			closeAll(fds)
			err = fmt.Errorf("got %d descriptors of %d sockets", len(fds), len(m.Sockets))
		}
		if err != nil {
			for _, one := range list {
				one.Close()
			}
			return from, nil, err
		}
		for i, one := range m.Sockets {
			list = append(list, sockets.Socket{Name: one.Name, Unit: one.Unit, FD: fds[i]})
		}
		if !m.More {
			return Peer{m.Version, m.PID}, list, nil
		}
	}
}

// maxPath is the longest path of a Unix socket, with the final zero.
const maxPath = 108

// at calls f with the path of a socket in the directory, or with a shorter name of it if
// that is too long for the address of a socket.
func at(dir, name string, f func(path string) error) error {
	path := filepath.Join(dir, name)
	if len(path) < maxPath {
		return f(path)
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return f("/proc/self/fd/" + strconv.FormatUint(uint64(d.Fd()), 10) + "/" + name)
}

// ListenForward listens on the socket for the requests that a previous process passes on.
// The newest process has the name.
func ListenForward(dir string) (net.Listener, error) { return listen(dir, ForwardName, "unix") }

// listen replaces the socket of an earlier process. The file stays when the listener is
// closed, because it may already belong to the next process.
func listen(dir, name, network string) (l *net.UnixListener, err error) {
	err = at(dir, name, func(path string) error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var err error
		if l, err = net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network}); err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return os.Chmod(path, 0o600)
	})
	if err != nil && l != nil {
		_ = l.Close()
	}
	return l, err
}

// errNone means that no server listens.
var errNone = errors.New("no server runs on this data directory")

func dial(dir string) (conn, error) {
	var c *net.UnixConn
	err := at(dir, SocketName, func(path string) (err error) {
		c, err = net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return conn{}, errNone
	}
	return conn{c}, err
}
