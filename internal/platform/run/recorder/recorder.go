package recorder

import (
	"context"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/run/controller/usage"
	"ingot/internal/platform/series"
)

// Store stores the points of apps.
type Store interface {
	// AddPoints adds what a server measured until a time, in Unix seconds.
	AddPoints(ctx context.Context, server string, now int64, more []series.Addition) error
	// Series returns the blocks of an app of a resolution from a time on, and those of finer ones from
	// a later time on.
	Series(ctx context.Context, app string, resolution int, from, recent int64) ([]series.Stored, error)
}

// Config says what is measured and where it is stored.
type Config struct {
	Store Store
	// Server is the name of this server among those that share the database.
	Server string
	// Running returns the instances that this server works on, and Usage what they use.
	Running func() []controller.Running
	Usage   func(ctx context.Context, instances ...string) map[string]usage.Usage
	// Requests returns the counts of instances by this server's router.
	Requests func() []router.Stats
	// Platform returns figures of the platform as a whole; nil means that it has none.
	Platform func() []Figure
	// Types returns the types of processes, of which other servers run the instances.
	Types func(ctx context.Context, processes []string) (map[string]string, error)
	Log   *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

const (
	// batch is the number of apps that are written in one transaction.
	batch = 100
	// turns divides the apps: a tick writes those of one turn, so that an app is written every
	// minute and no tick writes all.
	turns = 6
	// minutesEvery is how often points of minutes are written. Until then finer ones stand for
	// them.
	minutesEvery = 5
	// unwritten is how old points may be, in seconds, that are only stored in a finer resolution.
	unwritten = 3600
	// stopTime limits how long the last points are written when the server stops.
	stopTime = 5 * time.Second
	// maxTypes limits the processes whose type is remembered.
	maxTypes = 20000
)

// last are the totals of an instance at the last tick.
type last struct {
	stats   router.Stats
	cpu     time.Duration
	at      time.Time
	written int64
	known   bool // cpu and written are
}

// crash is an instance that crashed.
type crash struct {
	app, process string
	index        int
}

// Recorder records the series of apps. It is a background.Service.
type Recorder struct {
	Config
	part background.Part

	crashing sync.Mutex
	crashes  map[crash]int64

	ticking sync.Mutex       // held by Tick and Stop, of all below
	last    map[string]*last // by instance
	types   map[string]string
	totals  map[Figure]float64 // of the platform at the last tick; the keys have no value
	fails   bool               // the last write failed

	mu   sync.Mutex // of apps, which readers use too
	apps map[string]*track
}

// New returns a Recorder that is not running.
func New(c Config) *Recorder {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Recorder{Config: c, crashes: map[crash]int64{}, apps: map[string]*track{}, last: map[string]*last{},
		types: map[string]string{}, totals: map[Figure]float64{}}
}

// Start starts to measure.
func (r *Recorder) Start(ctx context.Context) error {
	return r.part.Run(ctx, func(work context.Context) {
		for {
			now := r.Now()
			if !background.Sleep(work, now.Truncate(step).Add(step).Sub(now)) {
				return
			}
			background.Safely("record apps", func() { r.Tick(work) })
		}
	})
}

const step = time.Duration(10) * time.Second

// Stop writes what was measured, and ends.
func (r *Recorder) Stop() {
	r.part.Halt(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		r.ticking.Lock()
		defer r.ticking.Unlock()
		r.mu.Lock()
		for _, t := range r.apps {
			t.finish(r.Now().Unix(), true)
		}
		r.mu.Unlock()
		r.write(ctx, func(string) bool { return true }, func(string, series.Resolution) bool { return true })
	})
}

// Crashed counts a crash of an instance. A crash that is followed by a restart by a user counts too; a
// restart without a crash does not.
func (r *Recorder) Crashed(app, process string, index int) {
	r.crashing.Lock()
	defer r.crashing.Unlock()
	r.crashes[crash{app, process, min(index, maxIndex)}]++
}

// Tick measures all apps and writes the points of those whose turn it is.
func (r *Recorder) Tick(ctx context.Context) {
	r.ticking.Lock()
	defer r.ticking.Unlock()
	now := r.Now()
	// The point of the 10 seconds that are over.
	at := now.Add(-step/2).Unix() / series.Seconds.Step * series.Seconds.Step
	r.keep(at, r.measure(ctx, now))
	turn := uint32(at/series.Seconds.Step) % turns
	minute := uint32(at/series.Minutes.Step) % minutesEvery
	r.write(ctx, func(app string) bool { return hash(app)%turns == turn }, func(app string, res series.Resolution) bool {
		return res.ID != series.Minutes.ID || hash(app)/turns%minutesEvery == minute
	})
}

