package router

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// connected returns both ends of a connection.
func connected(t *testing.T) (b *backendConn, peer *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other := <-accepted
	t.Cleanup(func() {
		c.Close()
		other.Close()
	})
	return newBackendConn(c), other.(*net.TCPConn)
}

// answering reads a question of some length and then writes the answer.
func answering(t *testing.T, peer net.Conn, length int, answer string) {
	t.Helper()
	go func() {
		if _, err := io.CopyN(io.Discard, peer, int64(length)); err == nil {
			_, _ = io.WriteString(peer, answer)
		}
	}()
}

func (b *backendConn) have() string { return string(b.buf[b.r:b.w]) }

func TestBackendConnAsks(t *testing.T) {
	t.Parallel()
	for name, question := range map[string][]byte{
		"small": []byte("question"),
		"large": bytes.Repeat([]byte("x"), 16<<20), // more than the system takes at once
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, peer := connected(t)
			for range 3 {
				answering(t, peer, len(question), "answer")
				b.ask(question)
				if err := b.fill(); err != nil || b.have() != "answer" {
					t.Fatalf("read %q, %v, want answer", b.have(), err)
				}
			}
		})
	}
}

// A deadline that passed before the question was asked does not swallow it.
func TestBackendConnLateQuestion(t *testing.T) {
	t.Parallel()
	b, peer := connected(t)
	answering(t, peer, len("question"), "answer")
	b.ask([]byte("question"))
	_ = b.SetReadDeadline(time.Unix(1, 0))
	if err := b.fill(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = b.SetReadDeadline(time.Time{})
	if err := b.fill(); err != nil || b.have() != "answer" {
		t.Fatalf("read %q, %v, want answer", b.have(), err)
	}
}

// An answer that takes longer than the first look comes with the next.
func TestBackendConnLateAnswer(t *testing.T) {
	t.Parallel()
	b, peer := connected(t)
	b.ask([]byte("question"))
	_ = b.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if err := b.fill(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	_ = b.SetReadDeadline(time.Time{})
	answering(t, peer, len("question"), "answer")
	if err := b.fill(); err != nil || b.have() != "answer" {
		t.Fatalf("read %q, %v, want answer", b.have(), err)
	}
	// It was asked once.
	_ = peer.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := peer.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes more, %v", n, err)
	}
}

// A backend that left before it was asked is noticed, however it left.
func TestBackendConnLeft(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*net.TCPConn) error{
		"closed":       func(c *net.TCPConn) error { return c.Close() },
		"reset":        func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() },
		"only silent":  func(c *net.TCPConn) error { return c.CloseWrite() },
		"spoke before": func(c *net.TCPConn) error { _, _ = c.Write([]byte("unasked")); return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, peer := connected(t)
			if err := leave(peer); err != nil {
				t.Fatal(err)
			}
			for b.alive() { // until it has arrived
			}
			b.ask([]byte("question"))
			b.await(time.Now(), briefly)
			err := b.fill()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				_ = b.SetReadDeadline(time.Time{})
				err = b.fill()
			}
			if !hungUpOr(err, b.have(), "unasked") {
				t.Errorf("read %q, %v, want a closed connection or unasked", b.have(), err)
			}
		})
	}
}

func hungUpOr(err error, have, want string) bool {
	return err != nil && hungUp(err) || err == nil && strings.HasPrefix(want, have) && have != ""
}
