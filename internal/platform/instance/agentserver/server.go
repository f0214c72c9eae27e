//go:build linux

package agentserver

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// Config configures an agent.
type Config struct {
	Instance string
	Seed     [ed25519.SeedSize]byte
	CA       []byte // certificates in DER
	IP       net.IP
	Home     string
	// Output gets every record, besides the ring.
	Output io.Writer
	// LaunchTime is how long the agent waits for a launch; 5 minutes. Linger is how long it
	// waits after the end for acknowledgements, if the launch does not say so; 15 minutes.
	LaunchTime, Linger time.Duration
	// Patience and Beat are those of the protocol if they are zero.
	Patience, Beat time.Duration
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	or(&c.LaunchTime, defaultLaunchTime)
	or(&c.Linger, defaultLinger)
	or(&c.Patience, agentproto.Patience)
	or(&c.Beat, agentproto.Beat)
	return c
}

const (
	defaultLaunchTime = 5 * time.Minute
	defaultLinger     = 15 * time.Minute
	// lastLinger is how long the agent stays after SIGTERM if records are left.
	lastLinger = 20 * time.Second
)

// Protect makes the process's memory, environment and files inaccessible to other processes
// of the same user. It has to be called first.
func Protect() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0); errno != 0 {
		return fmt.Errorf("protecting the agent's memory: %w", errno)
	}
	return nil
}

// FromEnvironment reads the configuration from the environment and removes it there.
func FromEnvironment() (Config, error) {
	take := func(name string) string {
		value := os.Getenv(name)
		_ = os.Unsetenv(name) // fails only for impossible names
		return value
	}
	c := Config{Instance: take(agentproto.EnvInstance), IP: net.ParseIP(take(agentproto.EnvIP))}
	seed, errSeed := base64.StdEncoding.DecodeString(take(agentproto.EnvSeed))
	ca, errCA := base64.StdEncoding.DecodeString(take(agentproto.EnvCA))
	switch {
	case c.Instance == "":
		return c, errors.New(agentproto.EnvInstance + " is not set")
	case c.IP == nil:
		return c, errors.New(agentproto.EnvIP + " is not an address")
	case errSeed != nil || len(seed) != ed25519.SeedSize:
		return c, fmt.Errorf("%s is not %d bytes in base64", agentproto.EnvSeed, ed25519.SeedSize)
	case errCA != nil || len(ca) == 0:
		return c, errors.New(agentproto.EnvCA + " is not a certificate in base64")
	}
	c.Seed, c.CA = [ed25519.SeedSize]byte(seed), ca
	return c, nil
}

// Instance is what ingot-init supervises. Its methods may be called by any goroutine.
type Instance interface {
	// Exec starts a process with these files as its input and outputs, in a session of its
	// own. exited is called once with its exit status, and must not block. The returned
	// function signals its process group; after the exit it does nothing.
	Exec(m initproto.Member, files [3]*os.File, terminal bool, exited func(status int)) (signal func(syscall.Signal),
		err error)
	// Stop stops the members, gracefully or at once.
	Stop(kill bool)
}

type phase int

const (
	waiting phase = iota
	launching
	launched
	ended
)

// Agent serves one instance.
type Agent struct {
	c        Config
	secure   *tls.Config
	listener net.Listener
	ready    *readyPort
	ring     *ring
	home     *os.Root
	usage    usage

	launches chan *Launch
	leave    chan struct{} // closed when the agent has to leave at once

	mu       sync.Mutex
	phase    phase
	left     bool // leave is closed
	launch   *Launch
	instance Instance
	state    []byte // the newest initproto.State
	strange  map[netip.Addr]int
	conns    int
}

// The limits of connections. Those whose client is not known yet are also limited for each
// address, so that one address cannot use up all of them.
const (
	maxConns       = 512
	maxStrange     = 64
	maxStrangeFrom = 16
)

// Listen starts an agent that waits for its launch.
func Listen(c Config) (*Agent, error) {
	c = c.withDefaults()
	secure, err := agentproto.ServerConfig(c.Seed, c.CA)
	if err != nil {
		return nil, err
	}
	c.Seed = [ed25519.SeedSize]byte{}
	home, err := os.OpenRoot(c.Home)
	if err != nil {
		return nil, err
	}
	ready, err := newReadyPort(c.IP, agentproto.ReadyPort)
	if err != nil {
		return nil, errors.Join(err, home.Close())
	}
	address := net.JoinHostPort(c.IP.String(), strconv.Itoa(agentproto.Port))
	listener, err := net.Listen("tcp", address) //nolint:noctx // lives as long as the process
	if err != nil {
		return nil, errors.Join(err, ready.close(), home.Close())
	}
	a := &Agent{
		c: c, secure: secure, listener: listener, ready: ready, home: home,
		ring: newRing(c.Home, os.TempDir()), usage: newUsage(),
		launches: make(chan *Launch), leave: make(chan struct{}), strange: map[netip.Addr]int{},
	}
	background.Go("agent", a.accept)
	return a, nil
}

// Close stops listening. Connections end with the process.
func (a *Agent) Close() error {
	return errors.Join(a.listener.Close(), a.ready.close(), a.home.Close())
}

// Write adds records to the ring and to the output. It makes an Agent the destination of an
// initproto.Writer.
func (a *Agent) Write(batch []byte) (int, error) {
	n, err := a.ring.Write(batch)
	if a.c.Output != nil {
		_, _ = a.c.Output.Write(batch) // the ring has it, too
	}
	return n, err
}

