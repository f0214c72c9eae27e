package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/server/sockets"
)

// Work is what a running server hands over. Its methods are not called concurrently.
type Work interface {
	// Admit returns an error if process pid may not replace the server.
	Admit(pid int) error
	// Spawn starts the successor, which then connects. exited delivers its end.
	Spawn() (pid int, exited <-chan error, err error)
	// Sockets returns copies of the listening sockets.
	Sockets() ([]sockets.Socket, error)
	// Yield stops all work except connections to apps, and returns the locked file of
	// the data directory, which stays open.
	Yield() (lock *os.File, err error)
	// Resume continues the work after Yield; why says why there is no successor. It fails
	// if the server cannot continue.
	Resume(why error) error
	// Release passes the rest to the successor, which serves.
	Release(next Peer)
}

// Control listens for the process that is to replace the server. It is a
// background.Service.
type Control struct {
	background.Part
	Dir     string
	Version string
	Work    Work
	Log     *slog.Logger

	listener *net.UnixListener
	mu       sync.Mutex
	busy     bool
	peer     *conn          // the process of the attempt
	next     *Peer          // the successor that serves
	awaited  chan<- outcome // of the attempt that reload waits for
	serving  background.WaitGroup
}

// Start listens.
func (c *Control) Start(ctx context.Context) error {
	return c.Launch(ctx, func(_ context.Context, spawn func(func())) error {
		var err error
		if c.listener, err = listen(c.Dir, SocketName, "unixpacket"); err != nil {
			return fmt.Errorf("listen for a successor: %w", err)
		}
		spawn(c.accept)
		return nil
	})
}

// Stop stops listening. A conversation continues until its end.
func (c *Control) Stop() { c.Halt(func() { _ = c.listener.Close() }) }

// Cancel ends an attempt, because the server stops.
func (c *Control) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer != nil {
		_ = c.peer.send(message{Kind: kindError, Error: "the server was asked to stop"}) // it may be gone
		_ = c.peer.c.CloseRead()
	}
}

// Wait waits for the conversations.
func (c *Control) Wait() { c.serving.Wait() }

func (c *Control) accept() {
	for {
		one, err := c.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			c.Log.Warn("accepting a process that wants to replace the server failed", "error", err)
			time.Sleep(100 * time.Millisecond) // usually too many open files
			continue
		}
		c.serving.Go("handover", func() {
			peer := conn{one}
			if err := c.serve(peer); err != nil {
				_ = peer.send(message{Kind: kindError, Error: err.Error()}) // it may be gone
			}
			_ = one.Close()
		})
	}
}

// serve has one conversation. Its error is for the peer.
func (c *Control) serve(peer conn) error {
	if err := admitted(peer.c); err != nil {
		return err
	}
	m, fds, err := peer.receive(time.Now().Add(answerTime))
	closeAll(fds)
	switch {
	case err != nil:
		return err
	case m.Protocol != Protocol:
		return fmt.Errorf(
			"this server is ingot %s and hands over by protocol %d, not %d: stop it and start the other version", c.Version,
			Protocol, m.Protocol)
	case m.Kind == kindReload:
		return c.reload(peer)
	case m.Kind == kindReplace:
		return c.replace(peer, Peer{m.Version, m.PID})
	}
	return fmt.Errorf("unknown message %q", m.Kind)
}

// admitted checks that the peer is of the same user, or root.
func admitted(c *net.UnixConn) error {
	uid, err := peerUser(c)
	if err != nil {
		return err
	}
	if uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("user %d may not replace the server", uid)
	}
	return nil
}

var errBusy = errors.New("the server is already being replaced")

// begin starts an attempt; only one runs at a time.
func (c *Control) begin(peer *conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy || c.next != nil {
		return errBusy
	}
	c.busy, c.peer = true, peer
	return nil
}

func (c *Control) end(next *Peer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.peer, c.next = false, nil, next
	if c.awaited != nil {
		c.awaited <- outcome{next, err} // it has room for one, and there is one attempt
		c.awaited = nil
	}
}

// replace hands over to the peer.
func (c *Control) replace(peer conn, next Peer) (err error) {
	if err := c.Work.Admit(next.PID); err != nil {
		return err
	}
	if err := c.begin(&peer); err != nil {
		return err
	}
	released := false
	defer func() {
		if released {
			c.end(&next, nil)
		} else {
			c.end(nil, err)
		}
	}()
	list, err := c.Work.Sockets()
	if err != nil {
		return err
	}
	if err := peer.sendSockets(message{Kind: kindSockets, Version: c.Version, PID: os.Getpid()}, list); err != nil {
		return err
	}
	if _, _, err := peer.expect(kindYield, time.Time{}); err != nil {
		c.Log.Warn("a process that was to replace the server gave up; nothing was changed", "process", next.String(),
			"reason", err)
		return fmt.Errorf("%w; the server continues", err)
	}
	c.Log.Info("handing over to a new process", "process", next.String())
	lock, err := c.Work.Yield()
	if err == nil {
		err = passLock(peer, lock)
	}
	if err == nil {
		_, _, err = peer.expect(kindReady, time.Time{})
	}
	if err != nil {
		if stuck := c.Work.Resume(err); stuck != nil {
			return fmt.Errorf("%w; and %w", err, stuck)
		}
		return fmt.Errorf("%w; the server continues", err)
	}
	c.Work.Release(next)
	released = true
	_ = peer.send(message{Kind: kindReleased}) // it serves, whether it gets this or not
	return nil
}

func passLock(peer conn, lock *os.File) error {
	return peer.send(message{Kind: kindYielded}, int(lock.Fd())) //nolint:gosec // a descriptor
}

// outcome is how an attempt ended: with a successor or an error.
type outcome struct {
	next *Peer
	err  error
}

// reload starts a successor and waits for it.
func (c *Control) reload(peer conn) error {
	result := make(chan outcome, 1)
	c.mu.Lock()
	if c.busy || c.next != nil || c.awaited != nil {
		c.mu.Unlock()
		return errBusy
	}
	c.awaited = result
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.awaited = nil
		c.mu.Unlock()
	}()
	pid, exited, err := c.Work.Spawn()
	if err != nil {
		return fmt.Errorf("start the new process: %w", err)
	}
	c.Log.Info("started a new process to replace this one", "pid", pid)
	var o outcome
	select {
	case o = <-result:
	case o.err = <-exited:
		c.mu.Lock()
		busy := c.busy
		c.mu.Unlock()
		if busy { // the attempt says more
			o = <-result
		} else {
			o.err = fmt.Errorf("%w; the server continues, and its log says more", o.err)
		}
	}
	if o.next == nil {
		return fmt.Errorf("the new process did not start: %w", o.err)
	}
	return peer.send(message{Kind: kindDone, Version: o.next.Version, PID: o.next.PID})
}
