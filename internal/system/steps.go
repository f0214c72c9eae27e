package system

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
)

// steps are what a start has done so far and a stop has to take back, last
// first. Only start and stop touch it, and background.Part sees that they do not meet.
type steps struct {
	undo []func()
}

// server is what every server here has: a life, what it has to take back, and
// where it listens.
type server struct {
	part background.Part
	steps
	endpoints atomic.Pointer[Endpoints]
	built     atomic.Pointer[frontend]
}

// begin runs start. Nothing is left of one that failed.
func (s *server) begin(ctx context.Context, start func(context.Context) error) error {
	return s.part.Launch(ctx, func(context.Context, func(func())) error {
		err := start(ctx)
		if err != nil {
			s.unwind()
		}
		return err
	})
}

// Stop lets requests under way finish, stops every part, and leaves the data
// directory to the next server.
func (s *server) Stop() { s.part.HaltGently(s.unwind) }

// Endpoints says where everything is; zero before Start opened the ports.
func (s *server) Endpoints() Endpoints {
	if e := s.endpoints.Load(); e != nil {
		return *e
	}
	return Endpoints{}
}

func (s *steps) later(f func()) { s.undo = append(s.undo, f) }

func (s *steps) unwind() {
	for len(s.undo) > 0 {
		last := len(s.undo) - 1
		f := s.undo[last]
		s.undo = s.undo[:last]
		background.Safely("stop", f) // the others have to be stopped too
	}
}

// run starts a part and remembers to stop it.
func (s *steps) run(ctx context.Context, part background.Service) error {
	if err := part.Start(ctx); err != nil {
		return err
	}
	s.later(part.Stop)
	return nil
}

func stopTogether(parts ...background.Service) {
	var all background.WaitGroup
	for _, p := range parts {
		all.Go("stop", p.Stop)
	}
	all.Wait()
}

// once is a part that does one thing and is done.
type once struct {
	background.Part
	work func(context.Context)
}

func (b *once) Start(ctx context.Context) error {
	return b.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { b.work(work) })
		return nil
	})
}

func (b *once) Stop() { b.Halt(nil) }

// resealing encrypts with the newest key what older ones did.
func resealing(d *db.DB, columns []db.SealedColumn, log *slog.Logger) background.Service {
	return &once{work: func(ctx context.Context) {
		n, err := d.Reseal(ctx, columns)
		switch {
		case ctx.Err() != nil: // stopped; the next start goes on
		case err != nil:
			log.Error("not every secret could be encrypted with the newest key; keep the older ones", "error", err)
		case n > 0:
			log.Info("secrets were encrypted again with the newest key; older keys are no longer needed", "values", n)
		}
	}}
}

// databaseName names a database for people, without its password.
func databaseName(databaseURL string) string {
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		return "SQLite, " + path
	}
	if u, err := url.Parse(databaseURL); err == nil {
		return "PostgreSQL, " + strings.TrimPrefix(u.Path, "/") + " at " + u.Host
	}
	return "PostgreSQL"
}
