//go:build linux

package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/agent/agenttest"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// liar is an agent with the right key that says what the test wants after the hello.
func liar(t *testing.T, say func(c *agentproto.Conn)) *agent.Client {
	t.Helper()
	authority, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	own, err := authority.Client("server")
	if err != nil {
		t.Fatal(err)
	}
	config, err := agentproto.ServerConfig(agent.Seed(agenttest.InstallKey, id), authority.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer raw.Close()
				c := agentproto.NewConn(raw)
				if _, err := agentproto.Welcome(c, id); err == nil {
					say(c)
				}
			}()
		}
	}()
	return (&agent.Dialer{Certificate: own}).At(id, l.Addr().String(), agenttest.Key(id))
}

func record(seq uint64, payload string) []byte {
	return initproto.Record{Kind: initproto.Stdout, Time: time.Unix(0, 1), Seq: seq, Payload: []byte(payload)}.Append(nil)
}

// TestLies: whatever an agent says, a server gets an error, and does not wait or allocate
// without limit.
func TestLies(t *testing.T) {
	t.Parallel()
	huge := []byte{byte(agentproto.Data), 0xff, 0xff, 0xff, 0xff}
	raw := func(b []byte) func(c *agentproto.Conn) {
		return func(c *agentproto.Conn) {
			_, _, _ = c.Receive(agentproto.MaxFrame)
			_, _ = c.Write(b)
		}
	}
	frame := func(kind agentproto.Type, payload []byte) func(c *agentproto.Conn) {
		return raw(agentproto.AppendFrame(nil, kind, payload))
	}
	at := func(kind agentproto.Type, payload string) func(c *agentproto.Conn) { // without a request
		return func(c *agentproto.Conn) { _ = c.Send(kind, []byte(payload)) }
	}
	records := func(c *agent.Client) error {
		s, err := c.Records(within(t), 5)
		if err != nil {
			return err
		}
		defer s.Close()
		for err == nil {
			_, err = s.Next()
		}
		return err
	}
	state := func(c *agent.Client) error { _, _, err := c.State(within(t)); return err }
	usage := func(c *agent.Client) error { _, err := c.Usage(within(t)); return err }
	collect := func(c *agent.Client) error { return c.Collect(within(t), ".", io.Discard) }
	launched := func(c *agent.Client) error { _, err := c.Launch(within(t), launch()); return err }
	for name, lie := range map[string]struct {
		say  func(c *agentproto.Conn)
		call func(c *agent.Client) error
	}{
		"records: huge frame":     {raw(huge), records},
		"records: unknown type":   {raw([]byte{200, 0, 0, 0, 0}), records},
		"records: no record":      {frame(agentproto.Data, []byte("hello\n")), records},
		"records: no line":        {frame(agentproto.Data, record(6, "x")[:5]), records},
		"records: empty":          {frame(agentproto.Data, nil), records},
		"records: again":          {frame(agentproto.Data, record(5, "x")), records},
		"records: backwards":      {frame(agentproto.Data, append(record(7, "x"), record(6, "y")...)), records},
		"records: far ahead":      {frame(agentproto.Data, record(1<<63, "x")), records},
		"records: too long":       {frame(agentproto.Data, record(6, strings.Repeat("x", initproto.MaxLineSize+1))), records},
		"records: other type":     {frame(agentproto.Exit, []byte{0, 0, 0, 0}), records},
		"records: closed":         {raw(nil), records},
		"state: no JSON":          {at(agentproto.Document, "{"), state},
		"state: no state":         {at(agentproto.Document, `{"launched":true,"state":"bm9uZQ=="}`), state},
		"state: other type":       {at(agentproto.Data, "{}"), state},
		"state: closed":           {func(*agentproto.Conn) {}, state},
		"usage: no number":        {at(agentproto.Document, `{"memory":"much"}`), usage},
		"collect: checksum":       {frame(agentproto.End, []byte(`{"size":0,"sha256":"eA=="}`)), collect},
		"collect: size":           {frame(agentproto.End, []byte(`{"size":9}`)), collect},
		"collect: no end":         {frame(agentproto.Data, []byte("x")), collect},
		"launch: nothing":         {frame(agentproto.End, nil), launched},
		"launch: huge":            {raw(huge), launched},
		"launch: refused at once": {func(c *agentproto.Conn) { c.SendError(errors.New("no")) }, launched},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := lie.call(liar(t, lie.say))
			if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want an error at once", err)
			}
		})
	}
}

