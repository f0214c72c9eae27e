package sshd_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/platform/edge/sshd"
	"ingot/internal/platform/engine"
)

// pipeListener hands out connections that the test made.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// connect returns the client's end of a connection.
func (l *pipeListener) connect() net.Conn {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours
}

// FuzzFirstBytes sees that whatever a client begins with ends its connection
// and nothing else.
func FuzzFirstBytes(f *testing.F) {
	for _, text := range first {
		f.Add([]byte(text))
	}
	l := newPipeListener()
	server := fuzzed(f, l, func(engine.ExecRequest) error { return io.ErrClosedPipe })
	defer server.Stop()
	f.Fuzz(func(t *testing.T, b []byte) {
		conn := l.connect()
		go func() {
			_, _ = conn.Write(b)
			conn.Close()
		}()
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	})
}

// FuzzRequests sees that no request of a client that was let in does harm, in
// whatever order they come.
func FuzzRequests(f *testing.F) {
	for _, name := range []string{"env", "pty-req", "window-change", "signal", "exec", "shell", "subsystem",
		"direct-tcpip", "x"} {
		f.Add(name, []byte{0, 0, 0, 1, 'x', 0, 0, 0, 80}, "exec", []byte{0, 0, 0, 4, 't', 'r', 'u', 'e'})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	// Nothing is started: what is asked for comes from anywhere.
	server := fuzzed(f, l, func(r engine.ExecRequest) error {
		if len(r.Args) < 3 || r.Args[0] != "/bin/sh" || r.Args[1] != "-c" {
			panic("the client chose the program")
		}
		return io.ErrClosedPipe
	})
	defer server.Stop()
	client, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{
		User: theName, Auth: []ssh.AuthMethod{ssh.Password(theCode)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		f.Fatal(err)
	}
	defer client.Close()
	f.Fuzz(func(t *testing.T, first string, a []byte, second string, b []byte) {
		if _, _, err := client.OpenChannel(first, a); err == nil && first != "session" {
			t.Errorf("a channel %q was opened", first)
		}
		channel, replies, err := client.OpenChannel("session", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer channel.Close()
		go ssh.DiscardRequests(replies)
		go func() { _, _ = io.Copy(io.Discard, channel.Stderr()) }()
		for range 2 {
			if _, err := channel.SendRequest(first, true, a); err != nil {
				t.Fatalf("%q: %v", first, err)
			}
			if _, err := channel.SendRequest(second, true, b); err != nil {
				t.Fatalf("%q: %v", second, err)
			}
		}
		if ok, _, err := client.SendRequest("keepalive@cloudfoundry.org", true, nil); !ok || err != nil {
			t.Fatalf("keep-alive: %t %v", ok, err)
		}
	})
}

func fuzzed(f *testing.F, l net.Listener, fail func(engine.ExecRequest) error) *sshd.Server {
	f.Helper()
	s, err := sshd.New(sshd.Config{
		Listener: l, HostKeyFile: f.TempDir() + "/key", Authorizer: &fakeAuthorizer{},
		Engine: &localEngine{fail: fail, dial: func(string, string) (net.Conn, error) { return nil, io.ErrClosedPipe }},
		Limits: sshd.Limits{Channels: 1 << 20, Handshakes: 1 << 20, HandshakeTimeout: time.Minute},
	})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Start(f.Context()); err != nil {
		f.Fatal(err)
	}
	return s
}
