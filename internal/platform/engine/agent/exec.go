package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/agentproto"
)

// Exec runs another process inside the instance; see engine.Engine. Its placeholders are
// replaced by the caller. ctx limits the start only; the agent kills the process when the
// connection ends.
func (c *Client) Exec(ctx context.Context, r engine.ExecRequest) (engine.Process, error) {
	request := agentproto.Exec{Args: r.Args, Env: r.Env, Dir: r.Dir}
	if r.Terminal != nil {
		request.Terminal = &agentproto.Terminal{Term: r.Terminal.Term, Columns: r.Terminal.Columns, Rows: r.Terminal.Rows}
	}
	conn, stop, err := c.connect(ctx, agentproto.ForExec)
	if err != nil {
		return nil, err
	}
	err = conn.SendJSON(agentproto.Document, request)
	if err == nil {
		err = receive(conn, answerTime, new(struct{}))
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("exec by the agent of %s: %w", c.id, translate(err))
	}
	p := &process{conn: conn, exited: make(chan struct{}), over: make(chan struct{}), input: agentproto.NewQuota()}
	p.out = agentproto.NewInbox(func(n int) { _ = conn.SendCredit(agentproto.Stdout, n) })
	if r.Terminal == nil {
		p.errs = agentproto.NewInbox(func(n int) { _ = conn.SendCredit(agentproto.Stderr, n) })
	}
	background.Go("agent exec", p.receive)
	return p, nil
}

// maxStatus is the largest exit status: 128 + signal.
const maxStatus = 255

// closeTime limits how long Close waits for the agent to kill the process.
const closeTime = 10 * time.Second

// process is a process that an agent has started.
type process struct {
	conn  *agentproto.Conn
	input *agentproto.Quota
	out   *agentproto.Inbox
	errs  *agentproto.Inbox // nil with a terminal

	once   sync.Once
	exited chan struct{} // closed when status or err is known
	status int
	err    error
	over   chan struct{} // closed when nothing is received any more
}

func (p *process) exit(status int, err error) {
	p.once.Do(func() {
		p.status, p.err = status, err
		p.input.Close()
		close(p.exited)
	})
}

// receive handles what the agent sends, until the connection ends.
func (p *process) receive() {
	defer close(p.over)
	var err error
	if !background.Safely("agent exec", func() {
		for err == nil {
			err = p.handle()
		}
	}) {
		err = errors.New("a panic")
	}
	err = translate(err)
	p.exit(0, fmt.Errorf("connection to the agent: %w", err))
	p.out.Close(err)
	if p.errs != nil {
		p.errs.Close(err)
	}
	p.conn.Abort()
}

func (p *process) handle() error {
	t, payload, err := p.conn.Receive(agentproto.MaxFrame)
	if err != nil {
		return err
	}
	defer p.conn.Release()
	switch {
	case t == agentproto.Stdout:
		return p.out.Put(payload)
	case t == agentproto.Stderr && p.errs != nil:
		return p.errs.Put(payload)
	case t == agentproto.Credit:
		stream, n, err := agentproto.ParseCredit(payload)
		if err == nil && stream == agentproto.Stdin {
			err = p.input.Add(n)
		}
		return err
	case t == agentproto.Exit && len(payload) == 4:
		status := binary.BigEndian.Uint32(payload)
		if status > maxStatus {
			return fmt.Errorf("%w: exit status %d", agentproto.ErrFrame, status)
		}
		p.exit(int(status), nil)
		return nil
	}
	return fmt.Errorf("%w: type %d", agentproto.ErrFrame, t)
}

// Stdin returns the input of the process.
func (p *process) Stdin() io.WriteCloser {
	return agentproto.Outbox{Conn: p.conn, Type: agentproto.Stdin, Quota: p.input}
}

// Stdout returns the output of the process.
func (p *process) Stdout() io.Reader { return p.out }

// Stderr returns its error output; nil with a terminal.
func (p *process) Stderr() io.Reader {
	if p.errs == nil {
		return nil
	}
	return p.errs
}

// Resize changes the size of the terminal.
func (p *process) Resize(columns, rows int) error {
	if p.errs != nil {
		return errors.New("no terminal")
	}
	size := binary.BigEndian.AppendUint16(nil, uint16(columns)) //nolint:gosec // a terminal is not that large
	size = binary.BigEndian.AppendUint16(size, uint16(rows))    //nolint:gosec // the same
	return p.unlessExited(p.conn.Send(agentproto.Resize, size))
}

// Signal sends a signal to the process group.
func (p *process) Signal(number int) error {
	if number <= 0 || number > 64 {
		return fmt.Errorf("signal %d", number)
	}
	return p.unlessExited(p.conn.Send(agentproto.Signal, []byte{byte(number)}))
}

// unlessExited returns err, or nil if the process has exited.
func (p *process) unlessExited(err error) error {
	select {
	case <-p.exited:
		return nil
	default:
		return err
	}
}

// Wait returns the exit status.
func (p *process) Wait() (int, error) {
	<-p.exited
	return p.status, p.err
}

// Close kills the process if it still runs, waits for it, and closes the connection.
func (p *process) Close() error {
	if p.unlessExited(p.conn.Send(agentproto.Signal, []byte{byte(syscall.SIGKILL)})) == nil {
		t := time.NewTimer(closeTime)
		defer t.Stop()
		select {
		case <-p.exited:
		case <-t.C:
		}
	}
	p.conn.Abort()
	<-p.over
	return nil
}
