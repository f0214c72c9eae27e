package staging

import (
	"cmp"
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
	"ingot/internal/base/tracing"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/storage/deltas"
)

// The labels of a staging instance.
const (
	LabelKind = "kind"
	KindValue = "staging"
	LabelApp  = "app"
)

// Config configures a Stager. Zero values mean the defaults.
type Config struct {
	Engine engine.Engine
	Blobs  Blobs
	// Images reads container images; nil means that there are none.
	Images Images
	// Catalog lists the installed buildpacks; nil means the bundled ones.
	Catalog Catalog
	// Programs is the directory of ingot-builder and ingot-static; empty means that
	// of the running program, or PATH.
	Programs string
	// Scratch is the directory for custom buildpacks; empty means the system's
	// temporary directory.
	Scratch string
	// Wanted reports whether a build is still being staged. Instances of other
	// builds that are not followed are removed. Nil keeps all.
	Wanted func(ctx context.Context, buildGUID string) (bool, error)
	// Deltas remembers which packages and droplets differ little from one before. Layers
	// means that the engine starts such a droplet as the other one with a layer over it.
	Deltas *deltas.Droplets
	Layers bool
	// Variables are environment variables of all builds, such as the URLs of the
	// platform; those of the app take precedence.
	Variables map[string]string
	// Reach returns the addresses of the services of an app, which its builds may
	// connect to; nil means none.
	Reach func(ctx context.Context, app string) ([]netip.AddrPort, error)
	Log   *slog.Logger

	Parallel int           // concurrent builds; by default one per processor
	Timeout  time.Duration // of a build; 15 minutes
	MemoryMB int           // 1024
	DiskMB   int           // 4096
	// Path is PATH in the instance; by default that of a Debian system.
	Path string
	// User and Group run the build, as in initproto.Spec.
	User, Group int

	MaxDroplet int64 // bytes, compressed; 2 GiB
	MaxCache   int64 // bytes, compressed; 1 GiB; a larger cache is not stored

	// Silence is how long a build writes nothing before the staging log says that it works;
	// 10 seconds.
	Silence      time.Duration
	FetchTimeout time.Duration // of a custom buildpack; 5 minutes
	MaxBuildpack int64         // bytes of a custom buildpack; 1 GiB
	// PrivateFetch allows custom buildpacks from this machine and from private
	// networks.
	PrivateFetch bool
	// TLS is for fetching; nil means the system's certificates.
	TLS *tls.Config
	// CAFile is the PEM file of all certificate authorities that git trusts; empty
	// means the system's.
	CAFile string
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
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Deltas == nil {
		c.Deltas = &deltas.Droplets{}
	}
	if c.Timeout <= 0 {
		c.Timeout = 15 * time.Minute
	}
	if c.Silence <= 0 {
		c.Silence = 10 * time.Second
	}
	if c.FetchTimeout <= 0 {
		c.FetchTimeout = 5 * time.Minute
	}
	c.Path = cmp.Or(c.Path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	def(&c.Parallel, runtime.NumCPU())
	def(&c.MemoryMB, 1024)
	def(&c.DiskMB, 4096)
	def64(&c.MaxDroplet, 2<<30)
	def64(&c.MaxCache, 1<<30)
	def64(&c.MaxBuildpack, 1<<30)
	return c
}

// Stager creates droplets. It is a background.Service: Stage works while it runs, and
// Stop interrupts all calls of Stage, which return ErrInterrupted.
type Stager struct {
	background.Part
	config   Config
	slots    chan struct{}
	programs func() (engine.Archive, error) // read once

	mu     sync.Mutex
	work   context.Context //nolint:containedctx // ends with Stop; nil while not running
	calls  sync.WaitGroup
	builds map[string]context.CancelCauseFunc

	checked   string       // checksum of the last build cache that was not damaged
	leftovers atomic.Bool  // an instance could not be removed
	waiting   atomic.Int64 // builds that wait for a slot
}

var _ background.Service = (*Stager)(nil)

// New returns a Stager that is not running.
func New(c Config) *Stager {
	c = c.withDefaults()
	return &Stager{config: c, slots: make(chan struct{}, c.Parallel), builds: map[string]context.CancelCauseFunc{}}
}

const (
	sweepInterval = 5 * time.Minute
	// programsLater is when the programs are read, if no build needs them before.
	programsLater = 2 * time.Second
	// sweepSoon is when the removal of an instance is retried.
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
		s.programs, s.work = sync.OnceValues(programs), work
		s.mu.Unlock()
		spawn(func() {
			// For the first build, which says what is wrong; the start of the server has more urgent work.
			if background.Sleep(work, programsLater) {
				_, _ = s.programs()
			}
		})
		spawn(func() {
			var swept time.Time
			for alive := true; alive; alive = background.Sleep(work, sweepSoon) {
				if s.leftovers.Swap(false) || time.Since(swept) >= sweepInterval {
					swept = time.Now()
					err := background.Do("staging sweep", func() error { return s.Sweep(work) })
					if err != nil && work.Err() == nil {
						s.leftovers.Store(true)
						s.config.Log.WarnContext(work, "leftover staging instances could not be removed", "error", err)
					}
				}
			}
		})
		return nil
	})
}

