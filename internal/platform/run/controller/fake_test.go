package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// fakeEngine keeps instances in memory and does what the test says.
type fakeEngine struct {
	t *testing.T

	mu        sync.Mutex
	instances map[string]*fakeInstance
	calls     []string
	ports     int

	manual   bool                       // instances do not become healthy by themselves
	stubborn bool                       // they do not go when told to
	refuse   func(engine.Spec) error    // why Start fails
	hold     chan struct{}              // Start waits for it, or its context
	onSignal func(in engine.Instance)   // before it is told
	beside   bool                       // instances of other versions may share a slot
	together bool                       // all may
	noRemove func() error               // why Remove fails
	noGet    func() error               // why Get fails
	onStart  func(ctx context.Context)  // before anything else
	usage    func(string) *engine.Usage //
}

type fakeInstance struct {
	engine.Instance
	spec    engine.Spec
	records []initproto.Record
	seq     uint64
	acked   engine.Position
	gone    bool
	change  chan struct{} // closed with the next change
}

func newFake(t *testing.T) *fakeEngine {
	t.Helper()
	return &fakeEngine{t: t, instances: map[string]*fakeInstance{}, ports: 40000}
}

func (e *fakeEngine) Describe() engine.Description { return engine.Description{Name: "fake"} }

func (e *fakeEngine) note(format string, args ...any) {
	e.calls = append(e.calls, fmt.Sprintf(format, args...))
}

