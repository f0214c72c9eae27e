package handover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/server/sockets"
)

// yieldTime is how long a server may take to give up its work: for API requests, ssh
// sessions, and the parts that stop.
const yieldTime = 3 * time.Minute

// Predecessor is the running server, seen from the process that replaces it.
type Predecessor struct {
	Peer
	conn
	stop func() bool
}

// Connect asks the server of a data directory for its sockets. Without a server the
// predecessor is nil.
func Connect(ctx context.Context, dir, version string) (*Predecessor, []sockets.Socket, error) {
	c, err := dial(dir)
	if errors.Is(err, errNone) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the running server: %w", err)
	}
	p := &Predecessor{conn: c, stop: background.OnDone(ctx, "handover", func() { _ = c.c.Close() })}
	err = p.send(message{Kind: kindReplace, Protocol: Protocol, Version: version, PID: os.Getpid()})
	var list []sockets.Socket
	if err == nil {
		p.Peer, list, err = p.receiveSockets()
	}
	if err != nil {
		p.Close()
		return nil, nil, fmt.Errorf("the running server does not hand over: %w", err)
	}
	return p, list, nil
}

// Yield asks the server to give up its work, and returns the locked file of its data
// directory. The lock is nil if the server died instead: then it is free.
func (p *Predecessor) Yield() (lock *os.File, err error) {
	err = p.send(message{Kind: kindYield})
	var fds []int
	if err == nil {
		_, fds, err = p.expect(kindYielded, time.Now().Add(yieldTime))
	}
	if errors.Is(err, errGone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the running server does not give up its work: %w", err)
	}
	if len(fds) != 1 {
		closeAll(fds)
		return nil, fmt.Errorf("the running server passed %d locks", len(fds))
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "lock"), nil //nolint:gosec // a descriptor
}

// Ready says that this process serves now, and waits until the predecessor has released
// the lock. It reports whether the predecessor was still there.
func (p *Predecessor) Ready() (alive bool, err error) {
	if err = p.send(message{Kind: kindReady}); err == nil {
		_, _, err = p.expect(kindReleased, time.Now().Add(releaseTime))
	}
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// Fail says why this process does not replace the predecessor, which takes its work up
// again.
func (p *Predecessor) Fail(why error) {
	_ = p.send(message{Kind: kindError, Error: why.Error()}) // it may be gone
	p.Close()
}

// Close ends the conversation.
func (p *Predecessor) Close() {
	p.stop()
	_ = p.c.Close()
}

// Reload asks the server of a data directory to start its successor from the program's
// file, and waits until that serves.
func Reload(ctx context.Context, dir string) (now Peer, err error) {
	c, err := dial(dir)
	if err != nil {
		return now, err
	}
	stop := background.OnDone(ctx, "reload", func() { _ = c.c.Close() })
	defer func() {
		stop()
		_ = c.c.Close()
	}()
	if err := c.send(message{Kind: kindReload, Protocol: Protocol}); err != nil {
		return now, err
	}
	m, _, err := c.expect(kindDone, time.Time{})
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if errors.Is(err, errGone) {
		err = errors.New("the server has ended; look at its log, and start it with 'ingot up'")
	}
	return Peer{m.Version, m.PID}, err
}