// Stop interrupts all calls of Stage; the instances continue.
func (s *Stager) Stop() {
	s.Halt(func() {
		s.mu.Lock()
		s.work = nil
		s.mu.Unlock()
		s.calls.Wait()
	})
}

// enter registers a call of Stage for a build.
func (s *Stager) enter(ctx context.Context, guid string) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work == nil {
		return nil, nil, ErrInterrupted
	}
	if _, busy := s.builds[guid]; busy {
		return nil, nil, fault.New(fault.Conflict, "The build %s is already being staged", guid)
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

// Cancel cancels a build: its Stage returns a Failure. The instance of a build that no
// call of Stage follows is removed too.
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
		return fault.New(fault.NotFound, "The build %s does not exist", buildGUID)
	}
	return s.config.Engine.Remove(ctx, buildGUID)
}

// Sweep removes the staging instances of builds that are not wanted.
func (s *Stager) Sweep(ctx context.Context) error {
	if s.config.Wanted == nil {
		return nil
	}
	list, err := s.config.Engine.List(ctx, func(labels map[string]string) bool { return labels[LabelKind] == KindValue })
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range list {
		if s.following(i.ID) {
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

// Stage creates a droplet. It is idempotent by the guid of the build: called again
// after ErrInterrupted, by this server process or the next, it continues. Any other
// error is a *Failure, if the build failed, or a fault.Conflict, if another call is
// staging the same build.
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
		if req.Lifecycle.Type == platform.LifecycleDocker {
			result, err = b.image(ctx)
		} else {
			result, err = b.run(ctx)
		}
		return err
	})
	var panicked *background.PanicError
	if errors.As(err, &panicked) {
		// The panic may have left an instance behind, and would happen again.
		background.Safely("build", func() { b.remove(ctx) })
		err = &Failure{Reason: StagingError,
			Message: "The build failed because of a defect of the platform; the server's log has the details", Err: err}
	}
	if errors.Is(err, ErrInterrupted) {
		return Result{}, ErrInterrupted
	}
	if err != nil {
		var f *Failure
		var refused *engine.PlacementError
		// Failures for the app's developer do not concern the operator.
		if errors.As(err, &f) && f.Err != nil && !fault.Is(f.Err, fault.Unprocessable) &&
			!(errors.As(err, &refused) && refused.Err == nil) {
			s.config.Log.ErrorContext(ctx, "staging failed", "build", req.BuildGUID, "app", req.App.GUID, "error", f.Err)
		}
	}
	return result, err
}

// slot waits until a build may start.
func (s *Stager) slot(ctx context.Context, log LogFunc) (func(), error) {
	give := func() { <-s.slots }
	select {
	case s.slots <- struct{}{}:
		return give, nil
	default:
	}
	say(log, "Waiting for other builds to end...")
	_, span := tracing.Begin(ctx, "wait for other builds", tracing.Internal)
	defer span.End()
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.slots <- struct{}{}:
		return give, nil
	case <-ctx.Done():
		return nil, ended(ctx, s.config.Timeout)
	}
}

// say writes a line of the platform to the staging log.
func say(log LogFunc, format string, args ...any) {
	log("STG", false, time.Now().UTC(), fmt.Appendf(nil, format, args...))
}

// warn writes a warning to the staging log.
func warn(log LogFunc, text string) {
	log("STG", true, time.Now().UTC(), []byte("WARNING: "+text))
}

// scratch creates a directory for the downloads of a build.
func (s *Stager) scratch() (string, error) { return os.MkdirTemp(s.config.Scratch, "ingot-staging-") }
