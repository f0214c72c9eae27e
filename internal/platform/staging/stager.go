package staging

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
)

// The labels of a staging instance.
const (
	LabelKind = "kind"
	KindValue = "staging"
	LabelApp  = "app"
)

// Config is what a Stager needs. Zero fields have the defaults named.
type Config struct {
	Engine engine.Engine
	Blobs  Blobs
	// Catalog lists the installed buildpacks; without one there are those that
	// come with Ingot.
	Catalog Catalog
	// Programs is the directory of ingot-builder and ingot-static; empty means
	// beside the running program, or in PATH.
	Programs string
	// Scratch is where custom buildpacks are fetched to; empty means the
	// system's temporary directory.
	Scratch string
	// Wanted reports whether a build is still being staged. Instances of other
	// builds that are not followed are removed. Nil keeps all.
	Wanted func(ctx context.Context, buildGUID string) (bool, error)
	// Variables are those of all builds, such as where the platform is reached
	// from inside; the app's own win.
	Variables map[string]string
	// Reach returns the addresses of the services of an app, which its builds may
	// connect to; nil means that there are none.
	Reach func(ctx context.Context, app string) ([]netip.AddrPort, error)
	Log   *slog.Logger

	Parallel int           // builds at a time; as many as processors
	Timeout  time.Duration // of a build; 15 minutes
	MemoryMB int           // 1024
	DiskMB   int           // 4096
	// Path is PATH in the instance; that of a Debian system.
	Path string
	// User and Group run the build, as in initproto.Spec.
	User, Group int

	MaxDroplet int64 // bytes, compressed; 2 GiB
	MaxCache   int64 // bytes, compressed; 1 GiB: a larger one is not kept

	FetchTimeout time.Duration // of a custom buildpack; 5 minutes
	MaxBuildpack int64         // bytes of a custom buildpack; 1 GiB
	// PrivateFetch allows custom buildpacks from this machine and from private
	// networks.
	PrivateFetch bool
	// TLS is for fetching; nil trusts what the system does.
	TLS *tls.Config
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def64 := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Timeout <= 0 {
		c.Timeout = 15 * time.Minute
	}
	if c.FetchTimeout <= 0 {
		c.FetchTimeout = 5 * time.Minute
	}
	if c.Path == "" {
		c.Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	def(&c.Parallel, runtime.NumCPU())
	def(&c.MemoryMB, 1024)
	def(&c.DiskMB, 4096)
	def64(&c.MaxDroplet, 2<<30)
	def64(&c.MaxCache, 1<<30)
	def64(&c.MaxBuildpack, 1<<30)
	return c
}

// Stager makes droplets. It is a background.Service: Stage works while it runs, and
// Stop ends all calls of Stage with ErrInterrupted.
type Stager struct {
	background.Part
	config   Config
	slots    chan struct{}
	programs engine.Archive

	mu     sync.Mutex
	work   context.Context //nolint:containedctx // ends with Stop; nil while not running
	calls  sync.WaitGroup
	builds map[string]context.CancelCauseFunc

	leftovers atomic.Bool // an instance could not be removed
}

var _ background.Service = (*Stager)(nil)

// New returns a Stager. It does nothing before Start.
func New(c Config) *Stager {
	c = c.withDefaults()
	return &Stager{config: c, slots: make(chan struct{}, c.Parallel), builds: map[string]context.CancelCauseFunc{}}
}

const (
	sweepInterval = 5 * time.Minute
	// sweepSoon is when an instance that could not be removed is tried again.
	sweepSoon = 10 * time.Second
)

// Start finds the programs that run in staging instances.
func (s *Stager) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		programs, err := programs(s.config.Programs)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.programs, s.work = programs, work
		s.mu.Unlock()
		spawn(func() {
			tick := time.NewTicker(sweepSoon)
			defer tick.Stop()
			var swept time.Time
			for {
				if s.leftovers.Swap(false) || time.Since(swept) >= sweepInterval {
					swept = time.Now()
					err := background.Do("staging sweep", func() error { return s.Sweep(work) })
					if err != nil && work.Err() == nil {
						s.leftovers.Store(true)
						s.config.Log.WarnContext(work, "leftover staging instances could not be removed", "error", err)
					}
				}
				select {
				case <-work.Done():
					return
				case <-tick.C:
				}
			}
		})
		return nil
	})
}

// Stop ends calls of Stage; the instances go on.
func (s *Stager) Stop() {
	s.Halt(func() {
		s.mu.Lock()
		s.work = nil
		s.mu.Unlock()
		s.calls.Wait()
	})
}

