package router

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

const backendBuffer = 8 << 10

// backendConn is a connection of the fast path to a backend.
type backendConn struct {
	net.Conn
	buf      []byte // buf[r:w] has been read but not parsed
	r, w     int
	deadline time.Time // read deadline, as set last
	since    time.Time // start of the idle time
	reused   bool
	// doubtful means that the last response had no body: an app that wrongly sends one
	// later would answer the next request with it.
	doubtful bool

	out []byte          // written by the next fill
	raw syscall.RawConn // nil if the connection has none
	// Results that turn leaves for fill. turn is the method value, created once.
	turn  func(fd uintptr) bool
	asked bool // all of out has been written
	got   int
	err   error
}

func newBackendConn(conn net.Conn) *backendConn {
	b := &backendConn{Conn: conn, buf: make([]byte, backendBuffer)}
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			b.raw, b.turn = raw, b.writeThenRead
		}
	}
	return b
}

// await sets the read deadline to about d from now. A deadline that is close enough stays,
// because setting one for each request is expensive.
func (b *backendConn) await(now time.Time, d time.Duration) {
	if left := b.deadline.Sub(now); left > d/2 && left <= d {
		return
	}
	b.deadline = now.Add(d)
	_ = b.SetReadDeadline(b.deadline)
}

// ask makes the next fill write out before it reads, and discards the buffer.
func (b *backendConn) ask(out []byte) { b.out, b.r, b.w = out, 0, 0 }

// fill reads more into the buffer, which must have room.
func (b *backendConn) fill() error {
	if b.r == b.w {
		b.r, b.w = 0, 0
	}
	if len(b.out) > 0 {
		if done, err := b.exchange(); done || err != nil {
			return err
		}
	}
	n, err := b.Read(b.buf[b.w:])
	b.w += n
	if n > 0 {
		return nil
	}
	return err
}

// exchange writes out. If possible it also reads the response, and done is true then. It
// does not try to read before a response can have arrived, which saves a system call per
// request.
func (b *backendConn) exchange() (done bool, err error) {
	if b.raw != nil {
		b.asked, b.got, b.err = false, 0, nil
		err = b.raw.Read(b.turn)
		b.w += b.got
		if err == nil {
			err = b.err
		}
		switch {
		case b.asked:
			b.out = nil
			return b.got > 0, err
		case err != nil:
			return false, err // the deadline may have passed before a byte was written
		}
		// A partial write.
	}
	out := b.out
	b.out = nil
	_, err = b.Write(out)
	return false, err
}

// writeThenRead is called until it returns true, each time the connection may have become
// readable. The first call ignores what arrived before it, because a backend has nothing to
// send before the request. If the backend closed the connection, the read fails as well; if
// it merely stopped responding, the next read fails at its deadline.
func (b *backendConn) writeThenRead(fd uintptr) bool {
	if !b.asked {
		n, err := again(func() (int, error) { return syscall.Write(int(fd), b.out) })
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return true
		case err != nil:
			b.err = err
			return true
		}
		b.out = b.out[n:]
		b.asked = len(b.out) == 0
		return !b.asked
	}
	n, err := again(func() (int, error) { return syscall.Read(int(fd), b.buf[b.w:]) })
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err != nil:
		b.err = err
	case n == 0:
		b.err = io.EOF
	default:
		b.got = n
	}
	return true
}

// again repeats a system call that was interrupted by a signal.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// alive reports whether the backend has neither closed the connection nor sent unexpected
// bytes.
func (b *backendConn) alive() bool {
	if b.raw == nil {
		return true
	}
	var silent bool
	// Not Read: the read deadline of the last response has passed by now.
	err := b.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && silent
}
