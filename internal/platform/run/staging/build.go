package staging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/run/staging/buildpacks"
	"ingot/internal/platform/run/staging/lifecycle"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
)

// build is one call of Stage.
type build struct {
	*Stager
	req     Request
	created time.Time
	last    []buildLine // the last lines of the build's output
	plain   *plainBuild // set if it needs no instance
}

const (
	grace = 5 * time.Second
	// slack is how long after its timeout an instance is removed.
	slack         = 30 * time.Second
	removeTimeout = time.Minute
)

func (b *build) run(ctx context.Context) (Result, error) {
	give, err := b.slot(ctx, b.req.Log)
	if err != nil {
		if !errors.Is(err, ErrInterrupted) {
			b.remove(ctx) // cancelled: there may be an instance from before a restart
		}
		return Result{}, err
	}
	defer give()
	i, err := b.config.Engine.Get(ctx, b.req.BuildGUID)
	switch {
	case err == nil && i.Labels[LabelKind] != KindValue:
		return Result{}, failure(StagingError, "The name of this build is taken by something else")
	case err == nil:
		b.created = i.Created
	case errors.Is(err, engine.ErrNotFound):
		if err := phase(ctx, "prepare", b.start); err != nil {
			if ctx.Err() != nil {
				err = ended(ctx, b.config.Timeout)
			}
			if errors.Is(err, ErrInterrupted) {
				return Result{}, err // if it did start, it is adopted
			}
			b.remove(ctx)
			return Result{}, explain(err, "Starting the build")
		}
	default:
		if ctx.Err() != nil {
			return Result{}, ended(ctx, b.config.Timeout)
		}
		return Result{}, explain(err, "Starting the build")
	}
	if b.plain != nil {
		return b.finishPlain(ctx)
	}
	result, err := b.finish(ctx)
	if errors.Is(err, ErrInterrupted) {
		return Result{}, err
	}
	if err == nil && b.req.Done != nil {
		err = b.req.Done(ctx, result) // before the instance is removed, which takes time
	}
	b.remove(ctx)
	return result, err
}

// remove removes the instance, even if ctx is done.
func (b *build) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := b.config.Engine.Remove(ctx, b.req.BuildGUID); err != nil {
		b.leftovers.Store(true)
		b.config.Log.ErrorContext(ctx, "a staging instance could not be removed", "build", b.req.BuildGUID, "error", err)
	}
}

// start chooses and fetches buildpacks and starts the instance.
func (b *build) start(ctx context.Context) error {
	req := b.req
	if n := len(req.Lifecycle.Buildpacks); n > 0 && platform.IsJava(req.Lifecycle.Buildpacks[n-1]) {
		// This is known without building anything.
		if err := platform.CheckSidecars([]platform.DropletBuildpack{{Name: platform.Redacted(req.Lifecycle.Buildpacks[n-1]),
			BuildpackName: "java"}}, false, req.Sidecars); err != nil {
			return err
		}
	}
	if err := b.warnOfSidecars(ctx, req.Lifecycle.Buildpacks, req.Sidecars); err != nil {
		return err
	}
	scratch, err := b.scratch()
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	var c converter
	packs, skip, err := b.choose(ctx, req, &c, scratch)
	if err != nil {
		return err
	}
	// Only the engine knows whether a segment has machines.
	if skip && len(packs) == 1 && packs[0].Bundled && packs[0].Name == buildpacks.Binary && req.Segment == "" {
		if b.plain, err = b.newPlain(ctx, packs[0].Buildpack); b.plain != nil || err != nil {
			return err
		}
	}
	plan := lifecycle.Plan{SkipDetect: skip, Stack: req.Lifecycle.Stack, Env: b.environment()}
	limits := archive.Limits{Size: int64(req.DiskMB) << 20}
	app := blobZip(ctx, b.config.Blobs, blob.Packages, req.PackageGUID)
	// What has a key is first: an engine unpacks everything from the first archive without one.
	programs, err := b.programs()
	if err != nil {
		return err
	}
	files := []engine.Archive{programs}
	for i, p := range packs {
		plan.Buildpacks = append(plan.Buildpacks, p.Buildpack)
		p.files.Target = path.Join(lifecycle.BuildpacksDir, strconv.Itoa(i))
		files = append(files, p.files)
	}
	stage, err := planArchive(plan)
	if err != nil {
		return err
	}
	if cache, ok := b.cache(ctx); ok {
		files = append(files, cache)
	}
	files = append(files, engine.Archive{Target: lifecycle.AppDir, Open: c.open(ctx, app, limits, nil)}, stage)
	say(req.Log, "Creating the staging instance with %s", packNames(packs, skip))
	b.created = time.Now()
	spec := b.spec(files)
	if b.config.Reach != nil {
		if spec.Reach, err = b.config.Reach(ctx, req.App.GUID); err != nil {
			return fmt.Errorf("the addresses of the app's services: %w", err)
		}
	}
	err = b.config.Engine.Start(ctx, spec)
	if err != nil {
		return c.cause(err)
	}
	return nil
}

