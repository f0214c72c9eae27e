package services

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/osb"
)

// Config configures Services. Zero durations and limits mean the defaults.
type Config struct {
	Store    platform.Store
	Platform *actions.Platform
	Log      *slog.Logger
	// Number returns Cloud Foundry's number of an error code.
	Number func(fault.Code) int
	// Dashboards stores the OAuth clients of brokers' dashboards; nil means that none
	// are created.
	Dashboards Dashboards
	// Broker limits calls to brokers.
	Broker osb.Options
	// Poll is the first interval at which the broker is polled, 1 s by default. It
	// grows to MaxPoll, 30 s, unless the broker sets another.
	Poll, MaxPoll time.Duration
	// MaxPolling is how long an operation may take if the plan sets no limit; a week
	// by default.
	MaxPolling time.Duration
	// Retry is the first interval at which a cleanup is retried, 1 s by default. It
	// grows to 10 minutes.
	Retry time.Duration
	// Worker is the name of this worker among all that share the store. If it is the
	// same after a restart, the jobs of the previous process continue at once;
	// with another name, for example a random one, they wait for their leases to expire.
	Worker string
	// Lease is how long the job of a worker that died is not given to another; 10 s by
	// default.
	Lease time.Duration
	// Interval is how often the store is searched for jobs without a Kick; 2 s by
	// default.
	Interval time.Duration
	// Sweep is how often the store is searched for rotations that should go on although nothing
	// woke them; 2 minutes by default.
	Sweep time.Duration
	// MaxCalls and MaxBrokerCalls limit concurrent calls, in total and to one broker;
	// 128 and 8 by default.
	MaxCalls, MaxBrokerCalls int
}

// Services manages service instances and bindings through brokers. It is a
// background.Service.
type Services struct {
	Config
	client *osb.Client
	worker string
	part   background.Part
	kicked chan struct{} // has room for one

	mu       sync.Mutex
	redeploy Redeploy
	busy     map[string]string // jobs that this worker runs, with their slots
	waiting  map[string][]chan struct{}
}

var _ background.Service = (*Services)(nil)

// New returns Services whose worker is not running.
func New(c Config) *Services {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&c.Poll, time.Second)
	def(&c.MaxPoll, 30*time.Second)
	def(&c.MaxPolling, 7*24*time.Hour)
	def(&c.Retry, time.Second)
	def(&c.Lease, 10*time.Second)
	def(&c.Interval, 2*time.Second)
	def(&c.Sweep, 2*time.Minute)
	c.MaxCalls = cmp.Or(c.MaxCalls, 128)
	c.MaxBrokerCalls = cmp.Or(c.MaxBrokerCalls, 8)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Number == nil {
		c.Number = func(fault.Code) int { return 10001 }
	}
	if c.Worker == "" {
		c.Worker = uuid.NewString()
	}
	return &Services{
		Config: c, client: osb.New(c.Broker), worker: c.Worker, kicked: make(chan struct{}, 1),
		busy: map[string]string{}, waiting: map[string][]chan struct{}{},
	}
}

// WorkerName returns a Config.Worker that is the same after a restart with the same
// data directory.
func WorkerName(dataDir string) string {
	host, _ := os.Hostname() // without a host name the directory is enough
	if abs, err := filepath.Abs(dataDir); err == nil {
		dataDir = abs
	}
	sum := sha256.Sum256([]byte(host + "\x00" + dataDir))
	return "server-" + hex.EncodeToString(sum[:8])
}

// Start starts the worker.
func (s *Services) Start(ctx context.Context) error {
	return s.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := s.resumeJobs(ctx); err != nil {
			return err
		}
		spawn(func() { s.dispatch(work, spawn) })
		spawn(func() { s.sweepRotations(work) })
		return nil
	})
}

// resumeJobs releases the jobs of a previous process with the same worker name.
func (s *Services) resumeJobs(ctx context.Context) error {
	return s.Store.Update(ctx, func(tx platform.Tx) error {
		left, _, err := tx.Jobs().List(platform.Where("state", platform.JobProcessing, platform.JobPolling).
			And(platform.In("worker", s.worker)))
		if err != nil {
			return err
		}
		for _, j := range left {
			j.Lease, j.Worker = time.Time{}, ""
			if err := tx.Jobs().Update(j); err != nil {
				return err
			}
		}
		return nil
	})
}

// Stop cancels the calls in progress. Their jobs continue after the next start.
func (s *Services) Stop() {
	s.part.Halt(nil)
	s.client.Close()
}

// Kick wakes the worker because there is a new job. It does not block.
func (s *Services) Kick() { background.Kick(s.kicked) }

// Wait returns when a job is no longer being processed, or when ctx is done. Clients
// that get the job afterwards find it finished and need not poll.
func (s *Services) Wait(ctx context.Context, guid string) {
	s.Kick()
	for ctx.Err() == nil && s.processing(ctx, guid) {
	}
}

// processing waits for one step of a job, if it is being processed.
func (s *Services) processing(ctx context.Context, guid string) bool {
	changed := make(chan struct{})
	s.mu.Lock()
	s.waiting[guid] = append(s.waiting[guid], changed)
	s.mu.Unlock()
	defer s.forget(guid, changed)
	is := false
	err := s.Store.View(ctx, func(tx platform.Tx) error {
		j, err := tx.Jobs().Get(guid)
		is = err == nil && j.State == platform.JobProcessing
		return err
	})
	if err != nil || !is {
		return false
	}
	select {
	case <-changed:
	case <-ctx.Done():
	}
	return true
}

