//go:build linux

package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/keyed"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/initproto"
)

const (
	firstFile     = "init.json"
	outputFile    = "output"
	authorityFile = "authority"
)

// Engine runs instances as agents.
type Engine struct {
	root, program string

	authority *agent.Authority
	dialer    agent.Dialer
	ports     *local.Ports
	room      *local.Room
	ids       keyed.Mutex

	open  context.Context
	close context.CancelFunc

	mu        sync.Mutex
	processes map[engine.Process]bool
	waits     map[string]chan struct{} // closed when a child of this process has ended
}

var _ engine.Engine = (*Engine)(nil)

// meta is what the engine knows about an instance besides local.Meta.
type meta struct {
	IP string `json:"ip"`
}

// New opens an engine on a directory. program is ingot-init.
func New(dir, program string) (*Engine, error) {
	e := &Engine{
		root: filepath.Join(dir, "instances"), program: program, ports: local.NewPorts(),
		processes: map[engine.Process]bool{}, waits: map[string]chan struct{}{},
	}
	if err := os.MkdirAll(e.root, 0o711); err != nil {
		return nil, err
	}
	var err error
	if e.authority, err = openAuthority(filepath.Join(dir, authorityFile)); err != nil {
		return nil, err
	}
	if e.dialer.Certificate, err = e.authority.Client("server"); err != nil {
		return nil, err
	}
	if e.room, err = local.NewRoom(e.root, 0); err != nil {
		return nil, err
	}
	e.open, e.close = context.WithCancel(context.Background())
	err = local.Recover(e.root, func(d *local.Dir) error { return killAll(e.open, d.Path()) })
	return e, err
}

func openAuthority(path string) (*agent.Authority, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		return agent.ParseAuthority(b)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	a, err := agent.NewAuthority()
	if err != nil {
		return nil, err
	}
	return a, os.WriteFile(path, a.Bytes(), 0o600)
}

// Describe describes the engine.
func (e *Engine) Describe() engine.Description {
	return engine.Description{Name: "agent", NoImages: "The engine of these tests runs no images.",
		NoMemberLimits: "The engine of these tests limits no members."}
}

func (e *Engine) client(d *local.Dir) *agent.Client {
	var m meta
	_ = json.Unmarshal(d.Meta().Engine, &m) // then it is at no address
	return e.dialer.At(d.ID(), Port(m.IP), Key(d.ID()))
}

// Start creates an instance and launches it.
func (e *Engine) Start(ctx context.Context, s engine.Spec) error {
	if err := local.CheckID(s.ID); err != nil {
		return err
	}
	if s.Image != nil {
		return engine.NoImages(e.Describe().NoImages)
	}
	if s.LimitsMembers() {
		return engine.NoMemberLimits(e.Describe().NoMemberLimits)
	}
	if len(s.Launch.Members) == 0 {
		return errors.New("nothing to run")
	}
	unlock, err := e.ids.Lock(ctx, s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := local.Open(e.root, s.ID); !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	if err := e.room.Take(s.ID, s.Limits); err != nil {
		return err
	}
	d, err := local.Create(e.root, s.ID)
	if err != nil {
		e.room.Free(s.ID)
		return err
	}
	if err := e.launch(ctx, d, s); err != nil {
		return errors.Join(err, e.destroy(context.WithoutCancel(ctx), d))
	}
	return nil
}

func (e *Engine) launch(ctx context.Context, d *local.Dir, s engine.Spec) error {
	ports, err := e.reserve(s)
	if err != nil {
		return err
	}
	m := meta{IP: Address()}
	own, err := json.Marshal(m)
	if err != nil {
		return err
	}
	files, err := s.AllFiles(m.IP)
	if err != nil {
		return err
	}
	user, group := s.Launch.User, s.Launch.Group
	spec := local.Substitute(s.Launch, words(d, ports, m.IP))
	spec.User, spec.Group = 0, 0 // those of the agent
	if os.Geteuid() == 0 && user != 0 {
		if err := d.Own(user, group); err != nil {
			return err
		}
	}
	if err := e.run(d, m.IP, user, group); err != nil {
		return err
	}
	if err := AwaitListening(ctx, Port(m.IP)); err != nil {
		return err
	}
	client := e.dialer.At(d.ID(), Port(m.IP), Key(d.ID()))
	if _, err := client.Launch(ctx, agent.Launch{Spec: spec, Files: files, Limits: s.Limits}); err != nil {
		return err
	}
	return d.Commit(local.Meta{
		Labels: s.Labels, Limits: s.Limits, Ports: ports, Launch: spec, Created: time.Now().UTC(), Engine: own,
	})
}

// reserve allocates a port of this machine for each port of the instance.
func (e *Engine) reserve(s engine.Spec) ([]engine.Port, error) {
	var ports []engine.Port
	for _, inside := range local.WantedPorts(s) {
		listens, err := e.ports.Take()
		if err != nil {
			return nil, err
		}
		ports = append(ports, engine.Port{Inside: inside, Listens: listens,
			Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(listens))})
	}
	return ports, nil
}

