//go:build !linux

package drain

import "net"

// unacknowledged is not known on this system; the end of the connection is noticed by
// reading.
func unacknowledged(*net.TCPConn) (n int64, alive bool) { return 0, true }
