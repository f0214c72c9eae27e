//go:build unix

package router

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// source reads from a connection. It holds a buffer only while there is something to copy,
// so that an idle connection costs little.
type source struct {
	raw    syscall.RawConn
	buffer *[streamBuffer]byte
	n      int
	err    error
	read   func(fd uintptr) bool
}

func newSource(c *net.TCPConn) (*source, error) {
	raw, err := c.SyscallConn()
	s := &source{raw: raw}
	s.read = s.readNow
	return s, err
}

// next waits for data and returns it; it is valid until the next call.
func (s *source) next() ([]byte, error) {
	if err := s.raw.Read(s.read); err != nil {
		return nil, err
	}
	switch {
	case s.err != nil:
		return nil, s.err
	case s.n == 0:
		return nil, io.EOF
	}
	return s.buffer[:s.n], nil
}

// readNow reads the available bytes, and reports whether there was something or the end.
func (s *source) readNow(fd uintptr) bool {
	if s.buffer == nil {
		s.buffer = streamBuffers.Get().(*[streamBuffer]byte) //nolint:forcetypeassert // the pool has no others
	}
	for {
		s.n, s.err = unix.Read(int(fd), s.buffer[:]) //nolint:gosec // a file descriptor
		if !errors.Is(s.err, unix.EINTR) {
			break
		}
	}
	if errors.Is(s.err, unix.EAGAIN) {
		s.release()
		return false
	}
	return true
}

func (s *source) release() {
	if s.buffer != nil {
		streamBuffers.Put(s.buffer)
		s.buffer = nil
	}
}
