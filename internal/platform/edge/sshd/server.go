package sshd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/platform/engine"
)

// Engine is the part of an engine.Engine that the gateway needs.
type Engine interface {
	Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error)
	Dial(ctx context.Context, id, network, address string) (net.Conn, error)
}

// Config configures a Server.
type Config struct {
	// Listener accepts the clients. The server closes it.
	Listener net.Listener
	// HostKeyFile holds the server's key. It is created if it does not exist.
	HostKeyFile string
	// ShareHostKey, if several servers must have the same key, returns that key and stores
	// the result of create if there is none. The file, if it exists, comes first.
	ShareHostKey func(create func() ([]byte, error)) ([]byte, error)
	Engine       Engine
	Authorizer   Authorizer
	Git          Git // nil means that git cannot be used
	Hooks        Hooks
	Limits       Limits
	// SFTPServers are paths of sftp servers inside an instance, to be tried before those
	// that distributions install. {{home}} stands for the home directory, as everywhere in
	// an engine.ExecRequest.
	SFTPServers []string
	Log         *slog.Logger // nil means none
	Clock       clock.Clock  // nil means the system's
}

// Access describes a login: user, instance and remote address.
type Access struct {
	Session
	Remote net.Addr
}

// Hooks are called on events. Each may be nil. They run on the connection's own goroutine,
// which waits for them.
type Hooks struct {
	// Authorized is called for every accepted login: audit.app.ssh-authorized.
	Authorized func(context.Context, Access)
	// Unauthorized is called for every refused login, with the reason:
	// audit.app.ssh-unauthorized. Fields that are not known are empty.
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

	byAddress *guessLimit
	byProcess *guessLimit
	visits    visits
	sessions  counters
	arriving  arrivals
	retired   atomic.Bool
	clients   background.WaitGroup
	// joining is held while a client is added, so that no one waits for the clients meanwhile.
	joining sync.Mutex
	join    atomic.Pointer[func(net.Conn) bool] // nil before Start
}

var _ background.Service = (*Server)(nil)

// New reads the host key, or creates one. No connection is accepted before Start.
func New(c Config) (*Server, error) {
	switch {
	case c.Listener == nil:
		return nil, errors.New("ssh gateway: no listener")
	case c.HostKeyFile == "":
		return nil, errors.New("ssh gateway: no host key file")
	case c.Engine == nil:
		return nil, errors.New("ssh gateway: no engine")
	case c.Authorizer == nil:
		return nil, errors.New("ssh gateway: no authorizer")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = clock.System("ssh timer")
	}
	s := &Server{c: c, limits: c.Limits.withDefaults()}
	s.byAddress = newGuessLimit(s.limits.AddressBurst, s.limits.AddressEvery, c.Clock)
	s.byProcess = newGuessLimit(s.limits.ProcessBurst, s.limits.ProcessEvery, c.Clock)
	var err error
	s.key, err = loadHostKey(c.HostKeyFile, c.ShareHostKey, c.Log)
	return s, err
}

// Fingerprint returns the SHA-256 of the host key in base64, without padding or prefix: 43
// characters, as cf expects it in the root document.
func (s *Server) Fingerprint() string { return fingerprint(s.key.PublicKey()) }

// Addr returns the address of the listener.
func (s *Server) Addr() net.Addr { return s.c.Listener.Addr() }

// Start starts accepting clients.
func (s *Server) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		join := func(conn net.Conn) bool { return s.admit(work, conn) }
		s.join.Store(&join)
		spawn(func() { s.accept(work) })
		return nil
	})
}

// Stop closes the listener and all connections, and waits for them.
func (s *Server) Stop() {
	s.Halt(func() { s.c.Listener.Close() })
	s.c.Listener.Close() // even if it was never started
}

// Retire stops accepting clients and waits until all have disconnected, or ctx is done. Stop
// has to follow.
func (s *Server) Retire(ctx context.Context) {
	s.retired.Store(true)
	s.awaitJoining()
	s.c.Listener.Close()
	select {
	case <-background.Async("ssh clients", func() error { s.clients.Wait(); return nil }):
	case <-ctx.Done():
	}
}

// Pauses after a failed accept, usually because of too many open files.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

func (s *Server) accept(ctx context.Context) {
	defer s.clients.Wait()
	defer s.awaitJoining() // the server is retired, or its context is done: no other client joins
	pause := firstPause
	for {
		conn, err := s.c.Listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return
		case errors.Is(err, net.ErrClosed) && s.retired.Load():
			return
		case errors.Is(err, net.ErrClosed):
			s.c.Log.Error("the ssh listener was closed unexpectedly")
			return
		case err != nil:
			s.c.Log.Warn("accepting an ssh client failed", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
			continue
		}
		pause = firstPause
		if !s.admit(ctx, conn) {
			conn.Close()
		}
	}
}

// contain keeps a panic in the handling of one client from affecting the others. It is
// deferred by every goroutine that works for a client.
func (s *Server) contain(end func()) {
	if r := recover(); r != nil {
		s.c.Log.Error("serving an ssh client failed", "error", background.Recovered("ssh connection", r))
		end()
	}
}
