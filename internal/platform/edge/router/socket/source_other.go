//go:build !unix

package socket

import "net"

// Source reads from a connection.
type Source struct {
	conn   *net.TCPConn
	buffer *[bufferSize]byte
}

// NewSource reads from c.
func NewSource(c *net.TCPConn) (*Source, error) {
	return &Source{c, buffers.Get().(*[bufferSize]byte)}, nil //nolint:forcetypeassert // the pool has no others
}

// Next waits for data and returns it; it is valid until the next call.
func (s *Source) Next() ([]byte, error) {
	n, err := s.conn.Read(s.buffer[:])
	if n > 0 {
		return s.buffer[:n], nil
	}
	return nil, err
}

// Release gives the buffer back.
func (s *Source) Release() { buffers.Put(s.buffer) }
