//go:build !unix

package proxyheader

import (
	"errors"
	"net"
)

// peek is not possible here.
func peek(*net.TCPConn, []byte, func([]byte) (bool, error)) error {
	return errors.New("PROXY headers cannot be read on this system")
}