// AwaitLaunch waits until a server launches the instance. It returns nil if none did so in
// time, or if stop gets a signal.
func (a *Agent) AwaitLaunch(stop <-chan os.Signal) *Launch {
	timer := time.NewTimer(a.c.LaunchTime)
	defer timer.Stop()
	late := timer.C
	for {
		select {
		case l := <-a.launches:
			return l
		case <-stop:
			a.giveUp()
			return nil
		case <-a.leave:
			a.giveUp()
			return nil
		case <-late:
			if a.giveUp() {
				return nil
			}
			timer.Reset(time.Second) // a launch is in progress, which has a limit, too
		}
	}
}

// giveUp reports whether no launch is in progress, and makes sure that none begins.
func (a *Agent) giveUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase != waiting {
		return false
	}
	a.phase = ended
	return true
}

// Linger serves what is left after the end of the instance until the last record is
// acknowledged, the time is over, or a server wants the agent to leave. After a signal it
// stays a little for what is left.
func (a *Agent) Linger(stop <-chan os.Signal) {
	a.mu.Lock()
	a.phase = ended
	linger := a.c.Linger
	if a.launch.linger > 0 {
		linger = a.launch.linger
	}
	a.mu.Unlock()
	a.ring.finish()
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		select {
		case <-a.ring.done:
			return
		case <-a.leave:
			return
		case <-timer.C:
			return
		case <-stop:
			stop = nil
			timer.Reset(min(linger, lastLinger))
		}
	}
}

func (a *Agent) accept() {
	for {
		conn, err := a.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // too many open files
			continue
		}
		from := addressOf(conn)
		if !a.admit(from) {
			_ = conn.Close() // nothing was exchanged
			continue
		}
		background.Go("agent", func() {
			defer conn.Close()
			a.serve(conn, from)
		})
	}
}

func addressOf(c net.Conn) netip.Addr {
	if t, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// admit counts a connection of a client that is not known yet.
func (a *Agent) admit(from netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := 0
	for _, n := range a.strange {
		all += n
	}
	if all >= maxStrange || a.strange[from] >= maxStrangeFrom || a.conns >= maxConns {
		return false
	}
	a.strange[from]++
	a.conns++
	return true
}

// known counts a connection as one of a known client.
func (a *Agent) known(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.strange[from]--; a.strange[from] <= 0 {
		delete(a.strange, from)
	}
}

// serve serves one connection.
func (a *Agent) serve(raw net.Conn, from netip.Addr) {
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.conns--
	}()
	conn, purpose, err := a.greet(raw)
	a.known(from)
	if err != nil {
		return
	}
	if err := a.handle(conn, purpose); err != nil {
		conn.SendError(err)
		drain(raw)
	}
}

// greet checks the client.
func (a *Agent) greet(raw net.Conn) (*agentproto.Conn, agentproto.Purpose, error) {
	ctx, cancel := context.WithTimeout(context.Background(), agentproto.HelloTime)
	defer cancel()
	secured := tls.Server(raw, a.secure)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, 0, err
	}
	conn := agentproto.NewConn(secured)
	conn.Patience = a.c.Patience
	purpose, err := agentproto.Welcome(conn, a.c.Instance)
	if err != nil {
		drain(raw)
	}
	return conn, purpose, err
}

// drainTime limits how long the agent waits after a refusal.
const drainTime = 5 * time.Second

// drain reads until the client closes the connection. Closing it earlier would reset it,
// and the client could lose the refusal.
func drain(raw net.Conn) {
	if raw.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.Copy(io.Discard, raw)
	}
}

func (a *Agent) handle(c *agentproto.Conn, p agentproto.Purpose) error {
	switch p {
	case agentproto.ForLaunch:
		return a.serveLaunch(c)
	case agentproto.ForRecords:
		return a.serveRecords(c)
	case agentproto.ForExec:
		return a.serveExec(c)
	case agentproto.ForDial:
		return a.serveDial(c)
	case agentproto.ForCollect:
		return a.serveCollect(c)
	case agentproto.ForUsage:
		return a.serveUsage(c)
	case agentproto.ForStop:
		return a.serveStop(c)
	default:
		return a.serveState(c)
	}
}

// receive receives a document of a request.
func receive(c *agentproto.Conn, limit int, v any) error {
	if err := c.SetReadDeadline(time.Now().Add(c.Patience)); err != nil {
		return err
	}
	if err := c.ExpectJSON(agentproto.Document, limit, v); err != nil {
		return agentproto.Errorf(agentproto.Malformed, "%s", err)
	}
	return c.SetReadDeadline(time.Time{})
}

// running returns the instance, if it runs.
func (a *Agent) running() (Instance, *Launch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.phase == ended:
		return nil, nil, agentproto.Errorf(agentproto.Ended, "the instance has ended")
	case a.instance == nil:
		return nil, nil, agentproto.Errorf(agentproto.NotLaunched, "the instance is not launched")
	}
	return a.instance, a.launch, nil
}

// wasLaunched returns an error if the instance was never launched.
func (a *Agent) wasLaunched() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.instance == nil {
		return agentproto.Errorf(agentproto.NotLaunched, "the instance is not launched")
	}
	return nil
}
