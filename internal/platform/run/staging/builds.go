package staging

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/base/tracing"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
)

// Lines stores log lines and the position in each stream. It ignores lines of a
// stream that it has already. The log store implements it.
type Lines interface {
	Append(lines ...platform.LogLine) error
	Position(stream string) uint64
}

// BuildsConfig configures Builds.
type BuildsConfig struct {
	Store    platform.Store
	Platform *actions.Platform
	Stager   *Stager
	Lines    Lines
	// Owner decides of which apps builds are carried out; nil means all.
	Owner platform.Owner
	// API is the address of the v3 API, for VCAP_APPLICATION.
	API string
	Log *slog.Logger
	// Tracer records builds as spans, Metrics counts them; nil ones do not.
	Tracer  *tracing.Tracer
	Metrics *Metrics
}

// Builds stages the builds in the store:
//
//	STAGING ──▶ STAGED, with a droplet
//	      └───▶ FAILED, with the reason
//
// Each is staged by its own goroutine. After a restart the server continues builds
// that are STAGING. It is a background.Service.
type Builds struct {
	background.Part
	BuildsConfig
	share  *platform.Share
	kicked chan struct{}

	mu      sync.Mutex
	active  map[string]*carrying
	origins map[string]tracing.Origin // of builds that have not begun
}

// carrying is a build that is being carried out.
type carrying struct {
	*platform.Work
	ctx context.Context //nolint:containedctx // of this build
}

// buildInterval is how often the store is searched without a Kick.
const buildInterval = 10 * time.Second

// NewBuilds returns a service that is not running.
func NewBuilds(c BuildsConfig) *Builds {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &Builds{BuildsConfig: c, share: platform.NewShare(c.Owner), kicked: make(chan struct{}, 1),
		active: map[string]*carrying{}, origins: map[string]tracing.Origin{}}
}

// maxOrigins is the largest number of origins that are kept: those of builds that another
// server carries out are never used.
const maxOrigins = 1000

// Requested starts a search of the store for a new build. Its lines in the server's log
// have the id of the request that created it, and its spans are children of the request's,
// unless the server is restarted meanwhile.
func (b *Builds) Requested(guid string, by tracing.Origin) {
	b.mu.Lock()
	if by != (tracing.Origin{}) {
		for old := range b.origins {
			if len(b.origins) < maxOrigins {
				break
			}
			delete(b.origins, old)
		}
		b.origins[guid] = by
	}
	b.mu.Unlock()
	b.Kick()
}

// Kick starts a search of the store soon. It does not block.
func (b *Builds) Kick() { background.Kick(b.kicked) }

// Gained starts to carry out the builds of the apps of shards.
func (b *Builds) Gained(shards uint64) {
	b.share.Gain(shards)
	b.Kick()
}

// Lost stops the work on the builds of the apps of shards; they go on in their
// instances. When it returns, nothing is written for them any more.
func (b *Builds) Lost(shards uint64) {
	b.share.Lost(shards, func() (all []*platform.Work) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, one := range b.active {
			all = append(all, one.Work)
		}
		return all
	})
}

// Start starts staging.
func (b *Builds) Start(ctx context.Context) error {
	return b.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { b.loop(work, spawn) })
		return nil
	})
}

// Stop stops the service. Builds in progress continue in their instances.
func (b *Builds) Stop() { b.Halt(nil) }

func (b *Builds) loop(ctx context.Context, spawn func(func())) {
	b.Kick()
	for range background.Ticks(ctx, buildInterval, b.kicked) {
		waiting, unwanted := b.waiting(ctx)
		for guid, build := range waiting {
			spawn(func() {
				defer build.End()
				background.Safely("build", func() { b.carryOut(build.ctx, guid) })
			})
		}
		for _, guid := range unwanted {
			// if it fails, Sweep removes the instance
			spawn(func() { background.Safely("build", func() { _ = b.Stager.Cancel(ctx, guid) }) })
		}
	}
}

