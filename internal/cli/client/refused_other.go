//go:build !windows

package client

import "syscall"

// errRefused means that nothing listens on a port.
const errRefused = syscall.ECONNREFUSED
