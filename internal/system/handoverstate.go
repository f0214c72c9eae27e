package system

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/base/web"
	"ingot/internal/platform/edge/router/accesslog"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/server/certs"
	"ingot/internal/server/front"
	"ingot/internal/server/handover"
	"ingot/internal/server/sockets"
	"ingot/internal/server/steps"
	"ingot/internal/server/succession"
)

const (
	// sshTime is how long ssh sessions may continue after another process asked to take over.
	// The server works as before meanwhile.
	sshTime = 10 * time.Second
	// apiTime is how long API requests may take then, uploads for example. New ones wait.
	apiTime = 30 * time.Second
	// idleTime is how long connections without a request are kept after that, so that a
	// request that is on its way is served.
	idleTime = 15 * time.Second
	// stopTime is the same for a server that stops while its sockets stay open.
	stopTime = 2 * time.Second
)

// handoverState is what a server inherits from the process before it, and leaves to the one
// after it.
type handoverState struct {
	sockets *sockets.Set // nil means that all are opened
	// adopt returns the directory that the process before has locked; nil means that there
	// was none.
	adopt   func() (*datadir.Dir, error)
	dir     *datadir.Dir
	runtime *runtime
	lines   *accesslog.Relay
	next    *handover.Forwarder
}

// Inherit implements succession.Server.
func (s *System) Inherit(set *sockets.Set, adopt func() (*datadir.Dir, error)) {
	s.handover.sockets, s.handover.adopt = set, adopt
}

// Sockets implements succession.Server.
func (s *System) Sockets() *sockets.Set { return s.handover.sockets }

// Lock implements succession.Server.
func (s *System) Lock() (*os.File, error) { return s.handover.dir.Lock() }

// Left implements succession.Server.
func (s *System) Left() bool { return s.steps.Left() }

// HealthURL implements succession.Server. The operator's listener is asked, because connections
// to the others are limited, and clients may use them all.
func (s *System) HealthURL() string { return s.Endpoints().Admin + "/readyz" }

// NewSuccession returns a server that another process can replace. It fails when the
// configuration is not valid.
func NewSuccession(c Config, p succession.Process) (*succession.Succession[*System], error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	return succession.New(succession.Options[*System]{
		DataDir: c.DataDir, Log: c.Log, New: func() (*System, error) { return New(c) }, Check: c.checkFiles, Process: p,
	})
}

// checkFiles reads the files that a start needs, before the server that is replaced gives
// up its work: to continue, it would have to read them again.
func (c Config) checkFiles() error {
	if err := datadir.Readable(c.DataDir); err != nil {
		return err
	}
	if _, err := datadir.ReadKeys(c.DataDir, c.EncryptionKey); err != nil {
		return err
	}
	if err := choice.Check(c.DataDir); err != nil {
		return err
	}
	if _, err := certs.OpenFiles(c.pairs(), c.Log); err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	for _, authorities := range []struct{ flag, file string }{{"client-ca", c.ClientCA}, {"acme-ca", c.ACMECA}} {
		if authorities.file == "" {
			continue
		}
		if _, err := certs.Pool(authorities.file); err != nil {
			return fmt.Errorf("--%s: %w", authorities.flag, err)
		}
	}
	if err := checkPlan(c.MailConfig); err != nil {
		return fmt.Errorf("--mail-plan: %w", err)
	}
	if c.DKIMKeyFile != "" {
		_, err := c.dkimKey()
		return err
	}
	return nil
}

// lockAndListen locks the data directory and opens the ports. A process that replaces another
// opens its ports first: if it cannot, nothing has changed.
func (s *System) lockAndListen(ctx context.Context) (*datadir.Dir, *listeners, error) {
	c := s.config
	var ports *listeners
	var err error
	open := func() error {
		ports, err = openListeners(ctx, c, s.handover.sockets)
		return err
	}
	if s.handover.adopt == nil {
		s.handover.dir, err = datadir.Open(c.DataDir, c.Log)
		if err == nil {
			s.steps.Add(steps.Own, s.handover.dir.Close)
			// A server that was killed may have left a file with old endpoints.
			_ = os.Remove(s.handover.dir.File(endpointsFile))
			err = open()
		}
		return s.handover.dir, ports, err
	}
	if err := open(); err != nil {
		return nil, nil, err
	}
	if s.handover.dir, err = s.handover.adopt(); err != nil {
		ports.close()
		return nil, nil, err
	}
	s.steps.Add(steps.Own, s.handover.dir.Close)
	return s.handover.dir, ports, nil
}

// handlerLines is the name of the handler for access lines of the process before.
const handlerLines = "lines"