// TestNegativeUsage: figures below zero are not believed.
func TestNegativeUsage(t *testing.T) {
	t.Parallel()
	c := liar(t, func(c *agentproto.Conn) {
		_ = c.Send(agentproto.Document, []byte(`{"cpu_time":-1,"memory":-1,"memory_limit":-1,"disk":-1,"oom_kills":-1}`))
	})
	u, err := c.Usage(within(t))
	if u.Time = (time.Time{}); err != nil || !reflect.DeepEqual(u, engine.Usage{}) {
		t.Errorf("usage %+v, %v, want zeros", u, err)
	}
}

// TestLiesOfExec: a process whose agent breaks the protocol ends with an error.
func TestLiesOfExec(t *testing.T) {
	t.Parallel()
	status := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for name, lie := range map[string]func(c *agentproto.Conn) error{
		"status":       func(c *agentproto.Conn) error { return c.Send(agentproto.Exit, status(256)) },
		"short status": func(c *agentproto.Conn) error { return c.Send(agentproto.Exit, []byte{1}) },
		"credit":       func(c *agentproto.Conn) error { return c.SendCredit(agentproto.Stdin, agentproto.Window) },
		"input":        func(c *agentproto.Conn) error { return c.Send(agentproto.Stdin, []byte("x")) },
		"closed":       func(*agentproto.Conn) error { return nil },
		"more than the window": func(c *agentproto.Conn) error {
			for range agentproto.Window/agentproto.Chunk + 1 {
				if err := c.Send(agentproto.Stdout, make([]byte, agentproto.Chunk)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := liar(t, func(c *agentproto.Conn) {
				_, _, _ = c.Receive(agentproto.MaxFrame)
				if c.Send(agentproto.Document, []byte("{}")) == nil && lie(c) == nil && name != "closed" {
					_, _, _ = c.Receive(agentproto.MaxFrame) // until the server closes
				}
			})
			p, err := c.Exec(within(t), engine.ExecRequest{Args: []string{"true"}})
			if err != nil {
				t.Fatal(err)
			}
			if n, err := p.Wait(); err == nil {
				t.Errorf("status %d, want an error", n)
			}
			b, err := io.ReadAll(p.Stdout())
			if err == nil || len(b) > agentproto.Window {
				t.Errorf("%d bytes of output, %v, want an error", len(b), err)
			}
			if err := p.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// TestOtherAddress: what listens at the address of an instance may be another program.
func TestOtherAddress(t *testing.T) {
	t.Parallel()
	own, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := own.Client("server")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, bytes.NewReader(bytes.Repeat([]byte("HTTP/1.1 400 Bad Request\r\n"), 1000)))
			c.Close()
		}
	}()
	dialer := agent.Dialer{Certificate: certificate}
	if _, _, err := dialer.At(id, l.Addr().String(), agenttest.Key(id)).State(within(t)); err == nil {
		t.Error("another program passes for an agent")
	}
	// One that says nothing is given up with the context.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(within(t))
	result := make(chan error, 1)
	go func() {
		_, _, err := dialer.At(id, silent.Addr().String(), agenttest.Key(id)).State(ctx)
		result <- err
	}()
	c, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a silent program: %v, want %v", err, context.Canceled)
	}
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	a, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	again, err := agent.ParseAuthority(a.Bytes())
	if err != nil || !bytes.Equal(again.Certificate(), a.Certificate()) {
		t.Fatalf("parsed: %v", err)
	}
	other, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	mixed := append(bytes.Clone(a.Bytes()[:32]), other.Certificate()...)
	for name, b := range map[string][]byte{"empty": nil, "short": a.Bytes()[:40], "mixed": mixed} {
		if _, err := agent.ParseAuthority(b); err == nil {
			t.Errorf("%s is an authority", name)
		}
	}
	if agent.Seed([]byte("k"), "a") == agent.Seed([]byte("k"), "b") ||
		agent.Seed([]byte("k"), "a") == agent.Seed([]byte("l"), "a") {
		t.Error("two instances or installations have one seed")
	}
}