func words(d *local.Dir, ports []engine.Port, ip string) local.Words {
	return local.Words{Home: d.Home(), IP: ip, Host: ip, Port: local.Listens(ports)}
}

// run starts the agent.
func (e *Engine) run(d *local.Dir, ip string, user, group int) error {
	output, err := os.OpenFile(filepath.Join(d.Control(), outputFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := Command(e.program, d.ID(), ip, d.Home(), e.authority.Certificate(), user, group)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	first, err := local.Identify(cmd.Process.Pid)
	e.mu.Lock()
	e.waits[d.ID()] = done
	e.mu.Unlock()
	go func() {
		defer close(done)
		_ = cmd.Wait() // its records say how it ended
	}()
	if err != nil {
		return err
	}
	return local.WriteJSON(filepath.Join(d.Control(), firstFile), first)
}

// First returns the agent's process.
func First(dir, id string) (local.ProcessID, error) {
	var first local.ProcessID
	err := local.ReadJSON(filepath.Join(dir, "instances", id, "control", firstFile), &first)
	return first, err
}

func (e *Engine) alive(d *local.Dir) bool {
	first, err := First(filepath.Dir(e.root), d.ID())
	return err == nil && first.Alive()
}

// Signal stops an instance gracefully.
func (e *Engine) Signal(ctx context.Context, id string) error {
	d, err := local.Open(e.root, id)
	if err != nil || !e.alive(d) {
		return err
	}
	return e.client(d).Stop(ctx, false)
}

// Remove stops and deletes an instance.
func (e *Engine) Remove(ctx context.Context, id string) error {
	if local.CheckID(id) != nil {
		return nil
	}
	unlock, err := e.ids.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	d, err := local.Open(e.root, id)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if e.alive(d) {
		_ = e.client(d).Stop(ctx, true) // if it fails, it is killed
	}
	return e.destroy(ctx, d)
}

// destroy kills and deletes an instance.
func (e *Engine) destroy(ctx context.Context, d *local.Dir) error {
	first, err := First(filepath.Dir(e.root), d.ID())
	if err == nil {
		// It may be leaving: let it stop its members first.
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		if d.Meta().Created.IsZero() || first.Wait(short) != nil {
			_ = first.Signal(syscall.SIGKILL) // it may have ended
		}
		cancel()
	}
	if err := killAll(ctx, d.Path()); err != nil {
		return err
	}
	e.mu.Lock()
	done := e.waits[d.ID()]
	delete(e.waits, d.ID())
	e.mu.Unlock()
	if done != nil {
		<-done
	}
	for _, p := range d.Meta().Ports {
		e.ports.Release(p.Listens)
	}
	e.room.Free(d.ID())
	return d.Remove()
}

// List returns instances.
func (e *Engine) List(ctx context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	dirs, err := local.List(e.root)
	if err != nil {
		return nil, err
	}
	list := make([]engine.Instance, 0, len(dirs))
	for _, d := range dirs {
		if !wanted.Of(d.Meta().Labels) {
			continue
		}
		in, err := e.instance(ctx, d)
		if err != nil {
			return nil, err
		}
		list = append(list, in)
	}
	return list, nil
}

// Get returns one instance.
func (e *Engine) Get(ctx context.Context, id string) (engine.Instance, error) {
	d, err := local.Open(e.root, id)
	if err != nil {
		return engine.Instance{}, err
	}
	return e.instance(ctx, d)
}

func (e *Engine) instance(ctx context.Context, d *local.Dir) (engine.Instance, error) {
	m := d.Meta()
	var own meta
	_ = json.Unmarshal(m.Engine, &own) // then it is at no address
	in := engine.Instance{
		ID: m.ID, Labels: m.Labels, Created: m.Created, Ports: m.Ports, Host: own.IP, Internal: own.IP,
		State: initproto.State{Phase: initproto.Starting, Since: m.Created},
	}
	first, err := First(filepath.Dir(e.root), d.ID())
	if err != nil || !first.Alive() {
		return in, nil
	}
	state, _, err := e.client(d).State(ctx)
	if err != nil {
		// It may be leaving: its connections end before it does.
		short, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if first.Wait(short) == nil {
			return in, nil
		}
		return in, err
	}
	in.State, in.Running = state, state.Phase != initproto.Ended
	return in, nil
}

// Dial connects from inside the instance.
func (e *Engine) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	d, err := local.Open(e.root, id)
	if err != nil {
		return nil, err
	}
	if host, port, err := net.SplitHostPort(address); err == nil {
		if n, err := strconv.Atoi(port); err == nil {
			address = net.JoinHostPort(host, strconv.Itoa(words(d, d.Meta().Ports, "").Port(n)))
		}
	}
	return e.client(d).Dial(ctx, network, address)
}

// Usage returns what an instance uses.
func (e *Engine) Usage(ctx context.Context, id string) (engine.Usage, error) {
	d, err := local.Open(e.root, id)
	if err != nil {
		return engine.Usage{}, err
	}
	return e.client(d).Usage(ctx)
}

// Collect returns files of an instance.
func (e *Engine) Collect(ctx context.Context, id, path string, w io.Writer) error {
	d, err := local.Open(e.root, id)
	if err != nil {
		return err
	}
	return e.client(d).Collect(ctx, path, w)
}

// Exec runs another process.
func (e *Engine) Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	d, err := local.Open(e.root, id)
	if err != nil {
		return nil, err
	}
	w := words(d, d.Meta().Ports, "")
	r.Args, r.Env, r.Dir = w.All(r.Args), w.All(r.Env), w.In(r.Dir)
	p, err := e.client(d).Exec(ctx, r)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.processes[p] = true
	return &process{Process: p, e: e}, nil
}