func (s *Services) forget(guid string, ch chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.waiting[guid][:0]
	for _, c := range s.waiting[guid] {
		if c != ch {
			left = append(left, c)
		}
	}
	if len(left) == 0 {
		delete(s.waiting, guid)
		return
	}
	s.waiting[guid] = left
}

// wake wakes the callers that wait for a job.
func (s *Services) wake(guid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.waiting[guid] {
		close(c)
	}
	delete(s.waiting, guid)
}

// dispatch starts a goroutine for every job that is due.
func (s *Services) dispatch(ctx context.Context, spawn func(func())) {
	for {
		next, err := s.takeDue(ctx, spawn)
		if err != nil && ctx.Err() == nil {
			s.Log.Error("service jobs could not be read", "error", err)
		}
		wait := s.Interval
		if d := next.Sub(clock.Steady()); !next.IsZero() && d < wait {
			wait = max(d, time.Millisecond)
		}
		if !background.Wait(ctx, wait, s.kicked) {
			return
		}
	}
}

const duePage = 200

// takeDue starts the jobs that are due, as far as the limits allow, and returns when
// the next one is due.
func (s *Services) takeDue(ctx context.Context, spawn func(func())) (next time.Time, err error) {
	now := clock.Steady()
	q := platform.Where("state", platform.JobProcessing, platform.JobPolling).
		And(platform.Cond{Field: "lease", Op: platform.OpLess, Values: []any{now}})
	q.Order, q.PerPage = "due", duePage
	for q.Page = 1; ; q.Page++ {
		var page []*platform.Job
		err := s.Store.View(ctx, func(tx platform.Tx) (err error) {
			page, _, err = tx.Jobs().List(q)
			return err
		})
		if err != nil {
			return next, err
		}
		for _, j := range page {
			if j.Due.After(now) {
				return j.Due, nil
			}
			var w *work
			if err := background.Do("job of services", func() (err error) { w, err = decodeWork(j); return err }); err != nil {
				w = &work{} // run reports the error
			}
			if !s.room(j.GUID, w.slot()) {
				continue
			}
			spawn(func() {
				defer s.leave(j.GUID)
				// another worker continues when its lease expires
				background.Safely("job of services", func() { s.run(ctx, j.GUID) })
			})
		}
		if len(page) < duePage {
			return next, nil
		}
	}
}

// room reserves one of the concurrent calls for a job, if one is free. Calls per
// broker are limited, so that a broker that does not answer cannot block others.
func (s *Services) room(guid, slot string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, under := s.busy[guid]; under || len(s.busy) >= s.MaxCalls {
		return false
	}
	n := 0
	for _, b := range s.busy {
		if slot != "" && b == slot {
			n++
		}
	}
	if n >= s.MaxBrokerCalls {
		return false
	}
	s.busy[guid] = slot
	return true
}

func (s *Services) leave(guid string) {
	s.mu.Lock()
	delete(s.busy, guid)
	s.mu.Unlock()
	s.Kick()
}

// run performs one step of a job.
func (s *Services) run(ctx context.Context, guid string) {
	job, err := s.claim(ctx, guid)
	if err != nil {
		if !errors.Is(err, errLost) && !fault.Is(err, fault.NotFound) && ctx.Err() == nil {
			s.Log.Error("a service job could not be claimed", "job", guid, "error", err)
		}
		return
	}
	held, release := context.WithCancelCause(ctx)
	var holding background.WaitGroup
	holding.Go("lease of a job", func() { s.keepLease(held, job, func() { release(errLost) }) })
	err = background.Do("job of services", func() error { return s.step(held, job) })
	release(nil)
	holding.Wait()
	switch {
	case errors.Is(err, errLost), errors.Is(context.Cause(held), errLost): // the step may name another reason
	case ctx.Err() != nil:
		s.release(ctx, job)
	case err != nil:
		s.Log.Error("a service job could not continue", "job", guid, "operation", job.Operation, "error", err)
		s.release(ctx, job)
	}
	s.wake(guid)
}

// release gives up a job that this worker cannot continue, for other workers.
func (s *Services) release(ctx context.Context, job *platform.Job) {
	stopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.commit(ctx, job, func(_ platform.Tx, mine *platform.Job) error {
		mine.Lease, mine.Worker = time.Time{}, ""
		if !stopping {
			mine.Due = clock.Steady().Add(pause(job.Attempt, 100*time.Millisecond, 10*time.Second))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errLost) {
		s.Log.Warn("a service job waits for its lease to expire", "job", job.GUID, "error", err)
	}
}

// step performs a step according to the operation of the job.
func (s *Services) step(ctx context.Context, job *platform.Job) error {
	w, err := decodeWork(job)
	if err == nil {
		ctx = w.Actor.Origin.In(ctx)
		switch {
		case w.Kind == rotation:
			return s.awaitRotations(ctx, job, w)
		case w.Kind == deploy:
			return s.deployStep(ctx, job, w)
		case w.Kind == pull:
			return s.pullStep(ctx, job, w)
		case w.Kind == rotate:
			return s.rotateStep(ctx, job, w)
		case w.Kind == revoke:
			return s.revokeStep(ctx, job, w)
		case w.Kind != "":
			return s.operate(ctx, job, w)
		case w.Broker != "" && job.Operation == deleteBroker:
			return s.removeBroker(ctx, job, w)
		case w.Broker != "":
			return s.synchronize(ctx, job, w)
		case w.Target != "" || len(w.Children) > 0:
			return s.follow(ctx, job, w)
		}
		err = unknownJob(job)
	}
	return s.commit(ctx, job, func(_ platform.Tx, mine *platform.Job) error {
		finish(mine, platform.JobFailed, s.jobError(ctx, err))
		return nil
	})
}
