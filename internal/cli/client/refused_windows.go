package client

import "golang.org/x/sys/windows"

// errRefused means that nothing listens on a port; syscall.ECONNREFUSED is another number
// here, which the system does not use.
const errRefused = windows.WSAECONNREFUSED
