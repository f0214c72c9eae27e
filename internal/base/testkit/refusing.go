package testkit

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
)

// RefusingAddress returns a loopback address, host:port, that refuses connections until the
// test ends. Its port is taken, so that no other program listens there meanwhile, as can
// happen with the port of a listener that was closed.
func RefusingAddress(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: netip.MustParseAddr("127.0.0.1").As4()}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("bound to %T, want an IPv4 address", bound)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
}
