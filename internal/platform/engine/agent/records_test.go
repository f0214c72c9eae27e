//go:build linux

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/agentserver"
	"ingot/internal/platform/instance/initproto"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	w.launch()
	for _, text := range []string{"one", "two", "three"} {
		w.say(text)
	}
	read := func(after engine.Position, want ...string) engine.Stream {
		t.Helper()
		s, err := w.Records(within(t), after)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		for _, text := range want {
			if r, err := s.Next(); err != nil || string(r.Payload) != text {
				t.Errorf("after %d: %q, %v, want %q", after, r.Payload, err, text)
			}
		}
		return s
	}
	first := read(0, "one", "two", "three")
	second := read(2, "three")
	w.say("four")
	for _, s := range []engine.Stream{first, second} {
		if r, err := s.Next(); err != nil || string(r.Payload) != "four" || r.Seq != 4 {
			t.Errorf("record %d: %q, %v, want four", r.Seq, r.Payload, err)
		}
	}
	if got := w.output.String(); strings.Count(got, "\n") != 4 || !strings.HasSuffix(got, " 4 0 four\n") {
		t.Errorf("standard output has %q, want the four records", got)
	}
	// Closing ends Next, but not as if the instance had ended.
	result := make(chan error, 1)
	go func() { _, err := second.Next(); result <- err }()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Next after Close: %v", err)
	}
	ctx, cancel := context.WithCancel(within(t))
	third, err := w.Records(ctx, 4)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, err := third.Next(); result <- err }()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Next after cancelling: %v, want %v", err, context.Canceled)
	}
}

// TestLinger: after the end the agent stays until the last record is acknowledged, the time
// is over, it is told to leave, or a signal comes and nothing is left.
func TestLinger(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, engine.Stream, uint64) error{
		"acknowledged": func(_ *world, s engine.Stream, last uint64) error { return s.Ack(engine.Position(last)) },
		"killed":       func(w *world, _ engine.Stream, _ uint64) error { return w.Stop(within(t), true) },
		"time":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := listen(t, func(c *agentserver.Config) {
				if end == nil {
					c.Linger = 10 * time.Millisecond
				}
			})
			w.launch()
			w.say("line")
			last := w.say("end")
			left := make(chan struct{})
			go func() {
				defer close(left)
				w.agent.Linger(w.stop)
			}()
			if end == nil {
				<-left
				return
			}
			s, err := w.Records(within(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range last {
				if _, err := s.Next(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v, want %v", err, io.EOF)
			}
			if err := s.Ack(engine.Position(last - 1)); err != nil {
				t.Error(err)
			}
			// It is still there.
			if _, err := w.Exec(within(t), engine.ExecRequest{Args: []string{"true"}}); err == nil {
				t.Error("an ended instance runs processes")
			}
			if _, launched, err := w.State(within(t)); err != nil || !launched {
				t.Errorf("after the end: launched %t, %v", launched, err)
			}
			select {
			case <-left:
				t.Error("it left before the last record was acknowledged")
			default:
			}
			if err := end(w, s, last); err != nil {
				t.Fatal(err)
			}
			<-left
		})
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	w.launch()
	for _, kill := range []bool{false, true} {
		if err := w.Stop(within(t), kill); err != nil {
			t.Fatal(err)
		}
		if got := <-w.instance.stopped; got != kill {
			t.Errorf("stopped with kill %t, want %t", got, kill)
		}
	}
}

// TestReadyPort: the port accepts connections only while the instance is ready, and no
// other socket can be bound to it at any time.
func TestReadyPort(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	w.launch()
	ready := net.JoinHostPort(w.ip, strconv.Itoa(agentproto.ReadyPort))
	connects := func() bool {
		c, err := net.Dial("tcp", ready)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	for _, now := range []bool{false, true, true, false, true, false} {
		if err := w.agent.SetState(initproto.State{Phase: initproto.Running, Ready: now}); err != nil {
			t.Fatal(err)
		}
		for range 200 { // more than the queue holds
			if connects() != now {
				t.Fatalf("ready is %t, but a connection is not", now)
			}
		}
		for _, address := range []string{ready, net.JoinHostPort(w.ip, strconv.Itoa(agentproto.Port)), ":61001", ":61002"} {
			for _, option := range []int{syscall.SO_REUSEADDR, 15 /* SO_REUSEPORT */} {
				config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
					return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, 1) })
				}}
				if l, err := config.Listen(context.Background(), "tcp4", address); err == nil {
					l.Close()
					t.Errorf("while ready is %t another socket can listen on %s", now, address)
				}
			}
		}
	}
}

func TestDial(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	w.launch()
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": w.home + "/socket"} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			b, _ := io.ReadAll(c) // until the other side has sent everything
			_, _ = c.Write(bytes.ToUpper(b))
		}()
		c, err := w.Dial(within(t), network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		text := strings.Repeat("hello ", 50_000)
		go func() {
			_, _ = io.WriteString(c, text)
			if half, ok := c.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		}()
		if b, err := io.ReadAll(c); err != nil || string(b) != strings.ToUpper(text) {
			t.Errorf("%s: %d bytes came back, %v, want %d", network, len(b), err, len(text))
		}
	}
	for network, address := range map[string]string{"tcp": "127.0.0.1:1", "unix": w.home + "/none",
		"udp": "127.0.0.1:53", "": ""} {
		if c, err := w.Dial(within(t), network, address); err == nil {
			c.Close()
			t.Errorf("%s %s is connected", network, address)
		}
	}
}
