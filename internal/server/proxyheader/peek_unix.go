//go:build unix

package proxyheader

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// peek calls enough with the bytes that have arrived, whenever there are more, until
// it returns true or an error. The bytes stay unread.
func peek(c *net.TCPConn, buffer []byte, enough func([]byte) (bool, error)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	failed := raw.Read(func(fd uintptr) bool {
		for {
			n, _, err := unix.Recvfrom(int(fd), buffer, unix.MSG_PEEK) //nolint:gosec // a file descriptor
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return false
			case err != nil:
				result = err
				return true
			case n == 0:
				result = io.ErrUnexpectedEOF
				return true
			}
			done, err := enough(buffer[:n])
			result = err
			// The poller reports when more arrives.
			return done || err != nil
		}
	})
	if failed != nil {
		return failed
	}
	return result
}
