//go:build linux

package agentserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/homedir"
	"ingot/internal/platform/instance/initproto"
)

// SetState publishes the newest state of the instance.
func (a *Agent) SetState(s initproto.State) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.state = b
	a.mu.Unlock()
	return a.ready.set(s.Ready)
}

func (a *Agent) serveState(c *agentproto.Conn) error {
	a.mu.Lock()
	s := agentproto.State{Launched: a.instance != nil, State: a.state}
	a.mu.Unlock()
	if s.Launched && s.State == nil {
		b, err := json.Marshal(initproto.State{Phase: initproto.Starting, Since: time.Now().UTC()})
		if err != nil {
			return err
		}
		s.State = b
	}
	return c.SendJSON(agentproto.Document, s)
}

func (a *Agent) serveStop(c *agentproto.Conn) error {
	var request agentproto.Stop
	if err := receive(c, agentproto.MaxDocument, &request); err != nil {
		return err
	}
	a.mu.Lock()
	instance := a.instance
	// Without an instance there is nothing to wait for.
	if (request.Kill || instance == nil) && !a.left {
		a.left = true
		defer close(a.leave) // after the answer
	}
	a.mu.Unlock()
	if instance != nil {
		instance.Stop(request.Kill)
	}
	return c.SendJSON(agentproto.Document, struct{}{})
}

// serveRecords sends the records after a position, and takes acknowledgements.
func (a *Agent) serveRecords(c *agentproto.Conn) error {
	if err := a.wasLaunched(); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(c.Patience)); err != nil {
		return err
	}
	payload, err := c.Expect(agentproto.Ack, 8)
	if err != nil {
		return agentproto.Errorf(agentproto.Malformed, "%s", err)
	}
	after, err := agentproto.ParsePosition(payload)
	if err != nil {
		return agentproto.Errorf(agentproto.Malformed, "%s", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	gone := make(chan struct{})
	background.Go("agent records", func() {
		defer close(gone)
		for {
			payload, err := c.Expect(agentproto.Ack, 8)
			if err != nil {
				return
			}
			seq, err := agentproto.ParsePosition(payload)
			if err != nil {
				return
			}
			a.ring.ack(seq)
		}
	})
	err = a.sendRecords(c, after, gone)
	if err != nil {
		c.Abort()
	}
	<-gone // after the end the client closes the connection
	return nil
}

func (a *Agent) sendRecords(c *agentproto.Conn, after uint64, gone <-chan struct{}) error {
	cursor := a.ring.read(after)
	defer cursor.close()
	beat := time.NewTicker(a.c.Beat)
	defer beat.Stop()
	for {
		if err := sendAvailable(c, cursor); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		select {
		case <-cursor.wake:
		case <-beat.C:
			if err := c.Send(agentproto.Heartbeat); err != nil {
				return err
			}
		case <-gone:
			return net.ErrClosed
		}
	}
}

// sendAvailable sends the records that exist. It returns io.EOF after the last.
func sendAvailable(c *agentproto.Conn, cursor *cursor) error {
	buf := make([]byte, agentproto.MaxFrame) // kept only while there is something to send
	for {
		batch, over, err := cursor.next(buf)
		switch {
		case err != nil:
			return err
		case len(batch) > 0:
			if err := c.Send(agentproto.Data, batch); err != nil {
				return err
			}
		case over:
			if err := c.Send(agentproto.End); err != nil {
				return err
			}
			return io.EOF
		default:
			return nil
		}
	}
}

// dialTime limits a connection from inside the instance.
const dialTime = 10 * time.Second

func (a *Agent) serveDial(c *agentproto.Conn) error {
	var request agentproto.Dial
	if err := receive(c, agentproto.MaxDocument, &request); err != nil {
		return err
	}
	if _, _, err := a.running(); err != nil {
		return err
	}
	if !strings.HasPrefix(request.Network, "tcp") && request.Network != "unix" {
		return agentproto.Errorf(agentproto.Refused, "network %q", request.Network)
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	var d net.Dialer
	inside, err := d.DialContext(ctx, request.Network, request.Address)
	if err != nil {
		return agentproto.Errorf(agentproto.Refused, "%s", err)
	}
	defer inside.Close()
	if err := c.SendJSON(agentproto.Document, struct{}{}); err != nil {
		return err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	done := background.Async("agent dial", func() error { return forward(inside, c.Conn) })
	if forward(c.Conn, inside) != nil { // one direction is broken: so is the connection
		c.Abort()
		_ = inside.Close()
	}
	<-done
	c.Abort()
	return nil
}

// forward copies one direction, and passes on its end.
func forward(to, from net.Conn) error {
	_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return errors.Join(err, half.CloseWrite())
	}
	return errors.Join(err, to.Close())
}

func (a *Agent) serveCollect(c *agentproto.Conn) error {
	var request agentproto.Collect
	if err := receive(c, agentproto.MaxDocument, &request); err != nil {
		return err
	}
	if err := a.wasLaunched(); err != nil {
		return err
	}
	w := &dataWriter{c: c, sum: sha256.New()}
	err := homedir.Collect(context.Background(), a.c.Home, a.c.Home, request.Path, w)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return agentproto.Errorf(agentproto.NotFound, "%s", err)
	case errors.Is(err, homedir.ErrOutside):
		return agentproto.Errorf(agentproto.Refused, "%s", err)
	case err != nil:
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	return c.SendJSON(agentproto.End, agentproto.Sum{Size: w.size, SHA256: w.sum.Sum(nil)})
}

// dataWriter sends what is written as Data frames.
type dataWriter struct {
	c    *agentproto.Conn
	sum  hash.Hash
	size int64
	buf  []byte
}

func (w *dataWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), agentproto.Chunk-len(w.buf))
		w.buf = append(w.buf, rest[:n]...)
		rest = rest[n:]
		if len(w.buf) == agentproto.Chunk {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

func (w *dataWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	w.sum.Write(w.buf)
	w.size += int64(len(w.buf))
	err := w.c.Send(agentproto.Data, w.buf)
	w.buf = w.buf[:0]
	return err
}
