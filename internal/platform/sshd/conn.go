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
	"ingot/internal/base/fault"
	"ingot/internal/base/logging"
	"ingot/internal/platform/engine"
)

// connection is one client.
type connection struct {
	server *Server
	conn   *activeConn
	end    context.CancelFunc
	places slots // of its session
	access Access
	// open is how many channels there are.
	open atomic.Int32
}

// errDenied is all that most refused clients are told, in the words of their own ssh.
var errDenied = errors.New("permission denied")

// denial is what a refused client is told. Who has proven who he is, and may
// know of the app, learns what stands in the way; cf does not show it, others do.
func denial(err error) error {
	switch fault.CodeOf(err) {
	case fault.FeatureDisabled, fault.Unprocessable, fault.RateLimited:
		return &ssh.BannerError{Err: errDenied, Message: "refused: " + reason(err) + "\r\n"}
	}
	return errDenied
}

// reason is why somebody is refused, in words for people.
func reason(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return strings.Join(f.Messages(), "; ")
	}
	return err.Error()
}

// serve handles a client from its first byte to its last.
func (s *Server) serve(ctx context.Context, raw net.Conn, arrival *arrival) {
	defer arrival.release()
	ctx, end := context.WithCancel(logging.With(ctx, "remote", raw.RemoteAddr().String()))
	defer end()
	defer s.contain(end)
	defer raw.Close()
	stop := background.OnDone(ctx, "ssh connection", func() { raw.Close() })
	defer stop()

	c := &connection{server: s, conn: newActiveConn(raw, s.c.Clock), end: end, places: slots{counters: &s.sessions}}
	defer c.places.release()
	tooSlow := s.c.Clock.AfterFunc(s.limits.HandshakeTimeout, end)
	conn, channels, requests, err := ssh.NewServerConn(c.conn, c.config(ctx))
	tooSlow()
	arrival.release()
	if err != nil {
		s.c.Log.DebugContext(ctx, "an ssh client did not get in", "error", err)
		return
	}
	defer conn.Close()
	c.serve(ctx, channels, requests)
	_ = conn.Wait() // how it ended is not of interest
}

// config is for one connection: the callback notes whom it let in.
func (c *connection) config(ctx context.Context) *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		MaxAuthTries:  authTries,
		ServerVersion: "SSH-2.0-Ingot",
		PasswordCallback: func(meta ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if err := c.authenticate(ctx, meta.User(), string(password)); err != nil {
				return nil, denial(err)
			}
			return &ssh.Permissions{}, nil
		},
	}
	config.AddHostKey(c.server.key)
	return config
}

// authenticate lets somebody in or not, and says in the log why not.
func (c *connection) authenticate(ctx context.Context, user, code string) error {
	s := c.server
	process, index, ok := parseUser(user)
	if !ok {
		// The name may be a password typed in the wrong place.
		s.c.Log.InfoContext(ctx, "ssh refused: the user is not named cf:PROCESS/INDEX")
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
	if !c.places.take("", s.limits.Sessions) {
		giveBack()
		return refuse(fault.New(fault.RateLimited, "there are %d ssh connections already", s.limits.Sessions))
	}
	session, err := s.c.Authorizer.Authorize(ctx, code, process, index, remote)
	if err == nil && session.InstanceID == "" {
		err = errors.New("the authorizer named no instance")
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
		c.places.release()
		if refused(err) {
			return refuse(err)
		}
		s.c.Log.ErrorContext(ctx, "nobody could say whether an ssh client may come in", "process", process, "index", index, "error", err)
		return err
	}
	if !c.places.take("instance "+session.InstanceID, s.limits.InstanceSessions) {
		c.places.release()
		return refuse(fault.New(fault.RateLimited, "the instance has %d ssh connections already", s.limits.InstanceSessions))
	}
	if !c.places.take("user "+session.UserGUID, s.limits.UserSessions) {
		c.places.release()
		return refuse(fault.New(fault.RateLimited, "the user has %d ssh connections already", s.limits.UserSessions))
	}
	return nil
}

// serve is the open connection.
func (c *connection) serve(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
	s := c.server
	ctx = logging.With(logging.With(ctx, "app", c.access.AppGUID), "instance", c.access.InstanceID)
	from := c.access.Remote.String()
	s.c.Log.InfoContext(ctx, "ssh begins", "user", c.access.UserName, "index", c.access.Index)
	if f := s.c.Hooks.Authorized; f != nil {
		f(context.WithoutCancel(ctx), c.access)
	}
	c.line(ctx, "Successful remote access by "+from)
	stopIdle := c.watchIdle(ctx)

	var all background.WaitGroup
	all.Go("ssh connection", func() {
		defer s.contain(c.end)
		c.global(requests)
	})
	for nc := range channels {
		if c.open.Add(1) > int32(s.limits.Channels) {
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
	c.line(ctx, "Remote access ended for "+from)
	s.c.Log.InfoContext(ctx, "ssh ended", "user", c.access.UserName, "index", c.access.Index)
}

// line writes to the app's log, also when the connection has ended.
func (c *connection) line(ctx context.Context, text string) {
	if f := c.server.c.Hooks.Line; f != nil {
		f(context.WithoutCancel(ctx), c.access, text)
	}
}

// global answers requests that are about the whole connection: keep-alives,
// and nothing else.
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
	switch nc.ChannelType() {
	case "session":
		c.session(ctx, nc)
	case "direct-tcpip":
		c.forward(ctx, nc)
	default:
		_ = nc.Reject(ssh.UnknownChannelType, "only sessions and forwarding to the instance are served")
	}
}

// gone ends the connection when an error says that there is no instance any
// more: nothing can be done here again.
func (c *connection) gone(err error) {
	if errors.Is(err, engine.ErrNotFound) {
		c.end()
	}
}

// watchIdle ends the connection when nothing has passed over it for a while.
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
		s.c.Log.InfoContext(ctx, "an ssh connection was idle for too long", "timeout", s.limits.IdleTimeout.String())
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

// activeConn remembers when something last passed over a connection.
type activeConn struct {
	net.Conn
	clock Clock
	since time.Time
	last  atomic.Int64 // a time.Duration after since
}

func newActiveConn(conn net.Conn, clock Clock) *activeConn {
	return &activeConn{Conn: conn, clock: clock, since: clock.Now()}
}

// passed is the time since the beginning.
func (a *activeConn) passed() time.Duration { return a.clock.Now().Sub(a.since) }

// idle is how long nothing has passed over it.
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
