//go:build !unix

package router

import "net"

// source reads from a connection.
type source struct {
	conn   *net.TCPConn
	buffer *[streamBuffer]byte
}

func newSource(c *net.TCPConn) (*source, error) {
	return &source{c, streamBuffers.Get().(*[streamBuffer]byte)}, nil //nolint:forcetypeassert // the pool has no others
}

// next waits for data and returns it; it is valid until the next call.
func (s *source) next() ([]byte, error) {
	n, err := s.conn.Read(s.buffer[:])
	if n > 0 {
		return s.buffer[:n], nil
	}
	return nil, err
}

func (s *source) release() { streamBuffers.Put(s.buffer) }
