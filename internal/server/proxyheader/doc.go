// Package proxyheader reads the header of the PROXY protocol, versions 1 and 2, with
// which a load balancer that forwards connections names the client.
//
// Only connections from listed addresses begin with a header. Others are passed on
// with all their bytes, so that a client cannot name an address itself. The header is
// read before a connection is accepted, with a timeout, and exactly up to its end: the
// connection stays a TCP connection, whose other methods, such as those for the fast
// path of the router, work as before.
//
// It must not import packages of services.
//
// Imports: base/background, base/connlimit, github.com/pires/go-proxyproto,
// golang.org/x/sys/unix.
package proxyheader