// waiting returns the builds that are not in progress, and marks them as such, and
// those that are in progress and no longer wanted.
func (b *Builds) waiting(ctx context.Context) (waiting map[string]*carrying, unwanted []string) {
	var found []*platform.Build
	err := b.Store.View(ctx, func(tx platform.Tx) (err error) {
		found, _, err = tx.Builds().List(platform.Where("state", platform.BuildStaging))
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			b.Log.WarnContext(ctx, "builds could not be read", "error", err)
		}
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := map[string]bool{}
	waiting = map[string]*carrying{}
	for _, build := range found {
		wanted[build.GUID] = true
		if b.active[build.GUID] == nil && b.share.Works(build.AppGUID) {
			one := &carrying{}
			one.ctx, one.Work = b.share.Begin(ctx, build.AppGUID)
			one.ctx = b.origins[build.GUID].In(one.ctx)
			delete(b.origins, build.GUID)
			b.active[build.GUID] = one
			waiting[build.GUID] = one
		}
	}
	for guid := range b.active {
		if !wanted[guid] {
			unwanted = append(unwanted, guid)
		}
	}
	return waiting, unwanted
}

func (b *Builds) carryOut(ctx context.Context, guid string) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.active, guid)
	}()
	began := time.Now()
	ctx, span := b.Tracer.Begin(ctx, "staging", "build", tracing.Internal, tracing.String("ingot.build.id", guid))
	err := background.Do("build", func() error { return b.stage(ctx, guid) })
	endBuild(ctx, span, err)
	b.Metrics.ended(ctx, err, time.Since(began))
	var failure *Failure
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, ErrInterrupted):
	case errors.As(err, &failure):
		if failure.Err != nil {
			b.Log.InfoContext(ctx, "a build failed", "build", guid, "error", failure.Err)
		}
		b.failed(ctx, guid, failure.Error(), failure.Report())
	case fault.Is(err, fault.NotFound), errors.Is(err, errNotWanted):
		// The app was deleted with its builds meanwhile, or a newer build replaced this one.
		_ = b.Stager.Cancel(ctx, guid)
	default:
		b.Log.ErrorContext(ctx, "a build could not be staged", "build", guid, "error", err)
		text := StagingError + " - The build failed for a reason that is not the app's; the server's log says more."
		b.failed(ctx, guid, text, text)
	}
}

// errNotWanted means that a build is no longer being staged: a newer one has
// replaced it.
var errNotWanted = errors.New("the build was replaced by a newer one")

// stage creates the droplet of a build.
func (b *Builds) stage(ctx context.Context, guid string) error {
	req, err := b.prepare(ctx, guid)
	if err != nil {
		return err
	}
	tracing.Current(ctx).Set(tracing.String("cloudfoundry.app.id", req.App.GUID))
	b.Log.DebugContext(ctx, "a build begins", "build", guid, "app", req.App.GUID)
	lines := &buildLines{to: b.Lines, app: req.App.GUID, stream: guid, log: b.Log}
	defer lines.flush()
	req.Log, req.Seen, req.After = lines.add, lines.seen, engine.Position(b.Lines.Position(guid))
	stored := false
	req.Done = func(ctx context.Context, r Result) error {
		stored = true
		return b.staged(ctx, guid, req, r)
	}
	result, err := b.Stager.Stage(ctx, *req)
	if err != nil || stored {
		return err
	}
	return b.staged(ctx, guid, req, result)
}

// prepare reads everything a build needs, and sets the guid of its droplet.
func (b *Builds) prepare(ctx context.Context, guid string) (*Request, error) {
	var req *Request
	err := b.Store.Update(ctx, func(tx platform.Tx) error {
		build, err := tx.Builds().Get(guid)
		if err != nil {
			return err
		}
		if build.State != platform.BuildStaging {
			return errNotWanted
		}
		if build.DropletGUID == "" {
			build.DropletGUID = uuid.NewString()
			if err := tx.Builds().Update(build); err != nil {
				return err
			}
		}
		app, err := tx.Apps().Get(build.AppGUID)
		if err != nil {
			return err
		}
		info, err := actions.AppInfoOf(tx, app)
		if err != nil {
			return err
		}
		group, err := tx.EnvGroup("staging")
		if err != nil {
			return err
		}
		services, err := actions.VCAPServices(tx, app)
		if err != nil {
			return err
		}
		sidecars, _, err := tx.Sidecars().List(platform.Where("app_guid", app.GUID))
		if err != nil {
			return err
		}
		image, err := imageOf(tx, build)
		if err != nil {
			return err
		}
		req = &Request{
			BuildGUID: guid, DropletGUID: build.DropletGUID, PackageGUID: build.PackageGUID, Image: image,
			Lifecycle: build.Lifecycle,
			App:       App{GUID: app.GUID, SpaceGUID: app.SpaceGUID, Name: app.Name, Env: app.Env}, MemoryMB: build.MemoryMB,
			DiskMB: build.DiskMB, LogRate: build.LogRate,
			Env: group.Var, VCAPApplication: jsonText(info.VCAPApplication(b.API, nil, build.MemoryMB)),
			VCAPServices: jsonText(services),
			Segment:      info.Segment,
		}
		for _, s := range sidecars {
			if s.Origin == platform.SidecarOfUser { // the others are those of the last build
				req.Sidecars = append(req.Sidecars, *s)
			}
		}
		req.HasCommand = func(ctx context.Context) (bool, error) { return b.hasCommand(ctx, app.GUID) }
		return nil
	})
	return req, err
}

