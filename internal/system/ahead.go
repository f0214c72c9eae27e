package system

import (
	"context"
	"fmt"
	"sync"

	"ingot/internal/auth/authdb"
	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/server/steps"
)

// ahead is what is opened beside the database.
type ahead struct {
	engine *openingEngine
	mail   *steps.Ahead[*db.DB]
	users  *firstUsers
}

// firstUsers is the creation of the first users, clients and keys of the built-in authorization server. On a first
// start it begins when it is needed: by the first request to that server, or when everything else is ready.
type firstUsers struct {
	begin func()        // begins it, once
	done  chan struct{} // closed when it has ended
	err   error         // then
	first bool
}

// beginUsers creates the first users and clients beside the steps that follow, or later on a first start.
func (s *System) beginUsers(ctx context.Context, secrets *datadir.Secrets, d *db.DB) (*firstUsers, error) {
	f := &firstUsers{begin: func() {}, done: make(chan struct{})}
	if s.config.AuthURL != "" {
		close(f.done)
		return f, nil
	}
	keys, err := authdb.New(d).Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the signing keys: %w", err)
	}
	f.first = len(keys) == 0
	working, cancel := context.WithCancel(ctx)
	f.begin = sync.OnceFunc(func() {
		background.Go("first users", func() {
			defer close(f.done)
			f.err = background.Do("first users", func() error { return s.createUsers(working, secrets, d) })
		})
	})
	s.steps.Later(func() { // before the database is closed
		cancel()
		f.begin() // so that it ends
		<-f.done
	})
	if !f.first {
		f.begin()
	}
	return f, nil
}

// needed waits for the end where the next steps need the users: for the demo, and after a first start, when they are
// only looked up.
func (f *firstUsers) needed(ctx context.Context, demo bool) error {
	if f.first && !demo {
		return nil
	}
	return f.wait(ctx)
}

// wait waits for the end.
func (f *firstUsers) wait(ctx context.Context) error {
	f.begin()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openingEngine is the engine while it is opened, which takes a while: it adopts its instances, and on a
// first start it runs a trial container.
type openingEngine struct {
	*steps.Ahead[openedEngine]
	// runtime gets the runtime, whose database the Kubernetes engine needs.
	runtime chan *runtime
}

type openedEngine struct {
	engine engine.Engine
	sftp   string // the sftp server, as instances see it
}

// beginEngine opens the engine beside the database.
func (s *System) beginEngine(ctx context.Context, dir *datadir.Dir) *openingEngine {
	c, o := s.config, &openingEngine{runtime: make(chan *runtime, 1)}
	options := choice.Options{
		Dir: dir, Programs: c.Programs, Overcommit: c.MemoryOvercommit, NotRoot: c.NotRoot, Log: c.Log,
		Kubernetes: func(ctx context.Context) (kubernetes.Options, error) {
			select {
			case r := <-o.runtime:
				o.runtime <- r // for the next call
				return r.onKubernetes(ctx, c)
			case <-ctx.Done():
				return kubernetes.Options{}, ctx.Err()
			}
		},
	}
	o.Ahead = steps.Begin(ctx, &s.steps, "open the engine", func(ctx context.Context) (e openedEngine, err error) {
		e.engine, e.sftp, err = choice.Open(ctx, c.Engine, options)
		return e, err
	}, func(e openedEngine) { _ = e.engine.Close() })
	return o
}

// join waits for the engine.
func (o *openingEngine) join(r *runtime) (e engine.Engine, sftp string, err error) {
	o.runtime <- r
	opened, err := o.Join()
	return opened.engine, opened.sftp, err
}
