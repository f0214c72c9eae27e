//go:build linux

package agentserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// serveExec runs another process until the client closes the connection, which kills it.
func (a *Agent) serveExec(c *agentproto.Conn) error {
	var request agentproto.Exec
	if err := receive(c, agentproto.MaxDocument, &request); err != nil {
		return err
	}
	instance, launch, err := a.running()
	if err != nil {
		return err
	}
	if len(request.Args) == 0 || request.Args[0] == "" {
		return agentproto.Errorf(agentproto.Malformed, "nothing to run")
	}
	e := &execution{c: c, done: make(chan struct{})}
	theirs, err := e.open(request.Terminal)
	if err != nil {
		return err
	}
	exited := make(chan int, 1)
	e.signal, err = instance.Exec(a.member(request, launch), theirs, request.Terminal != nil,
		func(status int) { exited <- status })
	for _, f := range theirs {
		_ = f.Close() // the process has its own
	}
	if err != nil {
		e.close()
		if errors.Is(err, fs.ErrNotExist) {
			return agentproto.Errorf(agentproto.NotFound, "%s", err)
		}
		return agentproto.Errorf(agentproto.Refused, "%s", err)
	}
	e.run(exited)
	return nil
}

// member returns the process to start.
func (a *Agent) member(request agentproto.Exec, l *Launch) initproto.Member {
	env := slices.Concat(l.Spec.Members[0].Env, request.Env)
	if t := request.Terminal; t != nil && t.Term != "" {
		env = append(env, "TERM="+t.Term)
	}
	dir := request.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.c.Home, dir)
	}
	return initproto.Member{Name: "exec", Args: request.Args, Env: env, Dir: dir}
}

// execution is a process with its connection.
type execution struct {
	c      *agentproto.Conn
	signal func(syscall.Signal)
	done   chan struct{} // closed when the connection has ended

	in        io.WriteCloser
	out, errs *os.File // errs is nil with a terminal
	master    *os.File // of a terminal

	stdin          *agentproto.Inbox
	stdout, stderr *agentproto.Quota
}

// open creates the files of the process, and returns its ends.
func (e *execution) open(t *agentproto.Terminal) (theirs [3]*os.File, err error) {
	if t != nil {
		master, tty, err := openTerminal()
		if err != nil {
			return theirs, fmt.Errorf("terminal: %w", err)
		}
		e.in, e.out, e.master = keyboard{master}, master, master
		if t.Columns > 0 && t.Rows > 0 && t.Columns <= math.MaxUint16 && t.Rows <= math.MaxUint16 {
			_ = resize(master, uint16(t.Columns), uint16(t.Rows)) //nolint:gosec // checked; a terminal of another size works
		}
		return [3]*os.File{tty, tty, tty}, nil
	}
	var r, w [3]*os.File
	for i := range r {
		if r[i], w[i], err = os.Pipe(); err != nil {
			for _, f := range slices.Concat(r[:i], w[:i]) {
				_ = f.Close() // nothing was written to it
			}
			return theirs, err
		}
	}
	e.in, e.out, e.errs = w[0], r[1], r[2]
	return [3]*os.File{r[0], w[1], w[2]}, nil
}

// close closes the agent's ends.
func (e *execution) close() {
	for _, f := range []*os.File{e.out, e.errs} {
		if f != nil {
			_ = f.Close() // only read
		}
	}
	if e.master == nil {
		_ = e.in.Close() // it may be closed already
	}
}

// keyboard is the input of a terminal; closing it sends control-D.
type keyboard struct{ master *os.File }

func (k keyboard) Write(b []byte) (int, error) { return k.master.Write(b) }

func (k keyboard) Close() error {
	_, err := k.master.Write([]byte{4})
	return err
}

// run exchanges frames until the connection ends.
func (e *execution) run(exited <-chan int) {
	e.stdin = agentproto.NewInbox(func(n int) { _ = e.c.SendCredit(agentproto.Stdin, n) })
	e.stdout, e.stderr = agentproto.NewQuota(), agentproto.NewQuota()
	var work background.WaitGroup
	if e.c.SendJSON(agentproto.Document, struct{}{}) == nil {
		var outputs sync.WaitGroup
		outputs.Add(1)
		work.Go("agent exec", func() {
			defer outputs.Done()
			e.send(agentproto.Stdout, e.out, e.stdout)
		})
		if e.errs != nil {
			outputs.Add(1)
			work.Go("agent exec", func() {
				defer outputs.Done()
				e.send(agentproto.Stderr, e.errs, e.stderr)
			})
		}
		work.Go("agent exec", e.feed)
		work.Go("agent exec", func() { e.tellExit(exited, &outputs) })
		for e.handle() == nil {
		}
	}
	close(e.done)
	e.c.Abort()
	e.signal(syscall.SIGKILL)
	e.stdin.Close(io.ErrClosedPipe)
	e.stdout.Close()
	e.stderr.Close()
	e.close()
	work.Wait()
}

// send copies an output of the process.
func (e *execution) send(t agentproto.Type, from *os.File, quota *agentproto.Quota) {
	to := agentproto.Outbox{Conn: e.c, Type: t, Quota: quota}
	// When no process has a terminal open any more, reading fails with an error.
	_, _ = io.CopyBuffer(to, struct{ io.Reader }{from}, make([]byte, 8<<10))
	_ = to.Close() // the connection may have ended
}

// feed copies the input of the process.
func (e *execution) feed() {
	_, err := io.CopyBuffer(struct{ io.Writer }{e.in}, e.stdin, make([]byte, 8<<10))
	if err == nil {
		_ = e.in.Close() // the process may have exited
		return
	}
	_, _ = io.Copy(io.Discard, e.stdin) // no process reads it, but the client may go on
}

// tellExit sends the exit status. When both outputs have ended too, the client has a moment
// to close the connection.
func (e *execution) tellExit(exited <-chan int, outputs *sync.WaitGroup) {
	select {
	case status := <-exited:
		_ = e.c.Send(agentproto.Exit, binary.BigEndian.AppendUint32(nil, uint32(status))) //nolint:gosec // not negative
	case <-e.done:
		return
	}
	outputs.Wait()
	_ = e.c.SetReadDeadline(time.Now().Add(e.c.Patience))
}

// handle handles a frame of the client.
func (e *execution) handle() error {
	t, payload, err := e.c.Receive(agentproto.MaxFrame)
	if err != nil {
		return err
	}
	defer e.c.Release()
	switch {
	case t == agentproto.Stdin:
		return e.stdin.Put(payload)
	case t == agentproto.Signal && len(payload) == 1:
		e.signal(syscall.Signal(payload[0]))
		return nil
	case t == agentproto.Resize && len(payload) == 4 && e.master != nil:
		_ = resize(e.master, binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])) // it stays as it was
		return nil
	case t == agentproto.Credit:
		stream, n, err := agentproto.ParseCredit(payload)
		switch {
		case err != nil:
			return err
		case stream == agentproto.Stdout:
			return e.stdout.Add(n)
		case stream == agentproto.Stderr:
			return e.stderr.Add(n)
		}
	}
	return agentproto.ErrFrame
}
