package router

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

const backendBuffer = 8 << 10

// backendConn is a connection of an express lane to a backend.
type backendConn struct {
	net.Conn
	buf      []byte // buf[r:w] has been read and not been looked at
	r, w     int
	deadline time.Time // of reads, as it was set last
	since    time.Time // idle since then
	reused   bool
	// doubtful is one whose last answer had no body: an app that sends one
	// nevertheless, later, would answer the next request with it.
	doubtful bool

	out []byte          // to be written by the next fill
	raw syscall.RawConn // nil when it has none
	// What turn says to fill. turn is the method, made once.
	turn  func(fd uintptr) bool
	asked bool // all of out is written
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

// await sets the deadline of reads to about d from now. A deadline that is near
// enough stays: setting one for each request costs more than it is worth.
func (b *backendConn) await(now time.Time, d time.Duration) {
	if left := b.deadline.Sub(now); left > d/2 && left <= d {
		return
	}
	b.deadline = now.Add(d)
	_ = b.SetReadDeadline(b.deadline)
}

// ask has the next fill write out before it reads. Nothing that was read before
// is of interest any more.
func (b *backendConn) ask(out []byte) { b.out, b.r, b.w = out, 0, 0 }

// fill reads more into the buffer, which has to have room.
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

// exchange writes out. If it can it also reads, and then it is done: no attempt
// is made to read before there can be an answer, which spares a system call of
// every request.
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
		// Not all of it went out at once.
	}
	out := b.out
	b.out = nil
	_, err = b.Write(out)
	return false, err
}

// writeThenRead is called until it returns true, each time when the connection
// may have become readable. What came before the first call does not count for
// that: there is nothing that a backend might say unasked. If it hung up, it
// will say so again to the question; if it only does not speak any more, the
// next read finds out, after the deadline of this one.
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

// again repeats a system call that a signal interrupted.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// alive tells whether the backend has neither closed the connection nor said
// something that nobody asked for.
func (b *backendConn) alive() bool {
	if b.raw == nil {
		return true
	}
	var silent bool
	// Not Read: the deadline of the last answer has passed after a pause.
	err := b.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && silent
}
