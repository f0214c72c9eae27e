package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// Records streams the records after a position until ctx ends. It ends with io.EOF after
// the last record of an instance that has ended. Any other error, such as that of a lost
// connection, says nothing about the instance: ask again with the position of the last
// record. An agent that is silent for 30 seconds is an error, too.
//
// The agent keeps records until Ack, but at most 8 MiB: older ones are missing in the
// stream.
func (c *Client) Records(ctx context.Context, after engine.Position) (engine.Stream, error) {
	conn, stop, err := c.connect(ctx, agentproto.ForRecords)
	if err != nil {
		return nil, err
	}
	s := &stream{ctx: ctx, conn: conn, stop: stop, last: uint64(after), id: c.id}
	if err := conn.SendPosition(uint64(after)); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("records by the agent of %s: %w", c.id, translate(err))
	}
	return s, nil
}

type stream struct {
	ctx  context.Context //nolint:containedctx // the context of the request for the stream
	conn *agentproto.Conn
	stop func() bool
	id   string

	rest []byte // received, not returned yet
	last uint64 // the last record that was returned
	err  error
}

// maxGap limits how many records can be missing at once. An agent writes fewer in a
// lifetime; more would only falsify the count of lost lines.
const maxGap = 1 << 32

// Next returns the next record.
func (s *stream) Next() (initproto.Record, error) {
	for s.err == nil {
		if line, rest, ok := bytes.Cut(s.rest, []byte{'\n'}); ok {
			s.rest = rest
			r, err := initproto.ParseRecord(line)
			if err == nil && (r.Seq <= s.last || r.Seq-s.last > maxGap || len(r.Payload) > initproto.MaxLineSize) {
				err = initproto.ErrRecord
			}
			if err != nil {
				s.err = fmt.Errorf("records by the agent of %s: %w", s.id, err)
				break
			}
			s.last = r.Seq
			return r, nil
		}
		s.err = s.receive()
	}
	return initproto.Record{}, s.err
}

// receive waits for the next records.
func (s *stream) receive() error {
	s.conn.Release() // nothing refers to the last frame any more
	err := s.conn.SetReadDeadline(time.Now().Add(agentproto.Silence))
	var t agentproto.Type
	var payload []byte
	if err == nil {
		t, payload, err = s.conn.Receive(agentproto.MaxFrame)
	}
	switch {
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case err != nil:
		return fmt.Errorf("records by the agent of %s: %w", s.id, translate(err))
	case t == agentproto.Heartbeat:
		return nil
	case t == agentproto.End:
		return io.EOF
	case t == agentproto.Data && bytes.HasSuffix(payload, []byte{'\n'}):
		s.rest = payload
		return nil
	}
	return fmt.Errorf("records by the agent of %s: %w", s.id, agentproto.ErrFrame)
}

// Ack tells the agent that the records up to a position are stored.
func (s *stream) Ack(upTo engine.Position) error {
	if err := s.conn.SendPosition(uint64(upTo)); err != nil {
		return fmt.Errorf("records by the agent of %s: %w", s.id, err)
	}
	return nil
}

// Close closes the connection. It may be called more than once, and while Next blocks.
func (s *stream) Close() error {
	s.stop()
	s.conn.Abort()
	return nil
}
