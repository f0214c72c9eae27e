package steps

import (
	"context"
	"log/slog"
	"slices"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
)

// Stack has what a start has done so far and a stop has to undo, last first. Its methods must
// not be called at the same time.
type Stack struct {
	undo []step
	left bool
}

// step is undone by a stop, and, by its kind, when another process takes over.
type step struct {
	kind Kind
	f    func()
	// yield, of a step of kind Edge, is what has to be done when the server yields.
	yield func()
}

// Kind says when a step is undone.
type Kind int

const (
	// Work is undone when the server yields to another process.
	Work Kind = iota
	// Edge serves connections to apps and is undone when they have finished.
	Edge
	// Own belongs to the other process then.
	Own
)

// Later adds a step of kind Work.
func (s *Stack) Later(f func()) { s.Add(Work, f) }

// Add adds a step.
func (s *Stack) Add(kind Kind, f func()) { s.undo = append(s.undo, step{kind: kind, f: f}) }

// AddEdge adds a step of kind Edge; yield is called when the server yields.
func (s *Stack) AddEdge(f, yield func()) { s.undo = append(s.undo, step{Edge, f, yield}) }

// Leave notes that another process has taken over.
func (s *Stack) Leave() { s.left = true }

// Left reports whether another process has taken over.
func (s *Stack) Left() bool { return s.left }

// Unwind undoes all steps.
func (s *Stack) Unwind() {
	for len(s.undo) > 0 {
		one := s.pop()
		if one.kind == Own && s.left {
			continue
		}
		background.Safely("stop", one.f) // a panic must not keep the others from being stopped
	}
}

// UnwindWork undoes the steps of kind Work only.
func (s *Stack) UnwindWork() {
	var rest []step
	for len(s.undo) > 0 {
		one := s.pop()
		if one.kind == Work {
			background.Safely("stop", one.f)
			continue
		}
		if one.yield != nil {
			background.Safely("stop", one.yield)
		}
		rest = append(rest, one)
	}
	slices.Reverse(rest)
	s.undo = rest
}

func (s *Stack) pop() step {
	last := len(s.undo) - 1
	one := s.undo[last]
	s.undo = s.undo[:last]
	return one
}

// Run starts a part, and adds its Stop as a step of kind Work.
func (s *Stack) Run(ctx context.Context, part background.Service) error {
	return s.RunAs(ctx, Work, part)
}

// RunAs starts a part, and adds its Stop.
func (s *Stack) RunAs(ctx context.Context, kind Kind, part background.Service) error {
	if err := part.Start(ctx); err != nil {
		return err
	}
	s.Add(kind, part.Stop)
	return nil
}

// OpenDB opens a database until the steps are undone.
func (s *Stack) OpenDB(ctx context.Context, o db.Options) (*db.DB, error) {
	d, err := db.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.KeepDB(d, o.Log)
	return d, nil
}

// KeepDB keeps a database open until the steps are undone.
func (s *Stack) KeepDB(d *db.DB, log *slog.Logger) {
	s.Later(func() {
		if err := d.Close(); err != nil {
			log.Warn("the database did not close cleanly", "error", err)
		}
	})
}

// Ahead opens something beside the steps that follow, until Join. It may begin no step itself.
type Ahead[T any] struct {
	opened T
	done   <-chan error
	joined bool
}

// Begin starts open. If the steps are undone before Join, open is cancelled, and what it has opened is closed.
func Begin[T any](ctx context.Context, s *Stack, name string, open func(context.Context) (T, error),
	closeIt func(T)) *Ahead[T] {
	ctx, cancel := context.WithCancel(ctx)
	a := &Ahead[T]{}
	a.done = background.Async(name, func() (err error) {
		a.opened, err = open(ctx)
		return err
	})
	s.Later(func() {
		cancel()
		if !a.joined && <-a.done == nil {
			closeIt(a.opened)
		}
	})
	return a
}

// Join waits for what was opened, which belongs to the caller then.
func (a *Ahead[T]) Join() (T, error) {
	err := <-a.done
	a.joined = true
	return a.opened, err
}
