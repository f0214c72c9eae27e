package background

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrStopped is returned by Start after Stop was called.
var ErrStopped = errors.New("stopped before it was started")

// Service is a long-running part of the server.
type Service interface {
	// Start starts the work. It returns nil when the part is ready for use, or
	// an error when it could not start; then nothing is left running. Calling
	// it again while running has no effect. ctx applies to the start only; the
	// work continues until Stop.
	Start(ctx context.Context) error
	// Stop stops the work and waits for it. It is idempotent.
	Stop()
}

// Part implements the state machine of Service for the types that embed it.
// The zero value is ready.
type Part struct {
	mu      sync.Mutex
	cancel  context.CancelFunc
	work    sync.WaitGroup
	running bool
	stopped bool
}

// Launch changes the state from new to running. It calls setup once, with a
// context that is canceled by Stop; setup starts the part's goroutines with
// spawn. The part is running when setup returns nil. When setup fails, Launch
// stops the goroutines that were started, and the part is new again.
//
// A goroutine that panics is restarted, after a pause that grows with every
// consecutive panic, until Stop. Work that must not be repeated has to recover
// with Do.
func (p *Part) Launch(ctx context.Context, setup func(work context.Context, spawn func(func())) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return ErrStopped
	}
	if p.running {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	spawn := func(f func()) { p.spawn(work, nameOf(f), f) }
	if err := Do(nameOf(setup), func() error { return setup(work, spawn) }); err != nil {
		cancel()
		p.work.Wait()
		return err
	}
	p.cancel, p.running = cancel, true
	return nil
}

// Run is like Launch for a part that consists of loops, which end when their context is done.
func (p *Part) Run(ctx context.Context, loops ...func(context.Context)) error {
	return p.Launch(ctx, func(work context.Context, _ func(func())) error {
		for _, loop := range loops {
			p.spawn(work, nameOf(loop), func() { loop(work) })
		}
		return nil
	})
}

func (p *Part) spawn(work context.Context, name string, f func()) {
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		Loop(work, name, f)
	}()
}

// Halt changes the state to stopped: it cancels the work context, calls
// teardown once if the part was running, and waits for all goroutines.
func (p *Part) Halt(teardown func()) {
	p.halt(func() {
		p.cancel()
		if teardown != nil {
			Safely(nameOf(teardown), teardown)
		}
	})
}

// HaltGently is like Halt, but calls teardown before it cancels the work
// context, so that work in progress can finish.
func (p *Part) HaltGently(teardown func()) {
	p.halt(func() {
		Safely(nameOf(teardown), teardown)
		p.cancel()
	})
}

func (p *Part) halt(end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	if !p.running {
		return
	}
	end()
	p.work.Wait()
	p.running = false
}

// Group is a Service that consists of other services, which start in order and
// stop in reverse order.
type Group struct {
	mu      sync.Mutex
	parts   []Service
	started int
	stopped bool
}

// NewGroup returns a Group of the given services.
func NewGroup(parts ...Service) *Group { return &Group{parts: parts} }

// Start starts the services in order. When one fails, those already started are
// stopped.
func (g *Group) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return ErrStopped
	}
	for g.started < len(g.parts) {
		if err := g.parts[g.started].Start(ctx); err != nil {
			g.stopLocked()
			return err
		}
		g.started++
	}
	return nil
}

// Stop stops the services in reverse order.
func (g *Group) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopLocked()
}

func (g *Group) stopLocked() {
	g.stopped = true
	for i := len(g.parts) - 1; i >= 0; i-- {
		g.parts[i].Stop()
	}
}

// Every returns a Service that calls f immediately and then once per interval,
// until stopped. f has to log its own errors. After a panic of f, the next call
// is delayed if the interval is short.
func Every(interval time.Duration, f func(context.Context)) Service {
	return &periodic{interval: interval, f: f}
}

type periodic struct {
	Part
	interval time.Duration
	f        func(context.Context)
}

func (p *periodic) Start(ctx context.Context) error {
	return p.Run(ctx, func(work context.Context) {
		name, panics, now := nameOf(p.f), 0, make(chan struct{}, 1)
		Kick(now)
		for range Ticks(work, p.interval, now) {
			if Safely(name, func() { p.f(work) }) {
				panics = 0
			} else if panics++; !Sleep(work, rest(panics)) {
				return
			}
		}
	})
}

func (p *periodic) Stop() { p.Halt(nil) }