// hasCommand reports whether the newest web process of an app has a command.
func (b *Builds) hasCommand(ctx context.Context, appGUID string) (bool, error) {
	has := false
	err := b.Store.View(ctx, func(tx platform.Tx) error {
		web, err := actions.ProcessOf(tx, appGUID, platform.WebProcess)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		has = err == nil && strings.TrimSpace(web.Command) != ""
		return err
	})
	return has, err
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// staged stores the droplet and the state of the build in one transaction.
func (b *Builds) staged(ctx context.Context, guid string, req *Request, result Result) error {
	return b.Store.Update(ctx, func(tx platform.Tx) error {
		build, err := tx.Builds().Get(guid)
		if err != nil {
			return err
		}
		if build.State != platform.BuildStaging {
			return errNotWanted
		}
		app, err := tx.Apps().Get(build.AppGUID)
		if err != nil {
			return err
		}
		droplet := &platform.Droplet{
			Resource: platform.Resource{GUID: req.DropletGUID}, AppGUID: app.GUID, PackageGUID: build.PackageGUID,
			BuildGUID: guid,
			State:     platform.DropletStaged, Lifecycle: build.Lifecycle.Type, Stack: build.Lifecycle.Stack,
		}
		result.Apply(droplet)
		if err := tx.Droplets().Insert(droplet); err != nil {
			return err
		}
		build.State = platform.BuildStaged
		if err := tx.Builds().Update(build); err != nil {
			return err
		}
		if err := b.Platform.ExpireDroplets(tx, app); err != nil {
			return err
		}
		return b.Platform.RecordApp(tx, "audit.app.build.staged", creator(build), app, map[string]any{
			"build_guid": guid, "package_guid": build.PackageGUID, "droplet_guid": droplet.GUID,
		})
	})
}

// failed stores that a build failed. The reason is for its audit event, the report
// for the build.
func (b *Builds) failed(ctx context.Context, guid, reason, report string) {
	err := b.Store.Update(ctx, func(tx platform.Tx) error {
		build, err := tx.Builds().Get(guid)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if build.State != platform.BuildStaging {
			return nil // a newer build has replaced it
		}
		build.State, build.Error = platform.BuildFailed, report
		if err := tx.Builds().Update(build); err != nil {
			return err
		}
		app, err := tx.Apps().Get(build.AppGUID)
		if err != nil {
			return err
		}
		return b.Platform.RecordApp(tx, "audit.app.build.failed", creator(build), app, map[string]any{
			"build_guid": guid, "package_guid": build.PackageGUID, "error_message": reason,
		})
	})
	if err != nil && ctx.Err() == nil {
		b.Log.ErrorContext(ctx, "the state of a failed build could not be stored", "build", guid, "error", err)
	}
}

func creator(b *platform.Build) actions.Actor {
	return actions.Actor{GUID: b.CreatorGUID, Type: "user", Name: b.CreatorName, Mail: b.CreatorMail}
}

// buildLines passes on the lines of a build. A line gets the number of its record,
// which follows right after it.
type buildLines struct {
	to          Lines
	app, stream string
	log         *slog.Logger
	pending     []platform.LogLine
}

func (l *buildLines) add(source string, stderr bool, t time.Time, text []byte) {
	l.pending = append(l.pending, platform.LogLine{App: l.app, Time: t, Source: source, Instance: "0", Stderr: stderr,
		Text: append([]byte{}, text...)})
}

func (l *buildLines) seen(at engine.Position) {
	if n := len(l.pending); n > 0 {
		l.pending[n-1].Stream, l.pending[n-1].Seq = l.stream, uint64(at)
	}
	l.flush()
}

func (l *buildLines) flush() {
	if len(l.pending) == 0 {
		return
	}
	if err := l.to.Append(l.pending...); err != nil {
		l.log.Warn("lines of a build could not be logged", "error", err)
	}
	l.pending = l.pending[:0]
}
