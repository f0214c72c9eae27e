package sshd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ErrClosed means that the server accepts no clients: it has not started yet, or it stops.
var ErrClosed = errors.New("the ssh gateway accepts no connections now")

// Connect returns a connection to the server for a client in this process, such as the
// console. The client logs in like any other; remote is the address it acts for.
func (s *Server) Connect(remote net.Addr) (net.Conn, error) {
	join := s.join.Load()
	if join == nil {
		return nil, ErrClosed
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	if !(*join)(remoteConn{ours, remote}) {
		_ = ours.Close()
		_ = theirs.Close()
		return nil, ErrClosed
	}
	return theirs, nil
}

// remoteConn is a connection on behalf of an address.
type remoteConn struct {
	net.Conn
	remote net.Addr
}

func (c remoteConn) RemoteAddr() net.Addr { return c.remote }

// socketPair returns both ends of a connection. Unlike those of net.Pipe they buffer: in the
// ssh protocol both sides write first.
func socketPair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the ssh gateway: %w", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "ssh")
		var failed error
		if ends[i], failed = net.FileConn(file); failed != nil {
			err = fmt.Errorf("connect to the ssh gateway: %w", failed)
		}
		_ = file.Close() // FileConn has a copy
	}
	if err != nil {
		for _, end := range ends {
			if end != nil {
				_ = end.Close()
			}
		}
	}
	return ends[0], ends[1], err
}

// admit serves a client unless there are too many, or the server stops.
func (s *Server) admit(ctx context.Context, conn net.Conn) bool {
	arrival := s.arriving.take(addressKey(conn.RemoteAddr()), s.limits.Handshakes, max(s.limits.Handshakes/4, 1),
		func() { conn.Close() })
	if arrival == nil {
		s.c.Log.Warn("too many ssh handshakes at once: client refused", "remote", conn.RemoteAddr().String())
		return false
	}
	s.joining.Lock()
	defer s.joining.Unlock()
	if s.retired.Load() || ctx.Err() != nil {
		arrival.release()
		return false
	}
	s.clients.Go("ssh connection", func() { s.serve(ctx, conn, arrival) })
	return true
}

// awaitJoining waits until the client that joins now is counted.
func (s *Server) awaitJoining() {
	s.joining.Lock()
	s.joining.Unlock() //nolint:staticcheck,gocritic // nothing is to be done while it is held
}
