package sshd_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/testkit"
)

// serveTCP accepts connections until the test ends.
func serveTCP(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().String()
}

func echoServer(t *testing.T) string {
	t.Helper()
	return serveTCP(t, func(c *net.TCPConn) {
		_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
		_ = c.CloseWrite()
	})
}

func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
}

// TestForwardHalfClose sees both directions end on their own.
func TestForwardHalfClose(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	const size = 3 << 20

	// The client ends first and still gets an answer, which depends on the end.
	address := serveTCP(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(c)
		_, _ = c.Write(bytes.ToUpper(b))
	})
	conn, err := c.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(conn, strings.Repeat("x", size))
		closeWrite(t, conn)
	}()
	if b, err := io.ReadAll(conn); err != nil || len(b) != size || b[0] != 'X' {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	conn.Close()

	// The server ends first and still listens.
	heard := make(chan string, 1)
	address = serveTCP(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "hello")
		_ = c.CloseWrite()
		b, _ := io.ReadAll(c)
		heard <- string(b)
	})
	if conn, err = c.Dial("tcp", address); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); err != nil || string(b) != "hello" {
		t.Errorf("read %q, %v, want hello", b, err)
	}
	if _, err := io.WriteString(conn, "and good bye"); err != nil {
		t.Error(err)
	}
	closeWrite(t, conn)
	if got := <-heard; got != "and good bye" {
		t.Errorf("the server heard %q", got)
	}
	conn.Close()

	// Either side may also just leave.
	left := make(chan struct{})
	address = serveTCP(t, func(c *net.TCPConn) {
		_, _ = io.Copy(io.Discard, c)
		close(left)
	})
	if conn, err = c.Dial("tcp", address); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	<-left
	address = serveTCP(t, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.SetLinger(0)
	})
	if conn, err = c.Dial("tcp", address); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "xyz"); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(conn); len(b) != 0 {
		t.Errorf("%q from a connection that was reset", b)
	}
	conn.Close()
}

func TestForwardRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	closed := testkit.Refusing(t)
	var open *ssh.OpenChannelError
	if _, err := c.Dial("tcp", closed); !errors.As(err, &open) || open.Reason != ssh.ConnectionFailed ||
		open.Message != "connection refused" {
		t.Errorf("to a closed port: %v", err)
	}
	type request struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}
	for name, payload := range map[string][]byte{
		"PortZero":     ssh.Marshal(request{Host: "127.0.0.1"}),
		"PortTooLarge": ssh.Marshal(request{Host: "127.0.0.1", Port: 65536}),
		"NoHost":       ssh.Marshal(request{Port: 80}),
		"Option":       ssh.Marshal(request{Host: "-rf", Port: 80}),
		"Path":         ssh.Marshal(request{Host: "/tmp/socket", Port: 80}),
		"Word":         ssh.Marshal(request{Host: "{{home}}", Port: 80}),
		"Garbage":      {1, 2, 3},
	} {
		_, _, err := c.OpenChannel("direct-tcpip", payload)
		if !errors.As(err, &open) || open.Reason != ssh.Prohibited {
			t.Errorf("%s: error is %v, want %s", name, err, ssh.Prohibited)
		}
	}
	for _, kind := range []string{"x11", "forwarded-tcpip", "auth-agent@openssh.com", "direct-streamlocal@openssh.com",
		"tun@openssh.com", ""} {
		_, _, err := c.OpenChannel(kind, nil)
		if !errors.As(err, &open) || open.Reason != ssh.UnknownChannelType {
			t.Errorf("channel %s: error is %v, want %s", kind, err, ssh.UnknownChannelType)
		}
	}
}

// TestForwardToAName sees that the instance says what a name means.
func TestForwardToAName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	address := echoServer(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(w.engine.home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	getent := `#!/bin/sh
[ "$1 $2" = "ahosts db.internal" ] || exit 2
echo '0.0.0.0x     STREAM not an address'
echo '127.0.0.9    STREAM no such host'
echo '127.0.0.9    DGRAM'
echo '127.0.0.1    STREAM db.internal'
`
	testkit.WriteProgram(t, filepath.Join(bin, "getent"), getent)
	for _, host := range []string{"db.internal", "localhost", "LocalHost"} {
		conn, err := c.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_, _ = io.WriteString(conn, "ping")
		closeWrite(t, conn)
		if b, err := io.ReadAll(conn); string(b) != "ping" || err != nil {
			t.Errorf("%s: read %q, %v, want ping", host, b, err)
		}
		conn.Close()
	}
	var open *ssh.OpenChannelError
	if _, err := c.Dial("tcp", "unknown.internal:80"); !errors.As(err, &open) || open.Message != "unknown host" {
		t.Errorf("an unknown name: %v", err)
	}
	// Where the instance cannot be asked the engine gets the name.
	testkit.WriteProgram(t, filepath.Join(bin, "getent"), "#!/bin/sh\nexit 127\n")
	w.engine.dial = func(_, address string) (net.Conn, error) {
		if address != "by-name:80" {
			t.Errorf("the engine was asked for %s", address)
		}
		return nil, errors.New("no")
	}
	if _, err := c.Dial("tcp", "by-name:80"); !errors.As(err, &open) || open.Message != "connection failed" {
		t.Errorf("by name: %v", err)
	}
}
