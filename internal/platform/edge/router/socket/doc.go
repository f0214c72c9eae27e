// Package socket does with TCP sockets what package net has no way to: it reads from a connection
// without a buffer for those that wait, and knows how much a client has accepted.
//
// The package must not import the router, and knows nothing of routes and requests.
//
// Imports: golang.org/x/sys/unix.
package socket

import "sync"

// bufferSize is how much is read at once.
const bufferSize = 64 << 10

// buffers are the buffers of connections that have something to copy; one that waits
// has none.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