// enter begins a call of Stage for a build.
func (s *Stager) enter(ctx context.Context, guid string) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work == nil {
		return nil, nil, ErrInterrupted
	}
	if _, busy := s.builds[guid]; busy {
		return nil, nil, fault.New(fault.Conflict, "The build %s is being staged already", guid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := background.OnDone(s.work, "staging stop", func() { cancel(ErrInterrupted) })
	s.builds[guid] = cancel
	s.calls.Add(1)
	return ctx, func() {
		s.mu.Lock()
		delete(s.builds, guid)
		s.mu.Unlock()
		unhook()
		cancel(nil)
		s.calls.Done()
	}, nil
}

// Cancel ends a build: its Stage returns a Failure. One that no server process
// follows at the moment is removed too.
func (s *Stager) Cancel(ctx context.Context, buildGUID string) error {
	s.mu.Lock()
	cancel, here := s.builds[buildGUID]
	s.mu.Unlock()
	if here {
		cancel(errCancelled)
		return nil
	}
	i, err := s.config.Engine.Get(ctx, buildGUID)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if i.Labels[LabelKind] != KindValue {
		return fault.New(fault.NotFound, "There is no build %s", buildGUID)
	}
	return s.config.Engine.Remove(ctx, buildGUID)
}

// Sweep removes the staging instances of builds that are not wanted.
func (s *Stager) Sweep(ctx context.Context) error {
	if s.config.Wanted == nil {
		return nil
	}
	list, err := s.config.Engine.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range list {
		if i.Labels[LabelKind] != KindValue || s.following(i.ID) {
			continue
		}
		wanted, err := s.config.Wanted(ctx, i.ID)
		if err == nil && !wanted && !s.following(i.ID) {
			err = s.config.Engine.Remove(ctx, i.ID)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Stager) following(guid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.builds[guid]
	return ok
}

// Stage makes a droplet. It is idempotent by the build's guid: called again
// after ErrInterrupted, by this server process or the next, it goes on where
// things stand. Any other error is a *Failure, the end of the build, or a
// fault.Conflict when the same build is being staged by another call.
func (s *Stager) Stage(ctx context.Context, req Request) (Result, error) {
	if req.Log == nil {
		req.Log = func(string, bool, time.Time, []byte) {}
	}
	if req.MemoryMB <= 0 {
		req.MemoryMB = s.config.MemoryMB
	}
	if req.DiskMB <= 0 {
		req.DiskMB = s.config.DiskMB
	}
	ctx, leave, err := s.enter(ctx, req.BuildGUID)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	b := &build{Stager: s, req: req}
	var result Result
	err = background.Do("build", func() (err error) {
		result, err = b.run(ctx)
		return err
	})
	var panicked *background.PanicError
	if errors.As(err, &panicked) {
		// It may have left an instance behind, and would not come further next time.
		background.Safely("build", func() { b.remove(ctx) })
		err = &Failure{Reason: StagingError, Message: "The build ended because of a defect of the platform; the server's log says more", Err: err}
	}
	if errors.Is(err, ErrInterrupted) {
		return Result{}, ErrInterrupted
	}
	if err != nil {
		var f *Failure
		// What the app's developer has to change is no trouble of the operator's.
		if errors.As(err, &f) && f.Err != nil && !fault.Is(f.Err, fault.Unprocessable) {
			s.config.Log.ErrorContext(ctx, "staging failed", "build", req.BuildGUID, "app", req.App.GUID, "error", f.Err)
		}
	}
	return result, err
}

// slot waits until a build may run.
func (s *Stager) slot(ctx context.Context, log LogFunc) (func(), error) {
	give := func() { <-s.slots }
	select {
	case s.slots <- struct{}{}:
		return give, nil
	default:
	}
	say(log, "Waiting for other builds to end...")
	select {
	case s.slots <- struct{}{}:
		return give, nil
	case <-ctx.Done():
		return nil, ended(ctx, s.config.Timeout)
	}
}

// say writes a line of our own to the staging log.
func say(log LogFunc, format string, args ...any) {
	log("STG", false, time.Now().UTC(), fmt.Appendf(nil, format, args...))
}

// warn writes a warning to the staging log, where it stands out.
func warn(log LogFunc, text string) {
	log("STG", true, time.Now().UTC(), []byte("WARNING: "+text))
}

// scratch makes a directory for what a build fetches.
func (s *Stager) scratch() (string, error) { return os.MkdirTemp(s.config.Scratch, "ingot-staging-") }
