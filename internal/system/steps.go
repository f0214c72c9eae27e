package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/server/diskspace"
)

// steps are what a start has done so far and a stop has to undo, last first. Only
// start, stop and yield use it, and they do not overlap.
type steps struct {
	undo []step
	// left means that another process has taken over.
	left bool
}

// step is undone by a stop, and, by its kind, when another process takes over.
type step struct {
	kind stepKind
	f    func()
	// yield, of a step of kind stepEdge, is what has to be done when the server yields.
	yield func()
}

type stepKind int

const (
	// stepWork is undone when the server yields to another process.
	stepWork stepKind = iota
	// stepEdge serves connections to apps and is undone when they have finished.
	stepEdge
	// stepOwn belongs to the other process then.
	stepOwn
)

// server is what System and Standalone have in common: their lifecycle, the steps
// to undo, and their addresses.
type server struct {
	part background.Part
	steps
	endpoints atomic.Pointer[Endpoints]
	built     atomic.Pointer[frontend]
}

// begin runs start, and undoes its steps if it fails.
func (s *server) begin(ctx context.Context, start func(context.Context) error) error {
	return s.part.Launch(ctx, func(context.Context, func(func())) error {
		err := start(ctx)
		if err != nil {
			s.unwind()
		}
		return err
	})
}

// Stop waits for requests to finish, stops every part, and releases the data
// directory.
func (s *server) Stop() { s.part.HaltGently(s.unwind) }

// Endpoints returns the addresses of the server; zero before the ports are open.
func (s *server) Endpoints() Endpoints {
	if e := s.endpoints.Load(); e != nil {
		return *e
	}
	return Endpoints{}
}

func (s *steps) later(f func()) { s.add(stepWork, f) }

func (s *steps) add(kind stepKind, f func()) { s.undo = append(s.undo, step{kind: kind, f: f}) }

func (s *steps) unwind() {
	for len(s.undo) > 0 {
		last := len(s.undo) - 1
		one := s.undo[last]
		s.undo = s.undo[:last]
		if one.kind == stepOwn && s.left {
			continue
		}
		background.Safely("stop", one.f) // a panic must not keep the others from being stopped
	}
}

// unwindWork undoes the steps of kind stepWork only.
func (s *steps) unwindWork() {
	var rest []step
	for len(s.undo) > 0 {
		last := len(s.undo) - 1
		one := s.undo[last]
		s.undo = s.undo[:last]
		if one.kind == stepWork {
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

// run starts a part, and adds its Stop to the steps to undo.
func (s *steps) run(ctx context.Context, part background.Service) error {
	return s.runAs(ctx, stepWork, part)
}

func (s *steps) runAs(ctx context.Context, kind stepKind, part background.Service) error {
	if err := part.Start(ctx); err != nil {
		return err
	}
	s.add(kind, part.Stop)
	return nil
}

// holdLog keeps space for the write-ahead log of a database in a file: what an operator does to free
// space, and the login before it, are small changes of it.
func holdLog(disk *diskspace.Guard, d *db.DB) {
	if name := d.LogFile(); name != "" && disk != nil {
		disk.Hold(name)
	}
}

// databaseNotLost returns an error if the file of a database is empty or missing although a file
// that is written after the database shows that the server has used it: it would start without
// anything that it knew.
func databaseNotLost(databaseURL, later string) error {
	path, isFile := strings.CutPrefix(databaseURL, "sqlite:")
	if !isFile || !strings.HasPrefix(later, filepath.Dir(path)+string(filepath.Separator)) || !exists(later) {
		return nil
	}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil // or it says itself what is wrong
		}
	}
	return fmt.Errorf("the database %s is missing or empty, but %s exists: restore the database from a backup; to start anew without it, move the data directory away", path, later)
}

// openDB opens a database until the steps are undone.
func (s *steps) openDB(ctx context.Context, o db.Options) (*db.DB, error) {
	d, err := db.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.later(func() {
		if err := d.Close(); err != nil {
			o.Log.Warn("the database did not close cleanly", "error", err)
		}
	})
	return d, nil
}

func stopTogether(parts ...background.Service) {
	var all background.WaitGroup
	for _, p := range parts {
		all.Go("stop", p.Stop)
	}
	all.Wait()
}

// once is a service that runs a function once.
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

// resealAgain is how often a server that does not encrypt for all tries to become the one
// that does: the other may not have the newest key yet.
const resealAgain = time.Minute

// resealing encrypts secrets with the newest key, on one of the servers at a time.
func resealing(d *db.DB, columns []db.SealedColumn, lead func(context.Context) bool, log *slog.Logger) background.Service {
	return &once{work: func(ctx context.Context) {
		for !lead(ctx) {
			timer := time.NewTimer(resealAgain)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
		n, err := d.Reseal(ctx, columns)
		switch {
		case ctx.Err() != nil: // stopped; the next start continues
		case err != nil:
			log.Error("some secrets could not be encrypted with the newest key; keep the older keys", "error", err)
		case n > 0:
			log.Info("encrypted all secrets with the newest key; older keys are no longer needed", "values", n)
		}
	}}
}

// databaseName describes a database for users, without its password.
func databaseName(databaseURL string) string {
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		return "SQLite, " + path
	}
	if u, err := url.Parse(databaseURL); err == nil {
		return strings.TrimSuffix("PostgreSQL, "+strings.TrimPrefix(u.Path, "/")+" at "+u.Host, " at ")
	}
	return "PostgreSQL"
}
