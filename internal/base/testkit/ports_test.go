//go:build unix

package testkit

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestRefusing(t *testing.T) {
	t.Parallel()
	at := Refusing(t)
	if conn, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connection is %v, error %v, want it refused", conn, err)
	}
	if l, err := net.Listen("tcp", at); err == nil {
		l.Close()
		t.Error("another listener got the port")
	}
}
