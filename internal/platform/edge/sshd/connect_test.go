package sshd_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"ingot/internal/platform/edge/sshd"
)

// TestConnect logs in from the same process, for another address.
func TestConnect(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	w := setup(t, func(c *sshd.Config) {
		c.Hooks.Authorized = func(_ context.Context, a sshd.Access) { seen <- a.Remote.String() }
	})
	remote := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:4711"))
	login := func(code string) (*ssh.Client, error) {
		conn, err := w.server.Connect(remote)
		if err != nil {
			t.Fatal(err)
		}
		c, channels, requests, err := ssh.NewClientConn(conn, "gateway", &ssh.ClientConfig{
			User: theName, Auth: []ssh.AuthMethod{ssh.Password(code)},
			HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
				if got := strings.TrimPrefix(ssh.FingerprintSHA256(key), "SHA256:"); got != w.server.Fingerprint() {
					t.Errorf("the host key is %s", got)
				}
				return nil
			},
		})
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		return ssh.NewClient(c, channels, requests), nil
	}
	if _, err := login("a guess"); err == nil {
		t.Error("a wrong code is accepted")
	}
	client, err := login(theCode)
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := session.Output("echo hello")
	if err != nil || string(out) != "hello\n" {
		t.Errorf("%q, %v", out, err)
	}
	if address := <-seen; address != "192.0.2.7:4711" {
		t.Errorf("the login is recorded for %s", address)
	}
	w.server.Stop()
	_ = client.Wait()
	if _, err := w.server.Connect(remote); !errors.Is(err, sshd.ErrClosed) {
		t.Errorf("after the stop: %v", err)
	}
}
