package services

import (
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
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/osb"
)

// Signals tell others what changed. They never block.
type Signals interface {
	AppsChanged(guids ...string)
}

// Config is what Services are made of. Durations that are zero get defaults.
type Config struct {
	Store    platform.Store
	Platform *actions.Platform
	Signals  Signals
	Log      *slog.Logger
	Now      func() time.Time
	// Number is Cloud Foundry's number of an error.
	Number func(fault.Code) int
	// Dashboards keeps the clients of brokers' dashboards; nil means that there
	// are none.
	Dashboards Dashboards
	// Broker bounds calls of brokers.
	Broker osb.Options
	// Poll is how soon an operation is asked for at first; 1 s. It grows to
	// MostPoll, 30 s, unless the broker says otherwise.
	Poll, MostPoll time.Duration
	// MaxPolling is how long an operation may take where the plan does not
	// say; a week.
	MaxPolling time.Duration
	// Retry is how soon a cleanup is tried again at first; 1 s, growing to 10
	// minutes.
	Retry time.Duration
	// Worker names this worker among all that share the store. It is to be the
	// same after a restart, when what the process before had under way is
	// taken up at once; a random one waits for its leases to end.
	Worker string
	// Lease is how long a worker that died keeps others from its job; 10 s.
	Lease time.Duration
	// Look is how often the store is searched for jobs without a Kick; 2 s.
	Look time.Duration
	// Most calls at once, in all and of one broker; 128 and 8.
	MostCalls, MostOfBroker int
}

// Services do what users want of brokers. It is a background.Service.
type Services struct {
	Config
	client *osb.Client
	worker string
	part   background.Part
	kicked chan struct{} // has room for one

	mu      sync.Mutex
	busy    map[string]string // jobs under way here, with their brokers
	waiting map[string][]chan struct{}
}

var _ background.Service = (*Services)(nil)

// New returns services whose worker is not running.
func New(c Config) *Services {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&c.Poll, time.Second)
	def(&c.MostPoll, 30*time.Second)
	def(&c.MaxPolling, 7*24*time.Hour)
	def(&c.Retry, time.Second)
	def(&c.Lease, 10*time.Second)
	def(&c.Look, 2*time.Second)
	if c.MostCalls == 0 {
		c.MostCalls = 128
	}
	if c.MostOfBroker == 0 {
		c.MostOfBroker = 8
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
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

// Start begins to work on jobs.
func (s *Services) Start(ctx context.Context) error {
	return s.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := s.takeUp(ctx); err != nil {
			return err
		}
		spawn(func() { s.dispatch(work, spawn) })
		return nil
	})
}

// takeUp frees the jobs that a process before us, of the same name, died with.
func (s *Services) takeUp(ctx context.Context) error {
	return s.Store.Update(ctx, func(tx platform.Tx) error {
		left, _, err := tx.Jobs().List(platform.Where("state", platform.JobProcessing, platform.JobPolling).And(platform.In("worker", s.worker)))
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

// Stop ends the calls under way; what they were for goes on after the next
// start.
func (s *Services) Stop() {
	s.part.Halt(nil)
	s.client.Close()
}

// Kick says that there is something to do. It never blocks.
func (s *Services) Kick() {
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// Wait returns when a job is no longer being processed, and at the latest when
// ctx ends: clients that ask for it then find it done, and need not ask again.
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

// tell wakes those who wait for a job.
func (s *Services) tell(guid string) {
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
			s.Log.Error("the jobs of services could not be read", "error", err)
		}
		wait := s.Look
		if d := next.Sub(s.Now()); !next.IsZero() && d < wait {
			wait = max(d, time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.kicked:
			timer.Stop()
		case <-timer.C:
		}
	}
}

const duePage = 200

// takeDue starts what is due and there is room for, and says when something is
// due next.
func (s *Services) takeDue(ctx context.Context, spawn func(func())) (next time.Time, err error) {
	now := s.Now()
	q := platform.Where("state", platform.JobProcessing, platform.JobPolling).And(platform.Cond{Field: "lease", Op: platform.OpLess, Values: []any{now}})
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
				w = &work{} // run says what is wrong with it
			}
			if !s.room(j.GUID, w.Broker) {
				continue
			}
			spawn(func() {
				defer s.leave(j.GUID)
				background.Safely("job of services", func() { s.run(ctx, j.GUID) }) // another worker takes it up when its lease ends
			})
		}
		if len(page) < duePage {
			return next, nil
		}
	}
}

// room reserves one of the concurrent calls for a job, if one is free. Calls per
// broker are limited, so that a broker that does not answer cannot block others.
func (s *Services) room(guid, broker string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, under := s.busy[guid]; under || len(s.busy) >= s.MostCalls {
		return false
	}
	n := 0
	for _, b := range s.busy {
		if broker != "" && b == broker {
			n++
		}
	}
	if n >= s.MostOfBroker {
		return false
	}
	s.busy[guid] = broker
	return true
}

func (s *Services) leave(guid string) {
	s.mu.Lock()
	delete(s.busy, guid)
	s.mu.Unlock()
	s.Kick()
}

// run makes one step of a job.
func (s *Services) run(ctx context.Context, guid string) {
	job, err := s.claim(ctx, guid)
	if err != nil {
		if !errors.Is(err, errLost) && !fault.Is(err, fault.NotFound) && ctx.Err() == nil {
			s.Log.Error("a job of services could not be taken", "job", guid, "error", err)
		}
		return
	}
	held, release := context.WithCancel(ctx)
	var holding background.WaitGroup
	holding.Go("lease of a job", func() { s.hold(held, job, release) })
	err = background.Do("job of services", func() error { return s.step(held, job) })
	release()
	holding.Wait()
	switch {
	case errors.Is(err, errLost):
	case ctx.Err() != nil:
		s.giveBack(ctx, job)
	case err != nil:
		s.Log.Error("a job of services could not go on", "job", guid, "operation", job.Operation, "error", err)
		s.giveBack(ctx, job)
	}
	s.tell(guid)
}

// giveBack lets others have a job that this worker cannot go on with.
func (s *Services) giveBack(ctx context.Context, job *platform.Job) {
	stopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.commit(ctx, job, func(_ platform.Tx, mine *platform.Job) error {
		mine.Lease, mine.Worker = time.Time{}, ""
		if !stopping {
			mine.Due = s.Now().Add(pause(job.Attempt, 100*time.Millisecond, 10*time.Second))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errLost) {
		s.Log.Warn("a job of services waits for its lease to end", "job", job.GUID, "error", err)
	}
}

// step does what the job is about.
func (s *Services) step(ctx context.Context, job *platform.Job) error {
	w, err := decodeWork(job)
	if err == nil {
		switch {
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
