package agentproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), MaxFrame)
	for _, payload := range [][]byte{nil, []byte("a"), large} {
		b := AppendFrame(nil, Data, payload)
		got, read, err := ReadFrame(bytes.NewReader(b), nil, MaxFrame)
		if err != nil || got != Data || !bytes.Equal(read, payload) {
			t.Errorf("%d bytes are read as type %d with %d bytes, %v", len(payload), got, len(read), err)
		}
		for cut := range min(len(b), 10) {
			if _, _, err := ReadFrame(bytes.NewReader(b[:cut]), nil, MaxFrame); err == nil || cut > 0 && errors.Is(err, io.EOF) {
				t.Errorf("%d of %d bytes: %v, want an error that is not io.EOF", cut, len(b), err)
			}
		}
	}
	for name, b := range map[string][]byte{
		"too large":    AppendFrame(nil, Data, append(large, 'x')),
		"type 0":       {0, 0, 0, 0, 0},
		"unknown type": {byte(lastType), 0, 0, 0, 0},
		"huge":         {byte(Data), 0xff, 0xff, 0xff, 0xff},
	} {
		if _, _, err := ReadFrame(bytes.NewReader(b), nil, MaxFrame); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v, want %v", name, err, ErrFrame)
		}
	}
}

// TestFrameMemory: memory is allocated for what arrives, not for what is announced.
func TestFrameMemory(t *testing.T) {
	t.Parallel()
	header := []byte{byte(Document), 0, 0, 0, 0}
	binary.BigEndian.PutUint32(header[1:], MaxSpec)
	_, buf, err := ReadFrame(io.MultiReader(bytes.NewReader(header), strings.NewReader("short")), nil, MaxSpec)
	if err == nil || cap(buf) > 2*Chunk {
		t.Errorf("an incomplete frame allocates %d bytes (%v), want at most %d", cap(buf), err, 2*Chunk)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		newest, oldest, otherNewest, otherOldest uint16
		want                                     uint16
		ok                                       bool
	}{
		{1, 1, 1, 1, 1, true},
		{2, 1, 2, 1, 2, true},
		{2, 1, 1, 1, 1, true}, // the other is one release behind
		{2, 1, 3, 2, 2, true}, // and one ahead
		{3, 2, 1, 1, 1, false},
		{2, 1, 4, 3, 2, false},
	} {
		if got, ok := common(c.newest, c.oldest, c.otherNewest, c.otherOldest); ok != c.ok || ok && got != c.want {
			t.Errorf("%d to %d and %d to %d: %d, %t, want %d, %t", c.oldest, c.newest, c.otherOldest, c.otherNewest, got, ok,
				c.want, c.ok)
		}
	}
}

// pair returns both ends of a connection.
func pair(t *testing.T) (server, agent *Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return NewConn(a), NewConn(b)
}

func TestHello(t *testing.T) {
	t.Parallel()
	server, agent := pair(t)
	go func() { _, _ = Greet(server, ForExec, "one") }()
	if p, err := Welcome(agent, "one"); err != nil || p != ForExec {
		t.Errorf("purpose %s, %v, want %s", p, err, ForExec)
	}
	for name, c := range map[string]struct {
		g    Greeting
		code Code
	}{
		"newer":    {Greeting{Version + 2, Version + 1, ForExec, "one"}, BadVersion},
		"instance": {Greeting{Version, Oldest, ForExec, "two"}, BadInstance},
		"purpose":  {Greeting{Version, Oldest, 99, "one"}, Malformed},
		"range":    {Greeting{1, 2, ForExec, "one"}, Malformed},
		"none":     {Greeting{Version, Oldest, ForExec, ""}, Malformed},
	} {
		server, agent := pair(t)
		result := make(chan error, 1)
		go func() {
			err := server.Send(Hello, c.g.Append(nil))
			if err == nil {
				_, err = server.Expect(Hello, MaxFrame)
			}
			result <- err
		}()
		if _, err := Welcome(agent, "one"); err == nil {
			t.Errorf("%s: the agent accepts it", name)
		}
		if err := <-result; !errors.Is(err, &Error{Code: c.code}) {
			t.Errorf("%s: the server gets %v, want code %d", name, err, c.code)
		}
	}
}

