//go:build unix

package socket

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Source reads from a connection. It holds a buffer only while there is something to copy,
// so that an idle connection costs little.
type Source struct {
	raw    syscall.RawConn
	buffer *[bufferSize]byte
	n      int
	err    error
	read   func(fd uintptr) bool
}

// NewSource reads from c.
func NewSource(c *net.TCPConn) (*Source, error) {
	raw, err := c.SyscallConn()
	s := &Source{raw: raw}
	s.read = s.readNow
	return s, err
}

// Next waits for data and returns it; it is valid until the next call.
func (s *Source) Next() ([]byte, error) {
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
func (s *Source) readNow(fd uintptr) bool {
	if s.buffer == nil {
		s.buffer = buffers.Get().(*[bufferSize]byte) //nolint:forcetypeassert // the pool has no others
	}
	for {
		s.n, s.err = unix.Read(int(fd), s.buffer[:]) //nolint:gosec // a file descriptor
		if !errors.Is(s.err, unix.EINTR) {
			break
		}
	}
	if errors.Is(s.err, unix.EAGAIN) {
		s.Release()
		return false
	}
	return true
}

// Release gives the buffer back.
func (s *Source) Release() {
	if s.buffer != nil {
		buffers.Put(s.buffer)
		s.buffer = nil
	}
}