// process is forgotten when it is closed.
type process struct {
	engine.Process
	e *Engine
}

func (p *process) Close() error {
	p.e.mu.Lock()
	delete(p.e.processes, p.Process)
	p.e.mu.Unlock()
	return p.Process.Close()
}

// Close closes streams and processes. Instances keep running.
func (e *Engine) Close() error {
	e.close()
	e.ports.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for p := range e.processes {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Records streams records. It connects again when the connection is lost.
func (e *Engine) Records(ctx context.Context, id string, after engine.Position) (engine.Stream, error) {
	d, err := local.Open(e.root, id)
	if err != nil {
		return nil, err
	}
	s := &stream{e: e, d: d, outer: ctx, last: after}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.stop = context.AfterFunc(e.open, s.cancel)
	return s, nil
}

type stream struct {
	e      *Engine
	d      *local.Dir
	outer  context.Context
	ctx    context.Context
	cancel context.CancelFunc
	stop   func() bool
	last   engine.Position

	mu      sync.Mutex
	current engine.Stream
}

func (s *stream) Next() (initproto.Record, error) {
	for {
		r, err := s.next()
		if err == nil {
			s.last = engine.Position(r.Seq)
			return r, nil
		}
		switch {
		case s.outer.Err() != nil:
			return r, s.outer.Err()
		case s.ctx.Err() != nil:
			return r, os.ErrClosed
		case errors.Is(err, io.EOF) || !s.e.alive(s.d):
			return r, io.EOF
		}
		background.Sleep(s.ctx, 10*time.Millisecond) // the connection was lost
	}
}

func (s *stream) next() (initproto.Record, error) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current == nil {
		opened, err := s.e.client(s.d).Records(s.ctx, s.last)
		if err != nil {
			return initproto.Record{}, err
		}
		s.mu.Lock()
		s.current = opened
		s.mu.Unlock()
		current = opened
	}
	r, err := current.Next()
	if err != nil && !errors.Is(err, io.EOF) { // after the end it can still be acknowledged
		s.mu.Lock()
		s.current = nil
		s.mu.Unlock()
		err = errors.Join(err, current.Close())
	}
	return r, err
}

func (s *stream) Ack(upTo engine.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return fmt.Errorf("records of %s: no connection", s.d.ID())
	}
	return s.current.Ack(upTo)
}

func (s *stream) Close() error {
	s.stop()
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current.Close()
	}
	return nil
}
