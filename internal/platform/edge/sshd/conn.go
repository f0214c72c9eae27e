package sshd

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/base/logging"
	"ingot/internal/platform/engine"
)

// connection is the connection of one client.
type connection struct {
	server *Server
	conn   *activeConn
	end    context.CancelFunc
	slots  slots // of its session
	access Access
	git    *gitLogin // nil unless the client wants to use git
	// open is the number of open channels.
	open atomic.Int32
}

// errDenied is the only text for most refused clients, in the words of OpenSSH.
var errDenied = errors.New("permission denied")

// denial returns the error for a refused client. An authenticated user who may see the app
// learns the reason; cf does not show it, other clients do.
func denial(err error) error {
	switch fault.CodeOf(err) {
	case fault.FeatureDisabled, fault.Unprocessable, fault.RateLimited:
		return &ssh.BannerError{Err: errDenied, Message: "refused: " + reason(err) + "\r\n"}
	}
	return errDenied
}

// reason returns the reason of a refusal as text.
func reason(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return strings.Join(f.Messages(), "; ")
	}
	return err.Error()
}

// serve serves a client from its first byte to its last.
func (s *Server) serve(ctx context.Context, raw net.Conn, arrival *arrival) {
	defer arrival.release()
	closing := ctx
	ctx, end := context.WithCancel(logging.With(ctx, "remote", raw.RemoteAddr().String()))
	defer end()
	defer s.contain(end)
	defer raw.Close()
	stop := background.OnDone(ctx, "ssh connection", func() { raw.Close() })
	defer stop()

	c := &connection{server: s, conn: newActiveConn(raw, s.c.Clock), end: end, slots: slots{counters: &s.sessions}}
	defer c.slots.release()
	tooSlow := s.c.Clock.AfterFunc(s.limits.HandshakeTimeout, end)
	conn, channels, requests, err := ssh.NewServerConn(c.conn, c.config(ctx, closing))
	tooSlow()
	arrival.release()
	if err != nil {
		s.c.Log.DebugContext(ctx, "ssh handshake failed", "error", err)
		return
	}
	defer conn.Close()
	if c.git != nil {
		c.serveGit(ctx, channels, requests)
	} else {
		c.serve(ctx, channels, requests)
	}
	_ = conn.Wait() // the reason of its end is not of interest
}

// config returns the configuration for one connection: its callback sets the session.
func (c *connection) config(ctx, closing context.Context) *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		MaxAuthTries:  authTries,
		ServerVersion: "SSH-2.0-Ingot",
		PasswordCallback: func(meta ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			var err error
			if meta.User() == gitName && c.server.c.Git != nil {
				err = c.authenticateGit(ctx, closing, string(password))
			} else {
				err = c.authenticate(ctx, meta.User(), string(password))
			}
			if err != nil {
				return nil, denial(err)
			}
			return &ssh.Permissions{}, nil
		},
	}
	config.AddHostKey(c.server.key)
	return config
}

// authenticate authenticates the client, and logs the reason of a refusal.
func (c *connection) authenticate(ctx context.Context, user, code string) error {
	s := c.server
	process, index, ok := parseUser(user)
	if !ok {
		// The name is not logged: it may be a password typed by mistake.
		s.c.Log.InfoContext(ctx, "ssh refused: the user name is not cf:PROCESS-GUID/INDEX")
		return errDenied
	}
	remote := c.conn.RemoteAddr()
	c.access = Access{Session: Session{ProcessGUID: process, Index: index}, Remote: remote}
	refuse := func(err error) error {
		s.c.Log.InfoContext(ctx, "ssh refused", "process", process, "index", index, "user", c.access.UserName, "error", err)
		if f := s.c.Hooks.Unauthorized; f != nil {
			f(context.WithoutCancel(ctx), c.access, reason(err))
		}
		return err
	}

	address := addressKey(remote)
	if !s.byAddress.take(address) {
		s.c.Log.InfoContext(ctx, "ssh refused: too many wrong passwords from this address", "process", process)
		return errDenied
	}
	known := s.visits.known(process, address, s.c.Clock.Now())
	if !known && !s.byProcess.take(process) {
		s.byAddress.give(address)
		s.c.Log.InfoContext(ctx, "ssh refused: too many wrong passwords for this process", "process", process)
		return errDenied
	}
	giveBack := func() {
		s.byAddress.give(address)
		if !known {
			s.byProcess.give(process)
		}
	}
	if !c.slots.take("", s.limits.Sessions) {
		giveBack()
		return refuse(fault.New(fault.RateLimited, "there are %d ssh connections already", s.limits.Sessions))
	}
	session, err := s.c.Authorizer.Authorize(ctx, code, process, index, remote)
	if err == nil && session.InstanceID == "" {
		err = errors.New("the authorizer returned no instance")
	}
	if err == nil || !refused(err) {
		giveBack()
	}
	if err == nil {
		s.visits.note(process, address, s.c.Clock.Now())
	}
	session.ProcessGUID, session.Index = process, index
	c.access.Session = session
	if err != nil {
		c.slots.release()
		if refused(err) {
			return refuse(err)
		}
		s.c.Log.ErrorContext(ctx, "authorizing an ssh client failed", "process", process, "index", index, "error", err)
		return err
	}
	if !c.slots.take("instance "+session.InstanceID, s.limits.InstanceSessions) {
		c.slots.release()
		return refuse(fault.New(fault.RateLimited, "the instance has %d ssh connections already", s.limits.InstanceSessions))
	}
	if !c.slots.take("user "+session.UserGUID, s.limits.UserSessions) {
		c.slots.release()
		return refuse(fault.New(fault.RateLimited, "the user has %d ssh connections already", s.limits.UserSessions))
	}
	return nil
}

