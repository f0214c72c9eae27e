package agentproto

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Type is the type of a frame.
type Type byte

// The types of frames. An empty Stdin, Stdout or Stderr is the end of that stream.
const (
	Hello Type = 1 + iota
	Fault
	Document
	Data
	End
	Heartbeat
	Ack    // a position: 8 bytes
	Stdin  // to the process
	Stdout // from the process
	Stderr
	Credit // the type of the stream and 4 bytes: how many more bytes may be sent
	Resize // columns and rows, 2 bytes each
	Signal // its number: 1 byte
	Exit   // the exit status: 4 bytes
	lastType
)

// ErrFrame means that bytes are not a frame, or one that is too large.
var ErrFrame = errors.New("malformed frame")

const headerSize = 5

// AppendFrame appends a frame to b.
func AppendFrame(b []byte, t Type, payload ...[]byte) []byte {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // below the limits
	for _, p := range payload {
		b = append(b, p...)
	}
	return b
}

// ReadFrame reads a frame into buf, which grows as bytes arrive but not beyond limit.
func ReadFrame(r io.Reader, buf []byte, limit int) (Type, []byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, buf[:0], err
	}
	t, n := Type(header[0]), int(binary.BigEndian.Uint32(header[1:]))
	if t == 0 || t >= lastType || n > limit {
		return 0, buf[:0], fmt.Errorf("%w: type %d with %d bytes", ErrFrame, t, n)
	}
	buf = buf[:0]
	for len(buf) < n {
		have := len(buf)
		grow := min(n-have, max(Chunk, have)) // doubles
		if cap(buf) < have+grow {
			buf = append(make([]byte, 0, have+grow), buf...)
		}
		buf = buf[:have+grow]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, buf[:0], err
		}
	}
	return t, buf, nil
}

// Conn sends and receives frames. Several goroutines may send; one may receive.
type Conn struct {
	net.Conn
	// Patience limits how long the peer may take to accept a frame.
	Patience time.Duration

	in []byte

	mu  sync.Mutex
	out []byte
}

// NewConn returns a Conn on a connection.
func NewConn(c net.Conn) *Conn { return &Conn{Conn: c, Patience: Patience} }

// Send sends a frame. It fails if the peer does not accept it within Patience.
func (c *Conn) Send(t Type, payload ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = AppendFrame(c.out[:0], t, payload...)
	if err := c.SetWriteDeadline(time.Now().Add(c.Patience)); err != nil {
		return err
	}
	_, err := c.Write(c.out)
	if cap(c.out) > 4*headerSize {
		c.out = nil // a quiet connection keeps no buffer
	}
	return err
}

// SendJSON sends a frame with a value as JSON.
func (c *Conn) SendJSON(t Type, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Send(t, b)
}

// SendPosition sends an Ack.
func (c *Conn) SendPosition(seq uint64) error {
	return c.Send(Ack, binary.BigEndian.AppendUint64(nil, seq))
}

// SendCredit sends a Credit.
func (c *Conn) SendCredit(stream Type, n int) error {
	return c.Send(Credit, binary.BigEndian.AppendUint32([]byte{byte(stream)}, uint32(n))) //nolint:gosec // at most Window
}

// SendError sends a refusal. It ignores errors: the connection is closed afterwards.
func (c *Conn) SendError(err error) {
	e := AsError(err)
	text := e.Text
	if len(text) > maxText {
		text = text[:maxText]
	}
	_ = c.Send(Fault, []byte{byte(e.Code)}, []byte(text))
}

// Receive receives a frame with at most limit bytes. The payload is valid until the next
// call. A Fault is returned as an *Error.
func (c *Conn) Receive(limit int) (Type, []byte, error) {
	t, payload, err := ReadFrame(c.Conn, c.in, max(limit, maxText+1))
	c.in = payload
	switch {
	case err != nil:
		return 0, nil, err
	case t == Fault:
		e := &Error{Code: Internal}
		if len(payload) > 0 {
			e.Code, e.Text = Code(payload[0]), cleanText(payload[1:])
		}
		return 0, nil, e
	case len(payload) > limit:
		return 0, nil, fmt.Errorf("%w: type %d with %d bytes", ErrFrame, t, len(payload))
	}
	return t, payload, nil
}

// Abort closes the connection at once, without waiting for a Send in progress.
func (c *Conn) Abort() {
	if secured, ok := c.Conn.(*tls.Conn); ok {
		_ = secured.NetConn().Close() // it may be closed already
		return
	}
	_ = c.Close()
}

// Release frees the memory of the last payload.
func (c *Conn) Release() { c.in = nil }

// Expect receives a frame of one type.
func (c *Conn) Expect(want Type, limit int) ([]byte, error) {
	t, payload, err := c.Receive(limit)
	if err == nil && t != want {
		return nil, fmt.Errorf("%w: type %d instead of %d", ErrFrame, t, want)
	}
	return payload, err
}

// ExpectJSON receives a frame of one type with a value as JSON.
func (c *Conn) ExpectJSON(want Type, limit int, v any) error {
	payload, err := c.Expect(want, limit)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := json.Unmarshal(payload, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// ParsePosition parses the payload of an Ack.
func ParsePosition(payload []byte) (uint64, error) {
	if len(payload) != 8 {
		return 0, ErrFrame
	}
	return binary.BigEndian.Uint64(payload), nil
}

// ParseCredit parses the payload of a Credit.
func ParseCredit(payload []byte) (stream Type, n int, err error) {
	if len(payload) != 5 {
		return 0, 0, ErrFrame
	}
	n = int(binary.BigEndian.Uint32(payload[1:]))
	if n > Window {
		return 0, 0, ErrFrame
	}
	return Type(payload[0]), n, nil
}

// cleanText makes a text of the other side safe to log and to show: printable characters
// of one line.
func cleanText(b []byte) string {
	if len(b) > maxText {
		b = b[:maxText]
	}
	clean := make([]rune, 0, len(b))
	for _, r := range string(b) {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			r = ' '
		}
		clean = append(clean, r)
	}
	return string(clean)
}