func (e *fakeEngine) Start(ctx context.Context, s engine.Spec) error {
	e.mu.Lock()
	hold, refuse, hook := e.hold, e.refuse, e.onStart
	e.mu.Unlock()
	if hook != nil {
		hook(ctx)
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if refuse != nil {
		if err := refuse(s); err != nil {
			return err
		}
	}
	for _, f := range s.Files {
		r, err := f.Open()
		if err != nil {
			return err
		}
		r.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.note("start %s", s.ID)
	if e.instances[s.ID] != nil {
		return nil
	}
	for _, other := range e.instances {
		if other.Labels[labelProcess] == s.Labels[labelProcess] && other.Labels[labelIndex] == s.Labels[labelIndex] &&
			s.Labels[labelProcess] != "" && !e.together &&
			(!e.beside || other.Labels[labelVersion] == s.Labels[labelVersion]) {
			e.t.Errorf("%s and %s are in one slot at the same time", other.ID, s.ID)
		}
	}
	in := &fakeInstance{spec: s, change: make(chan struct{})}
	in.Instance = engine.Instance{
		ID: s.ID, Labels: s.Labels, Running: true, State: initproto.State{Phase: initproto.Starting}, Created: noon,
		Host: "10.0.0.1", Internal: "10.1.0.2",
	}
	for _, p := range s.Ports {
		e.ports++
		in.Ports = append(in.Ports, engine.Port{Inside: p, Listens: e.ports, Address: fmt.Sprint("10.0.0.1:", e.ports)})
	}
	e.instances[s.ID] = in
	if !e.manual {
		in.event(initproto.EventBody{Event: initproto.EventStarted})
		in.event(initproto.EventBody{Event: initproto.EventHealthy})
		in.event(initproto.EventBody{Event: initproto.EventReady})
	}
	return nil
}

func (in *fakeInstance) changed() {
	close(in.change)
	in.change = make(chan struct{})
}

func (in *fakeInstance) add(kind initproto.Kind, member int, payload []byte) {
	in.seq++
	in.records = append(in.records, initproto.Record{Kind: kind, Time: noon, Seq: in.seq, Member: member,
		Payload: payload})
	in.State.Seq = in.seq
	in.changed()
}

func (in *fakeInstance) event(body initproto.EventBody) {
	switch body.Event {
	case initproto.EventHealthy:
		in.State.Phase = initproto.Running
	case initproto.EventReady, initproto.EventNotReady:
		in.State.Ready = body.Event == initproto.EventReady
	case initproto.EventEnded:
		if in.State.Phase == initproto.Ended {
			return
		}
		in.State.Phase, in.State.Ready, in.Running = initproto.Ended, false, false
		in.State.Exit = &initproto.Exit{Status: body.Status, Description: body.Reason, Stopped: body.Stopped}
	}
	in.add(initproto.Event, 0, body.JSON())
}

// do changes an instance.
func (e *fakeEngine) do(id string, f func(in *fakeInstance)) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.instances[id]
	if in == nil {
		e.t.Errorf("the engine has no instance %s", id)
		return
	}
	f(in)
}

func (e *fakeEngine) write(id string, lines ...string) {
	e.t.Helper()
	e.do(id, func(in *fakeInstance) {
		for _, l := range lines {
			in.add(initproto.Stdout, 0, []byte(l))
		}
	})
}

func (e *fakeEngine) event(id string, body initproto.EventBody) {
	e.t.Helper()
	e.do(id, func(in *fakeInstance) { in.event(body) })
}

func (e *fakeEngine) crash(id string, status int) {
	e.t.Helper()
	e.do(id, func(in *fakeInstance) {
		in.add(initproto.Stdout, 0, fmt.Appendf(nil, "Exit status %d", status))
		in.event(initproto.EventBody{Event: initproto.EventExited, Status: status})
		in.event(initproto.EventBody{Event: initproto.EventEnded, Status: status,
			Reason: fmt.Sprintf("APP/PROC/WEB: Exited with status %d", status)})
	})
}

func (e *fakeEngine) Signal(_ context.Context, id string) error {
	e.mu.Lock()
	in := e.instances[id]
	hook := e.onSignal
	e.mu.Unlock()
	if in == nil {
		return engine.ErrNotFound
	}
	if hook != nil {
		hook(in.Instance)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.note("signal %s", id)
	if !e.stubborn {
		in.event(initproto.EventBody{Event: initproto.EventEnded, Stopped: true})
	}
	return nil
}

func (e *fakeEngine) Remove(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noRemove != nil {
		if err := e.noRemove(); err != nil {
			return err
		}
	}
	e.note("remove %s", id)
	if in := e.instances[id]; in != nil {
		in.gone = true
		in.changed()
		delete(e.instances, id)
	}
	return nil
}

func (e *fakeEngine) List(_ context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []engine.Instance
	for _, in := range e.instances {
		if wanted.Of(in.Labels) {
			all = append(all, in.Instance)
		}
	}
	return all, nil
}

func (e *fakeEngine) Get(_ context.Context, id string) (engine.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noGet != nil {
		if err := e.noGet(); err != nil {
			return engine.Instance{}, err
		}
	}
	if in := e.instances[id]; in != nil {
		return in.Instance, nil
	}
	return engine.Instance{}, engine.ErrNotFound
}

func (e *fakeEngine) specOf(id string) engine.Spec {
	e.mu.Lock()
	defer e.mu.Unlock()
	if in := e.instances[id]; in != nil {
		return in.spec
	}
	return engine.Spec{}
}

// called counts the calls that begin so.
func (e *fakeEngine) called(begin string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, c := range e.calls {
		if len(c) >= len(begin) && c[:len(begin)] == begin {
			n++
		}
	}
	return n
}

func (e *fakeEngine) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *fakeEngine) Records(ctx context.Context, id string, after engine.Position) (engine.Stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.instances[id]
	if in == nil {
		return nil, engine.ErrNotFound
	}
	return &fakeStream{e: e, in: in, ctx: ctx, last: uint64(after)}, nil
}

type fakeStream struct {
	e    *fakeEngine
	in   *fakeInstance
	ctx  context.Context
	last uint64
}

func (s *fakeStream) Next() (initproto.Record, error) {
	for {
		s.e.mu.Lock()
		i := slices.IndexFunc(s.in.records, func(r initproto.Record) bool { return r.Seq > s.last })
		change, over := s.in.change, s.in.gone || s.in.State.Phase == initproto.Ended || !s.in.Running
		if i >= 0 {
			r := s.in.records[i]
			s.last = r.Seq
			s.e.mu.Unlock()
			return r, nil
		}
		s.e.mu.Unlock()
		if over {
			return initproto.Record{}, io.EOF
		}
		select {
		case <-change:
		case <-s.ctx.Done():
			return initproto.Record{}, s.ctx.Err()
		}
	}
}

func (s *fakeStream) Ack(upTo engine.Position) error {
	s.e.set(func() { s.in.acked = max(s.in.acked, upTo) })
	return nil
}

func (s *fakeStream) Close() error { return nil }

func (e *fakeEngine) Usage(_ context.Context, id string) (engine.Usage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.usage == nil || e.instances[id] == nil {
		return engine.Usage{}, engine.ErrNotFound
	}
	return *e.usage(id), nil
}

var errNot = errors.New("the fake engine does not do this")

func (e *fakeEngine) Exec(context.Context, string, engine.ExecRequest) (engine.Process, error) {
	return nil, errNot
}
func (e *fakeEngine) Dial(context.Context, string, string, string) (net.Conn, error) {
	return nil, errNot
}
func (e *fakeEngine) Collect(context.Context, string, string, io.Writer) error { return errNot }
func (e *fakeEngine) Close() error                                             { return nil }

// memoryLogs are logs in memory.
type memoryLogs struct {
	mu       sync.Mutex
	entries  []platform.LogLine
	position map[string]uint64
	fail     func([]platform.LogLine) error
}

func newLogs() *memoryLogs { return &memoryLogs{position: map[string]uint64{}} }

func (l *memoryLogs) Append(entries ...platform.LogLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.Stream != "" {
			if e.Seq <= l.position[e.Stream] {
				continue
			}
			l.position[e.Stream] = e.Seq
		}
		e.Text = slices.Clone(e.Text)
		l.entries = append(l.entries, e)
	}
	return nil
}

func (l *memoryLogs) Tell(lines ...platform.LogLine) error { return l.Append(lines...) }

// Forget forgets nothing, so that a test sees a line that comes twice.
func (l *memoryLogs) Forget(string) {}

func (l *memoryLogs) Position(stream string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.position[stream]
}

// of returns the lines of a source, or all with their sources.
func (l *memoryLogs) of(source string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, e := range l.entries {
		switch source {
		case "":
			lines = append(lines, fmt.Sprintf("%s/%s %s", e.Source, e.Instance, e.Text))
		case e.Source:
			lines = append(lines, string(e.Text))
		}
	}
	return lines
}