// serve serves the authenticated connection.
func (c *connection) serve(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
	s := c.server
	ctx = logging.With(logging.With(ctx, "app", c.access.AppGUID), "instance", c.access.InstanceID)
	from := c.access.Remote.String()
	s.c.Log.InfoContext(ctx, "ssh connection opened", "user", c.access.UserName, "index", c.access.Index)
	if f := s.c.Hooks.Authorized; f != nil {
		f(context.WithoutCancel(ctx), c.access)
	}
	c.line(ctx, "Successful remote access by "+from)
	c.channels(ctx, channels, requests, s.limits.Channels)
	c.line(ctx, "Remote access ended for "+from)
	s.c.Log.InfoContext(ctx, "ssh connection closed", "user", c.access.UserName, "index", c.access.Index)
}

// channels serves all channels of the connection, at most so many at a time, until its end.
func (c *connection) channels(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request,
	most int) {
	s := c.server
	stopIdle := c.watchIdle(ctx)
	var all background.WaitGroup
	all.Go("ssh connection", func() {
		defer s.contain(c.end)
		c.global(requests)
	})
	for nc := range channels {
		if c.open.Add(1) > int32(most) { //nolint:gosec // a limit
			c.open.Add(-1)
			_ = nc.Reject(ssh.ResourceShortage, "this connection has too many channels")
			continue
		}
		all.Go("ssh connection", func() {
			defer s.contain(c.end)
			defer c.open.Add(-1)
			c.channel(ctx, nc)
		})
	}
	c.end()
	stopIdle()
	all.Wait()
}

// line writes to the app's log, even after the connection was closed.
func (c *connection) line(ctx context.Context, text string) {
	if f := c.server.c.Hooks.Line; f != nil {
		f(context.WithoutCancel(ctx), c.access, text)
	}
}

// global answers requests about the whole connection: keep-alives, and nothing else.
func (c *connection) global(requests <-chan *ssh.Request) {
	for r := range requests {
		switch r.Type {
		case "keepalive@cloudfoundry.org", "keepalive@openssh.com":
			_ = r.Reply(true, nil)
		default:
			_ = r.Reply(false, nil)
		}
	}
}

func (c *connection) channel(ctx context.Context, nc ssh.NewChannel) {
	switch kind := nc.ChannelType(); {
	case kind == "session":
		c.session(ctx, nc)
	case kind == "direct-tcpip" && c.git == nil:
		c.forward(ctx, nc)
	case c.git != nil:
		_ = nc.Reject(ssh.UnknownChannelType, "only git is served")
	default:
		_ = nc.Reject(ssh.UnknownChannelType, "only sessions and forwarding to the instance are served")
	}
}

// gone closes the connection if an error says that the instance no longer exists.
func (c *connection) gone(err error) {
	if errors.Is(err, engine.ErrNotFound) {
		c.end()
	}
}

// watchIdle closes the connection when it has been idle for too long.
func (c *connection) watchIdle(ctx context.Context) (stop func()) {
	s := c.server
	var mu sync.Mutex
	var cancel func()
	stopped := false
	var check func()
	arm := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			cancel = s.c.Clock.AfterFunc(d, check)
		}
	}
	check = func() {
		left := s.limits.IdleTimeout - c.conn.idle()
		if left > 0 {
			arm(left)
			return
		}
		s.c.Log.InfoContext(ctx, "closing an idle ssh connection", "timeout", s.limits.IdleTimeout.String())
		c.end()
	}
	arm(s.limits.IdleTimeout)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		if cancel != nil {
			cancel()
		}
	}
}

// activeConn records the time of the last activity of a connection.
type activeConn struct {
	net.Conn
	clock clock.Clock
	since time.Time
	last  atomic.Int64 // a time.Duration after since
}

func newActiveConn(conn net.Conn, clock clock.Clock) *activeConn {
	return &activeConn{Conn: conn, clock: clock, since: clock.Now()}
}

// passed returns the time since the start.
func (a *activeConn) passed() time.Duration { return a.clock.Now().Sub(a.since) }

// idle returns the time since the last activity.
func (a *activeConn) idle() time.Duration { return a.passed() - time.Duration(a.last.Load()) }

func (a *activeConn) note(n int) {
	if n > 0 {
		a.last.Store(int64(a.passed()))
	}
}

func (a *activeConn) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	a.note(n)
	return n, err
}

func (a *activeConn) Write(b []byte) (int, error) {
	n, err := a.Conn.Write(b)
	a.note(n)
	return n, err
}