func packNames(packs []chosen, skip bool) string {
	if !skip {
		return "all buildpacks"
	}
	names := make([]string, len(packs))
	for i, p := range packs {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

func (b *build) spec(files []engine.Archive) engine.Spec {
	rate := b.req.LogRate
	if rate <= 0 {
		rate = -1
	}
	return engine.Spec{
		ID:      b.req.BuildGUID,
		Segment: b.req.Segment,
		Labels:  map[string]string{LabelKind: KindValue, LabelApp: b.req.App.GUID},
		Zone:    engine.Zone{Space: b.req.App.SpaceGUID, Staging: true},
		Files:   files,
		Launch: initproto.Spec{
			Instance: b.req.BuildGUID, OneOff: true, User: b.config.User, Group: b.config.Group,
			Grace: grace, Timeout: b.config.Timeout, LogRate: rate,
			Members: []initproto.Member{{
				Name: "staging", Source: "STG", Dir: "{{home}}",
				Args: []string{"{{home}}/" + lifecycle.BuilderDir + "/ingot-builder", "-home", "{{home}}"},
				Env: []string{
					"PATH=" + b.config.Path, "HOME={{home}}", "LANG=" + initproto.Lang, "USER=vcap",
					// In Diego a build is a task, and tasks have no ports.
					"CF_INSTANCE_IP={{host}}", "CF_INSTANCE_INTERNAL_IP={{ip}}",
					"CF_INSTANCE_ADDR=", "CF_INSTANCE_PORT=", "CF_INSTANCE_PORTS=[]",
				},
			}},
		},
		Limits: engine.Limits{Memory: int64(b.req.MemoryMB) << 20, Disk: int64(b.req.DiskMB) << 20},
	}
}

// environment returns the environment of buildpacks: the staging group, the app's
// variables, and those of the platform.
func (b *build) environment() map[string]string {
	env := map[string]string{}
	for _, from := range []map[string]string{b.config.Variables, b.req.Env, b.req.App.Env} {
		for k, v := range from {
			if k != "" && !strings.ContainsAny(k, "=\x00") && !strings.ContainsRune(v, 0) {
				env[k] = v
			}
		}
	}
	ours := map[string]string{
		"CF_STACK":         b.req.Lifecycle.Stack,
		"VCAP_APPLICATION": b.req.VCAPApplication,
		"VCAP_SERVICES":    b.req.VCAPServices,
		"MEMORY_LIMIT":     strconv.Itoa(b.req.MemoryMB) + "m",
	}
	for _, k := range []string{"VCAP_APPLICATION", "VCAP_SERVICES"} {
		if ours[k] == "" {
			ours[k] = "{}"
		}
	}
	maps.Copy(env, ours)
	return env
}

// CacheKey returns the key of an app's blob.BuildCache, which is deleted with the app.
func CacheKey(appGUID string) string { return strings.ToLower(appGUID) }

func (b *build) cacheKey() string { return CacheKey(b.req.App.GUID) }

// cache returns the build cache. A damaged cache is ignored.
func (b *build) cache(ctx context.Context) (engine.Archive, bool) {
	open := func() (*blob.Blob, error) {
		return b.config.Blobs.Open(ctx, blob.BuildCache, b.cacheKey())
	}
	kept, err := open()
	if err != nil {
		if !fault.Is(err, fault.NotFound) {
			b.config.Log.WarnContext(ctx, "the build cache cannot be read", "app", b.req.App.GUID, "error", err)
		}
		return engine.Archive{}, false
	}
	size, sum := kept.Size(), kept.SHA256
	err = b.checkCache(kept, sum)
	kept.Close() //nolint:errcheck // only read from
	if err != nil {
		b.config.Log.WarnContext(ctx, "the build cache is damaged and was deleted", "app", b.req.App.GUID, "error", err)
		_ = b.config.Blobs.Delete(ctx, blob.BuildCache, b.cacheKey()) // this build replaces it anyway
		return engine.Archive{}, false
	}
	say(b.req.Log, "Using the build artifacts cache of the last build (%s)", sizeText(size))
	// With a key an engine keeps it unpacked for the next build.
	return engine.Archive{Key: cachePrefix + sum, Target: lifecycle.CacheDir,
		Open: func() (io.ReadCloser, error) { return open() }}, true
}

// cachePrefix begins the key of the archive of a build cache; its checksum follows.
const cachePrefix = "buildcache-"

// checkCache reads a cache to its end, unless it is the one that was read before.
func (b *build) checkCache(r io.Reader, sum string) error {
	b.mu.Lock()
	known := sum != "" && b.checked == sum
	b.mu.Unlock()
	if known {
		return nil
	}
	if _, err := archive.CheckTar(r, archive.Limits{}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked = sum
	return nil
}

// finish waits for the end of the instance and collects its results.
func (b *build) finish(ctx context.Context) (Result, error) {
	timeout := b.config.Timeout
	// If it ended while no server was running, there are only records to read.
	left := min(max(time.Until(b.created.Add(timeout+slack)), slack), timeout+slack) // the clock may have been set
	followCtx, cancel := context.WithTimeoutCause(ctx, left, errExpired)
	defer cancel()
	var out outcome
	err := phase(followCtx, "run buildpacks",
		func(ctx context.Context) (err error) { out, err = b.follow(ctx); return err })
	if err != nil {
		if followCtx.Err() != nil {
			return Result{}, ended(followCtx, timeout)
		}
		return Result{}, explain(err, "Following the build")
	}
	if !out.lost && out.status != 0 && !out.oom {
		// If a compiler is killed, the buildpack fails.
		if u, err := b.config.Engine.Usage(ctx, b.req.BuildGUID); err == nil && u.OOMKills > 0 {
			out.oom = true
		}
	}
	if err := out.failure(b.req.MemoryMB, b.req.DiskMB, timeout); err != nil {
		return Result{}, b.withLines(err)
	}
	return b.storeDroplet(ctx)
}

func (b *build) storeDroplet(ctx context.Context) (result Result, err error) {
	err = phase(ctx, "store droplet", func(ctx context.Context) (err error) { result, err = b.collect(ctx); return err })
	if err != nil && ctx.Err() != nil {
		return Result{}, ended(ctx, b.config.Timeout)
	}
	if err != nil {
		return Result{}, explain(err, "Storing the droplet")
	}
	return result, nil
}

// startable returns an error if neither the droplet nor the app has a start command.
func (b *build) startable(ctx context.Context, result Result) error {
	if len(result.ProcessTypes) > 0 || b.req.HasCommand == nil {
		return nil
	}
	has, err := b.req.HasCommand(ctx)
	if err != nil || has {
		return err
	}
	return failure(StagingError, "Start command not specified. Neither a buildpack nor a Procfile says what to run: "+
		"give the command with cf push -c COMMAND, as command in the manifest, or in a Procfile (web: COMMAND)")
}

func sizeText(n int64) string {
	switch {
	case n >= 1<<30:
		return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + "G"
	case n >= 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + "M"
	case n >= 1<<10:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + "K"
	}
	return strconv.FormatInt(n, 10) + "B"
}

// follow passes on log lines until the instance has ended.
func (b *build) follow(ctx context.Context) (outcome, error) {
	var at engine.Position // lines that an earlier call passed on are not passed on again
	for attempt := 0; ; attempt++ {
		out, done, err := b.read(ctx, &at)
		if done || ctx.Err() != nil {
			return out, err
		}
		if errors.Is(err, engine.ErrNotFound) {
			return outcome{lost: true}, nil
		}
		// The stream ended without the end of the instance.
		i, getErr := b.config.Engine.Get(ctx, b.req.BuildGUID)
		switch {
		case errors.Is(getErr, engine.ErrNotFound):
			return outcome{lost: true}, nil
		case getErr == nil && !i.Running:
			return fromState(i.State), nil
		case attempt >= 10:
			return outcome{}, errors.Join(err, getErr)
		}
		background.Sleep(ctx, time.Duration(attempt+1)*100*time.Millisecond)
	}
}

func fromState(s initproto.State) outcome {
	if s.Phase != initproto.Ended || s.Exit == nil {
		return outcome{lost: true}
	}
	return outcome{
		status: s.Exit.Status, oom: s.Exit.OOM, stopped: s.Exit.Stopped,
		reason: s.Exit.Description, timedOut: timedOut(s.Exit.Description),
	}
}

// timedOut reports whether ingot-init's description of an end is a timeout.
func timedOut(description string) bool { return strings.HasPrefix(description, "Timed out") }

// tellSilence writes a line to the staging log whenever the build has written nothing for a
// while, so that users see that it works: compilers may be silent for minutes. heard is
// called when the build has written something.
func (b *build) tellSilence() (heard, stop func()) {
	began := time.Now()
	var over atomic.Bool
	var timer *time.Timer
	var mu sync.Mutex // the first call may come before timer is set
	mu.Lock()
	defer mu.Unlock()
	timer = background.AfterFunc("tell of a silent build", b.config.Silence, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over.Load() {
			say(b.req.Log, "       Still building (%d s)...", int(time.Since(began).Seconds()))
			timer.Reset(b.config.Silence)
		}
	})
	return func() { timer.Reset(b.config.Silence) }, func() {
		over.Store(true)
		timer.Stop()
	}
}

// read passes on the records of a stream. done means that the last record was read.
func (b *build) read(ctx context.Context, at *engine.Position) (outcome, bool, error) {
	stream, err := b.config.Engine.Records(ctx, b.req.BuildGUID, *at)
	if err != nil {
		return outcome{}, false, err
	}
	defer stream.Close()
	heard, stop := b.tellSilence()
	defer stop()
	var out outcome
	for {
		r, err := stream.Next()
		heard()
		if errors.Is(err, io.EOF) {
			return out, false, nil
		}
		if err != nil {
			return out, false, err
		}
		news := engine.Position(r.Seq) > b.req.After
		switch r.Kind {
		case initproto.Stdout, initproto.Stderr:
			b.remember(r)
			if news {
				b.req.Log("STG", r.Kind == initproto.Stderr, r.Time, r.Payload)
			}
		case initproto.Event:
			var e initproto.EventBody
			if json.Unmarshal(r.Payload, &e) == nil && b.event(e, &out) {
				return out, true, nil
			}
		}
		*at = engine.Position(r.Seq)
		if news && b.req.Seen != nil {
			b.req.Seen(*at)
		}
	}
}

// event handles an event, and reports whether it was the last.
func (b *build) event(e initproto.EventBody, out *outcome) bool {
	switch e.Event {
	case initproto.EventExited:
		out.status, out.oom = e.Status, out.oom || e.OOM
	case initproto.EventDropped:
		say(b.req.Log, "%d lines of this build were left out: it wrote too fast", e.Lines)
	case initproto.EventEnded:
		out.oom, out.stopped, out.reason = out.oom || e.OOM, e.Stopped, e.Reason
		out.timedOut = timedOut(e.Reason)
		if e.Status != 0 {
			out.status = e.Status
		}
		return true
	}
	return false
}
