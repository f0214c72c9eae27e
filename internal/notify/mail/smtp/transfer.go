package smtp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/compose"
)

func temporary(format string, args ...any) notify.Result {
	return notify.Result{Verdict: notify.Temporary, Reason: shorten(fmt.Sprintf(format, args...))}
}

// unsent is the result of a message that the mail server has not got.
func unsent(format string, args ...any) Result {
	return Result{Result: temporary(format, args...), Unsent: true}
}

// transfer sends first and further messages of the queue over this connection.
// When it returns, every message it took is finished or put back. An error
// means that the connection cannot be reused.
func (c *conn) transfer(ctx context.Context, q *queue, first *item) error {
	c.replied = c.messages == 0 // a new connection has just been used
	present := first
	for begun := false; present != nil; {
		if r, refused := c.refuse(present.message); refused {
			next := c.next(ctx, q, present)
			q.finish(present, Result{Result: r})
			present = next
			continue
		}
		if !begun {
			c.begin(present.message)
		}
		begun = false
		c.messages++
		began := c.wait(present.domain)
		ready, r, err := c.envelope(present.message)
		switch {
		case err != nil:
			if !c.replied || ctx.Err() != nil {
				q.putBack(present) // the server had closed the idle connection, or the client is stopping
			} else {
				q.finish(present, unsent("the connection to the mail server ended before the message was sent: %v",
					explain(err)))
			}
			return err
		case !ready:
			var next *item
			if c.messages < c.config.Messages {
				next = c.next(ctx, q, present)
			}
			r.Took = took(began, 0)
			q.finish(present, r)
			if r.Verdict == notify.Temporary && c.outOfSync {
				if next != nil {
					q.putBack(next)
				}
				return errors.New(r.Reason)
			}
			if r.Unsent { // the server wants a login or encryption
				c.settle(errors.New(r.Reason))
			} else {
				c.settle(nil)
			}
			present = next
		case c.leaving(ctx):
			// The server expects a content that will not be sent: only closing
			// the connection aborts the transaction.
			q.putBack(present)
			return ctx.Err()
		default:
			present, begun, err = c.content(ctx, q, present, began)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// next returns the message that follows on this connection, or nil. One whose slot was lent carries no further message.
func (c *conn) next(ctx context.Context, q *queue, present *item) *item {
	if c.lent() {
		return nil
	}
	return q.next(ctx, present)
}

// leaving reports whether no further content may be started. If not, one is.
func (c *conn) leaving(ctx context.Context) bool {
	c.setAwaiting(true)
	if ctx.Err() == nil {
		return false
	}
	c.setAwaiting(false)
	return true
}

// refuse rejects messages that this server cannot accept.
func (c *conn) refuse(m *compose.Message) (notify.Result, bool) {
	switch {
	case m.UTF8 && !c.utf8:
		return notify.Result{
			Verdict: notify.Permanent,
			Reason:  "the mail server does not support addresses with non-ASCII local parts (SMTPUTF8)",
		}, true
	case c.maxSize > 0 && m.Size() > c.maxSize:
		return notify.Result{
			Verdict: notify.Permanent,
			Reason:  fmt.Sprintf("the message has %d bytes, the mail server accepts %d", m.Size(), c.maxSize),
		}, true
	}
	return notify.Result{}, false
}

// begin writes the whole envelope if PIPELINING is allowed. It is sent with the
// next flush.
func (c *conn) begin(m *compose.Message) {
	if c.pipelining {
		c.writeReset()
		c.writeMail(m)
		c.writeRcpt(m)
		c.write("DATA\r\n")
	}
}

// write ignores errors, which the flush returns again.
func (c *conn) write(s string) { _, _ = c.w.WriteString(s) }

func (c *conn) writeReset() {
	if c.reset {
		c.write("RSET\r\n")
	}
}

func (c *conn) writeMail(m *compose.Message) {
	c.write("MAIL FROM:<")
	c.write(m.From)
	c.write(">")
	if c.sized {
		c.write(" SIZE=")
		c.write(strconv.Itoa(m.Size()))
	}
	if m.UTF8 {
		if c.eightBit {
			c.write(" BODY=8BITMIME")
		}
		c.write(" SMTPUTF8")
	}
	c.write("\r\n")
}

func (c *conn) writeRcpt(m *compose.Message) {
	c.write("RCPT TO:<")
	c.write(m.To)
	c.write(">\r\n")
}

// envelope reads the replies to begin, or sends the envelope line by line.
// ready reports whether the server waits for the content; otherwise the result
// says why not.
func (c *conn) envelope(m *compose.Message) (ready bool, r Result, err error) {
	c.within(c.config.Timeout)
	if c.reset {
		if !c.pipelining {
			c.writeReset()
		}
		if _, err := c.read(); err != nil {
			return false, r, err
		}
		c.reset = false
	}
	refused := false
	for _, at := range []stage{stageMail, stageRcpt, stageData} {
		if !c.pipelining {
			if refused {
				break
			}
			switch at {
			case stageMail:
				c.writeMail(m)
			case stageRcpt:
				c.writeRcpt(m)
			default:
				c.write("DATA\r\n")
			}
		}
		got, err := c.read()
		if err != nil {
			if refused {
				c.outOfSync = true
				return false, r, nil // the message has its result; the next one sees the error
			}
			return false, r, err
		}
		switch {
		case got.code == 421:
			c.outOfSync = true
			if !c.replied {
				return false, r, fmt.Errorf("the server closed the idle connection: %s", got)
			}
			if !refused {
				r = got.result(at)
			}
			return false, r, nil
		case at == stageData && got.code == 354:
			if refused {
				// The server expects a content although there is no valid
				// recipient: RFC 2920 requires an empty one.
				c.write(".\r\n")
				if _, err := c.read(); err != nil {
					c.outOfSync = true
				}
				return false, r, nil
			}
			return true, r, nil
		case refused:
			// The replies to pipelined commands.
		case at != stageData && got.code/100 == 2:
			c.reset = true // until the content has a reply
		default:
			refused = true
			r = got.result(at)
			if got.code == 503 {
				c.outOfSync = true // client and server are out of sync
			}
		}
	}
	return false, r, nil
}

// content sends the current message, followed by the envelope of the next one
// if there is one, and reads the reply.
func (c *conn) content(ctx context.Context, q *queue, present *item, began time.Time) (next *item, begun bool,
	err error) {
	c.within(c.config.ContentTimeout)
	c.writeContent(present.message)
	c.reset = false
	if c.messages < c.config.Messages {
		if next = c.next(ctx, q, present); next != nil {
			if _, refused := c.refuse(next.message); !refused && (q.gate == nil || q.gate.Quick(next.domain)) {
				c.begin(next.message)
				begun = true
			}
			c.ahead(func() { q.putBack(next) })
		}
	}
	got, err := c.read()
	c.setAwaiting(false)
	abandoned := next != nil && !c.keeps()
	if abandoned {
		next = nil // another connection sends it
	}
	if err == nil && got.code/100 == 3 {
		err = fmt.Errorf("%w: %s after a message", errGarbage, got)
	}
	if err != nil {
		if next != nil {
			q.putBack(next)
		}
		q.finish(present, Result{Took: took(began, present.message.Size()), Result: temporary(
			"the mail server received the message but did not reply, retrying: %v", explain(err))})
		return nil, false, err
	}
	r := got.result(stageContent)
	r.Took = took(began, present.message.Size())
	q.finish(present, r)
	c.settle(nil)
	if abandoned {
		// The server has the envelope of a message that will not be sent here: only closing the connection aborts that.
		return nil, false, errors.New("another connection sends the next message")
	}
	if got.code == 421 {
		if next != nil {
			q.putBack(next)
		}
		return nil, false, fmt.Errorf("the server closes the connection: %s", got)
	}
	return next, begun, nil
}

// writeContent writes the text and the final dot. Composed messages contain no
// line that begins with a dot; if one does, it is escaped here.
func (c *conn) writeContent(m *compose.Message) {
	end := m.Body
	for _, part := range m.Parts() {
		if len(part) > 0 {
			end = part
		}
		if bytes.HasPrefix(part, []byte(".")) {
			c.write(".")
		}
		for {
			at := bytes.Index(part, []byte("\n."))
			if at < 0 {
				break
			}
			_, _ = c.w.Write(part[:at+2])
			c.write(".")
			part = part[at+2:]
		}
		_, _ = c.w.Write(part)
	}
	if !bytes.HasSuffix(end, []byte("\r\n")) {
		c.write("\r\n")
	}
	c.write(".\r\n")
}
