package drain

import (
	"net"

	"golang.org/x/sys/unix"
)

// established is the state of a connection that neither side has closed.
const established = 1

// unacknowledged returns how many bytes the peer has not acknowledged, and whether the
// connection is open: the kernel knows that before a read does.
func unacknowledged(c *net.TCPConn) (n int64, alive bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		queued, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		if err != nil {
			return
		}
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		n, alive = int64(queued), err == nil && info.State == established
	})
	return n, alive
}