// serveForwarded serves what the process before this one passes on, if there was one.
func (s *System) serveForwarded(ctx context.Context, b *frontend, r *runtime) error {
	if s.handover.adopt == nil {
		return nil
	}
	log := s.config.Log
	l, err := handover.ListenForward(s.config.DataDir)
	if err != nil {
		return err
	}
	server := web.NewServer(l, handover.Forwarded(map[string]http.Handler{
		front.ListenerAll:           web.Pipeline(b.front, web.FormatV3, log),
		front.ListenerNotifications: web.Pipeline(b.front.Notifications(), web.FormatNotifications, log),
		handlerLines:                accesslog.Receive(r.logs, log),
	}), log)
	s.steps.Add(steps.Edge, server.Stop)
	b.servers = append(b.servers, server)
	return server.Start(ctx)
}

// all returns the servers of all clients but the operator.
func (b *frontend) all() []*web.Server { return slices.Concat(b.edge, b.servers) }

// Yield implements succession.Server.
func (s *System) Yield() {
	b, r, log := s.built.Load(), s.handover.runtime, s.config.Log
	s.handover.sockets.KeepWith(nil) // closing them here does not mean that they are not needed
	sessions, cancel := context.WithTimeout(context.Background(), sshTime)
	b.gateway.Retire(sessions)
	cancel()
	finished := b.front.Gate.Shut()
	for _, server := range b.all() {
		server.EndStreams()
	}
	select {
	case <-finished:
	case <-time.After(apiTime):
		log.Warn("some API requests did not finish in time and fail", "limit", apiTime.String())
	}
	s.handover.lines = &accesslog.Relay{Log: log}
	r.access.Redirect(s.handover.lines)
	s.steps.UnwindWork()
}

// Release implements succession.Server: it accepts no more connections, and leaves the data
// directory.
func (s *System) Release() {
	b := s.built.Load()
	s.steps.Leave()
	s.handover.next = handover.NewForwarder(s.config.DataDir, s.config.Log)
	b.front.Gate.Pass(s.handover.next)
	s.retire()
	s.handover.lines.Pass(func(lines []byte) error {
		return s.handover.next.Post(context.Background(),
			handlerLines, lines)
	})
	s.handover.dir.Leave()
}

// retire accepts no more connections and closes those that exist after their next response.
func (s *System) retire() {
	for _, server := range s.built.Load().all() {
		server.Retire()
	}
	s.handover.runtime.tcp.Retire()
	if broker := s.handover.runtime.broker.Load(); broker != nil && s.steps.Left() {
		broker.Retire()
	}
}

// Finish implements succession.Server.
func (s *System) Finish(stop <-chan struct{}) {
	if !s.await(idleTime, stop) {
		for _, server := range s.built.Load().all() {
			server.CloseIdle()
		}
		_, all := s.built.Load().fastPaths()
		for _, fastPath := range all {
			fastPath.CloseIdle()
		}
		if n := s.connections(); n > 0 {
			s.config.Log.Info("waiting for connections that are still in use", "connections", n, "limit",
				s.config.DrainTimeout.String())
		}
		if !s.await(s.config.DrainTimeout, stop) {
			s.config.Log.Info("closing connections that are still in use", "connections", s.connections())
		}
	}
	s.Stop()
	s.handover.next.Close()
}

// connections returns how many connections of clients are open.
func (s *System) connections() int {
	b, r := s.built.Load(), s.handover.runtime
	n := r.proxy.Serving() + r.tcp.Connections()
	if broker := r.broker.Load(); broker != nil && s.steps.Left() {
		n += broker.Connections()
	}
	for _, server := range b.all() {
		n += server.Connections()
	}
	_, all := b.fastPaths()
	for _, fastPath := range all {
		n += fastPath.Connections()
	}
	return n
}

// await waits until no connection is left; it reports whether that is so.
func (s *System) await(limit time.Duration, stop <-chan struct{}) bool {
	end := time.NewTimer(limit)
	defer end.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for s.connections() > 0 {
		select {
		case <-look.C:
		case <-stop:
			return false
		case <-end.C:
			return false
		}
	}
	return true
}

// Stop waits for requests to finish, stops every part, and releases the data directory.
func (s *System) Stop() {
	s.part.HaltGently(func() {
		if s.handover.sockets.Kept() && !s.steps.Left() && s.handover.runtime != nil {
			// New connections wait for the next process, so there is time for those that exist.
			s.handover.sockets.KeepWith(nil)
			s.retire()
			s.await(stopTime, nil)
		}
		s.steps.Unwind()
	})
}
