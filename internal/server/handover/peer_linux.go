package handover

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerUser returns the user of the process at the other end.
func peerUser(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var problem error
	err = raw.Control(func(fd uintptr) {
		credentials, problem = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:gosec // a descriptor
	})
	if err = errors.Join(err, problem); err != nil {
		return 0, fmt.Errorf("the user of the other process is not known: %w", err)
	}
	return int(credentials.Uid), nil
}
