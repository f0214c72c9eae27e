//go:build unix

package testkit

import (
	"net/netip"
	"syscall"
	"testing"
)

// Refusing returns an address on this machine that refuses connections until the
// end of the test. Its port is bound, so that no other process listens on it.
func Refusing(t testing.TB) string {
	t.Helper()
	return bound(t, 0).String()
}

// FreePort returns a port of 127.0.0.1 on which a program can listen until the end of the
// test, as often as it likes. While it does not, connections are refused, and no program that
// asks for any port gets this one. The program has to set SO_REUSEADDR, as nearly all do.
func FreePort(t testing.TB) int {
	t.Helper()
	return int(bound(t, 1).Port())
}

// bound returns an address that is bound until the end of the test, and not listened on.
func bound(t testing.TB, reuse int) netip.AddrPort {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(socket)
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, reuse); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	at := name.(*syscall.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port))
}
