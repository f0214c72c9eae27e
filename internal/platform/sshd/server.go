package sshd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
)

// Engine is what the gateway needs of an engine.Engine.
type Engine interface {
	Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error)
	Dial(ctx context.Context, id, network, address string) (net.Conn, error)
}

// Config is what a Server is made of.
type Config struct {
	// Listener is where clients come in. The server closes it.
	Listener net.Listener
	// HostKeyFile holds the server's key. It is created if it does not exist.
	HostKeyFile string
	Engine      Engine
	Authorizer  Authorizer
	Hooks       Hooks
	Limits      Limits
	// SFTPServers are paths of sftp servers, as seen from inside an instance,
	// to be tried before those that distributions install. {{home}} stands for
	// the home directory, as everywhere in an engine.ExecRequest.
	SFTPServers []string
	Log         *slog.Logger // nil means none
	Clock       Clock        // nil means the system's
}

// Access is who comes in, whereto and from where.
type Access struct {
	Session
	Remote net.Addr
}

// Hooks are told what happens. Each may be nil. They are called from the
// connection's own goroutine, which waits for them.
type Hooks struct {
	// Authorized is told of everybody who was let in: audit.app.ssh-authorized.
	Authorized func(context.Context, Access)
	// Unauthorized is told of everybody who was refused, and why:
	// audit.app.ssh-unauthorized. What is not known of him or of the app is
	// empty.
	Unauthorized func(ctx context.Context, a Access, why string)
	// Line writes a line of source SSH to the log of the app's instance.
	Line func(context.Context, Access, string)
}

// Server is the ssh gateway.
type Server struct {
	background.Part
	c      Config
	limits Limits
	key    ssh.Signer

	byAddress *guard
	byProcess *guard
	visits    visits
	sessions  counters
	arriving  arrivals
}

var _ background.Service = (*Server)(nil)

// New reads the host key, or makes one. Nothing is accepted before Start.
func New(c Config) (*Server, error) {
	switch {
	case c.Listener == nil:
		return nil, errors.New("ssh gateway: no listener")
	case c.HostKeyFile == "":
		return nil, errors.New("ssh gateway: no host key file")
	case c.Engine == nil:
		return nil, errors.New("ssh gateway: no engine")
	case c.Authorizer == nil:
		return nil, errors.New("ssh gateway: nobody to say who may come in")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	s := &Server{c: c, limits: c.Limits.withDefaults()}
	s.byAddress = newGuard(s.limits.AddressBurst, s.limits.AddressEvery, c.Clock)
	s.byProcess = newGuard(s.limits.ProcessBurst, s.limits.ProcessEvery, c.Clock)
	var err error
	s.key, err = loadHostKey(c.HostKeyFile, c.Log)
	return s, err
}

// Fingerprint is the SHA-256 of the host key in base64, without padding or
// prefix: 43 characters, as cf expects it in the root document.
func (s *Server) Fingerprint() string { return fingerprint(s.key.PublicKey()) }

// Addr is where clients come in.
func (s *Server) Addr() net.Addr { return s.c.Listener.Addr() }

// Start begins to accept clients.
func (s *Server) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { s.accept(work) })
		return nil
	})
}

// Stop closes the listener, ends all connections and waits for them.
func (s *Server) Stop() {
	s.Halt(func() { s.c.Listener.Close() })
	s.c.Listener.Close() // also when it was never started
}

// The pauses when a connection cannot be accepted: usually because there are
// too many open files.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

func (s *Server) accept(ctx context.Context) {
	var all background.WaitGroup
	defer all.Wait()
	pause := firstPause
	for {
		conn, err := s.c.Listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			s.c.Log.Error("the ssh listener was closed by somebody else")
			return
		case err != nil:
			s.c.Log.Warn("an ssh client could not be accepted", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
			continue
		}
		pause = firstPause
		arrival := s.arriving.take(addressKey(conn.RemoteAddr()), s.limits.Handshakes, max(s.limits.Handshakes/4, 1), func() { conn.Close() })
		if arrival == nil {
			conn.Close()
			s.c.Log.Warn("too many ssh clients arrive at once: one was turned away", "remote", conn.RemoteAddr().String())
			continue
		}
		all.Go("ssh connection", func() { s.serve(ctx, conn, arrival) })
	}
}

// contain keeps a mistake in the handling of one client from ending the
// others. It is deferred by every goroutine that works for a client.
func (s *Server) contain(end func()) {
	if r := recover(); r != nil {
		s.c.Log.Error("the handling of an ssh client failed", "error", background.Recovered("ssh connection", r))
		end()
	}
}