// keep adds what was measured to the points that wait.
func (r *Recorder) keep(at int64, measured map[string]map[string]*sums) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for app, scopes := range measured {
		t := r.apps[app]
		if t == nil {
			t = &track{since: at}
			r.apps[app] = t
		}
		t.finish(at, false)
		t.measured(at, scopes)
	}
	for app, t := range r.apps {
		t.finish(at+series.Seconds.Step, false)
		if t.idle() {
			delete(r.apps, app)
		}
	}
}

func hash(app string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(app))
	return h.Sum32()
}

// write stores what waits of apps. A failure is tried again when their turn comes next.
func (r *Recorder) write(ctx context.Context, turn func(app string) bool,
	due func(app string, res series.Resolution) bool) {
	for _, more := range r.due(turn, due) {
		err := r.Store.AddPoints(ctx, r.Server, r.Now().Unix(), more)
		if err != nil {
			if ctx.Err() == nil && !r.fails {
				r.Log.WarnContext(ctx, "the history of apps could not be written; this is tried again", "error", err)
				r.fails = true
			}
			return
		}
		r.fails = false
		r.mu.Lock()
		for i := range more {
			if t := r.apps[more[i].App]; t != nil {
				t.stored(&more[i])
			}
		}
		r.mu.Unlock()
	}
}

// due returns what has to be written, in batches.
func (r *Recorder) due(turn func(app string) bool, due func(app string, res series.Resolution) bool) (
	batches [][]series.Addition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var apps []string
	for app := range r.apps {
		if turn(app) {
			apps = append(apps, app)
		}
	}
	slices.Sort(apps)
	for some := range slices.Chunk(apps, batch) {
		var more []series.Addition
		for _, app := range some {
			more = append(more, r.apps[app].additions(app, func(res series.Resolution) bool { return due(app, res) })...)
		}
		if len(more) > 0 {
			batches = append(batches, more)
		}
	}
	return batches
}

// History returns the points of an app in a range of time: those that are stored, and those of this server that
// wait.
func (r *Recorder) History(ctx context.Context, app string, in series.Range, now time.Time) (*series.History, error) {
	from, to := in.Window(now.Unix())
	resolution := series.Seconds
	for _, one := range series.Resolutions() {
		if one.Step <= in.Step {
			resolution = one
		}
	}
	// First those that wait: what is written meanwhile is read twice, and counts once.
	waiting := r.waiting(app)
	blocks, err := r.Store.Series(ctx, app, resolution.ID, from, max(from, to-unwritten))
	if err != nil {
		return nil, err
	}
	return series.Merge(append(blocks, waiting...), from, to, in.Step), nil
}

// waiting returns the points of an app that are not stored yet, as blocks.
func (r *Recorder) waiting(app string) (blocks []series.Stored) {
	r.mu.Lock()
	var more []series.Addition
	if t := r.apps[app]; t != nil {
		more = t.additions(app, func(series.Resolution) bool { return true })
	}
	r.mu.Unlock()
	for i := range more {
		a := &more[i]
		a.Since = 0
		for _, start := range a.Blocks(r.Now().Unix()) {
			blocks = append(blocks, series.Stored{Server: r.Server, Resolution: a.Resolution.ID, Start: start,
				Data: a.Apply(start, nil, nil)})
		}
	}
	return blocks
}

// takeCrashes returns the crashes since the last call.
func (r *Recorder) takeCrashes() map[crash]int64 {
	r.crashing.Lock()
	defer r.crashing.Unlock()
	if len(r.crashes) == 0 {
		return nil
	}
	taken := r.crashes
	r.crashes = map[crash]int64{}
	return taken
}

// typesOf returns the types of processes that have requests.
func (r *Recorder) typesOf(ctx context.Context, running []controller.Running, stats []router.Stats) map[string]string {
	if len(r.types) > maxTypes {
		clear(r.types)
	}
	for i := range running {
		r.types[running[i].Process] = running[i].Type
	}
	unknown := map[string]bool{}
	for i := range stats {
		if _, known := r.types[stats[i].Process]; !known && stats[i].Process != "" {
			unknown[stats[i].Process] = true
		}
	}
	if len(unknown) > 0 && r.Types != nil {
		list := slices.Sorted(maps.Keys(unknown))
		if found, err := r.Types(ctx, list); err == nil {
			for _, process := range list {
				r.types[process] = found[process] // "" if it is gone
			}
		}
	}
	return r.types
}
