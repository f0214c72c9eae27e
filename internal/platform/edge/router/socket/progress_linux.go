package socket

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Progress returns how many bytes the peer has acknowledged, and whether more are waiting
// for it.
func Progress(c net.Conn) (acked uint64, waits bool) {
	conn, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var info *unix.TCPInfo
	if failed := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP,
			unix.TCP_INFO)
	}); failed != nil || err != nil {
		return 0, false
	}
	return info.Bytes_acked, info.Unacked > 0 || info.Notsent_bytes > 0
}