// TestHelloOfAgent: a server refuses an agent that answers with another version.
func TestHelloOfAgent(t *testing.T) {
	t.Parallel()
	for _, answer := range [][]byte{nil, {1}, {0, 0}, {0, Version + 1}, {255, 255}} {
		server, agent := pair(t)
		go func() {
			_, _ = agent.Expect(Hello, MaxFrame)
			_ = agent.Send(Hello, answer)
		}()
		if v, err := Greet(server, ForState, "one"); err == nil {
			t.Errorf("the answer %v is version %d", answer, v)
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	server, agent := pair(t)
	go agent.SendError(Errorf(Refused, "a\nb\x1b[31m%s", strings.Repeat("x", 2*maxText)))
	_, _, err := server.Receive(0)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != Refused || len(refused.Text) > maxText ||
		strings.ContainsAny(refused.Text, "\n\x1b") {
		t.Errorf("the error is %q, want one line of at most %d bytes with code %d", err, maxText, Refused)
	}
}

func TestFlow(t *testing.T) {
	t.Parallel()
	granted := 0
	in := NewInbox(func(n int) { granted += n })
	if err := in.Put(make([]byte, Window)); err != nil {
		t.Fatal(err)
	}
	if err := in.Put([]byte{1}); !errors.Is(err, ErrFrame) {
		t.Errorf("more than the window: %v, want %v", err, ErrFrame)
	}
	if n, err := io.ReadFull(in, make([]byte, Window)); err != nil || n != Window || granted < Window/2 {
		t.Errorf("read %d, %v, and granted %d", n, err, granted)
	}
	if err := errors.Join(in.Put([]byte{1}), in.Put(nil)); err != nil {
		t.Fatal(err)
	}
	in.Close(io.ErrUnexpectedEOF) // after the end, it does not matter
	if b, err := io.ReadAll(in); err != nil || len(b) != 1 {
		t.Errorf("the rest is %v, %v, want 1 byte", b, err)
	}

	q := NewQuota()
	if err := q.Add(1); !errors.Is(err, ErrFrame) {
		t.Errorf("more credit than the window: %v, want %v", err, ErrFrame)
	}
	if n, err := q.Take(2 * Window); err != nil || n != Window {
		t.Errorf("took %d, %v, want %d", n, err, Window)
	}
	result := make(chan int, 1)
	go func() { n, _ := q.Take(10); result <- n }()
	if err := q.Add(5); err != nil {
		t.Fatal(err)
	}
	if n := <-result; n != 5 {
		t.Errorf("took %d, want 5", n)
	}
	q.Close()
	if _, err := q.Take(1); err == nil {
		t.Error("a closed quota gives credit")
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(AppendFrame(nil, Hello, Greeting{Version, Oldest, ForLaunch, "one"}.Append(nil)))
	f.Add([]byte{byte(Data), 0xff, 0xff, 0xff, 0xff, 1})
	f.Add(AppendFrame(AppendFrame(nil, Credit, []byte{byte(Stdin), 0, 0, 0, 1}), Ack, make([]byte, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		var buf []byte
		for {
			kind, payload, err := ReadFrame(r, buf, MaxFrame)
			if len(payload) > MaxFrame || cap(payload) > 2*MaxFrame {
				t.Fatalf("a frame of %d bytes in %d, want at most %d", len(payload), cap(payload), MaxFrame)
			}
			if err != nil {
				return
			}
			if got := AppendFrame(nil, kind, payload); !bytes.Contains(b, got) {
				t.Fatalf("frame %v is not in the input", got)
			}
			_, _ = ParsePosition(payload)
			if _, n, err := ParseCredit(payload); err == nil && n > Window {
				t.Fatalf("credit %d, want at most %d", n, Window)
			}
			_ = cleanText(payload)
			buf = payload
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(Greeting{Version, Oldest, ForLaunch, "one"}.Append(nil))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{255}, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := ParseGreeting(b)
		if err != nil {
			return
		}
		if !bytes.Equal(g.Append(nil), b) || g.Oldest > g.Newest || g.Instance == "" {
			t.Fatalf("%v is %+v", b, g)
		}
	})
}
