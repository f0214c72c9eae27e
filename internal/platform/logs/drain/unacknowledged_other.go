//go:build !linux

package drain

import "net"

// unacknowledged is not known here; that nobody saw the connection end has to do.
func unacknowledged(*net.TCPConn) (n int64, alive bool) { return 0, true }
