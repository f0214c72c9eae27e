package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/run/controller/usage"
	"ingot/internal/platform/run/recorder"
	"ingot/internal/platform/series"
)

// world is what a recorder measures, and its store.
type world struct {
	mu      sync.Mutex
	now     time.Time
	running []controller.Running
	used    map[string]usage.Usage
	stats   []router.Stats
	blocks  map[string][]byte // by app, resolution, start and server
	stored  map[string]series.Stored
	full    error
	writes  int
	noise   bool // what instances do differs
	figures []recorder.Figure
}

func newWorld() *world {
	return &world{now: time.Unix(1_700_006_400, 0), used: map[string]usage.Usage{}, blocks: map[string][]byte{},
		stored: map[string]series.Stored{}}
}

func (w *world) AddPoints(_ context.Context, server string, now int64, more []series.Addition) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full != nil {
		return w.full
	}
	w.writes++
	for i := range more {
		a := &more[i]
		for _, start := range a.Blocks(now) {
			key := fmt.Sprintf("%s %d %d %s", a.App, a.Resolution.ID, start, server)
			var finer []series.Stored
			if fine, ok := a.Fill(); ok {
				for k, b := range w.stored {
					if b.Resolution == fine.ID && strings.HasPrefix(k, a.App+" ") {
						finer = append(finer, b)
					}
				}
			}
			w.blocks[key] = a.Apply(start, w.blocks[key], finer)
			w.stored[key] = series.Stored{Server: server, Resolution: a.Resolution.ID, Start: start, Data: w.blocks[key]}
		}
	}
	return nil
}

func (w *world) Series(_ context.Context, app string, resolution int, from, recent int64) ([]series.Stored, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []series.Stored
	for key, b := range w.stored {
		if !strings.HasPrefix(key, app+" ") {
			continue
		}
		since := from
		if b.Resolution < resolution {
			since = recent
		}
		if b.Resolution <= resolution && b.Start >= series.Resolutions()[b.Resolution].Block(since) {
			all = append(all, b)
		}
	}
	return all, nil
}

func (w *world) recorder() *recorder.Recorder {
	return recorder.New(recorder.Config{
		Store: w, Server: "one", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
		Running:  func() []controller.Running { return w.running },
		Platform: func() []recorder.Figure { return slices.Clone(w.figures) },
		Requests: func() []router.Stats { return slices.Clone(w.stats) },
		Usage: func(_ context.Context, guids ...string) map[string]usage.Usage {
			out := map[string]usage.Usage{}
			for _, g := range guids {
				if u, ok := w.used[g]; ok {
					out[g] = u
				}
			}
			return out
		},
		Types: func(context.Context, []string) (map[string]string, error) { return map[string]string{"p": "web"}, nil },
	})
}

// run lets an instance run.
func (w *world) run(app string, index int) {
	guid := fmt.Sprint(app, "-", index)
	w.running = append(w.running, controller.Running{App: app, Process: "p", Type: "web", Instance: guid, Index: index})
	w.used[guid] = usage.Usage{Memory: 100 << 20, Disk: 5 << 20}
	w.stats = append(w.stats, router.Stats{App: app, Process: "p", Instance: guid, Index: index})
}

// work lets instances do something for 10 seconds, and the recorder record it.
func (w *world) work(ctx context.Context, r *recorder.Recorder) {
	for guid, u := range w.used {
		if w.noise {
			u.CPUTime += time.Duration(rand.Int64N(int64(5 * time.Second))) //nolint:gosec // a test
			u.Memory = 100<<20 + rand.Int64N(8<<20)                         //nolint:gosec // a test
			u.Written += rand.Int64N(100000)                                //nolint:gosec // a test
		}
		u.CPUTime += 2 * time.Second
		u.Written += 5000
		w.used[guid] = u
	}
	for i := range w.stats {
		if w.noise {
			n := rand.Int64N(500) //nolint:gosec // a test
			w.stats[i].Requests += n
			w.stats[i].Classes[2] += n
			w.stats[i].Buckets[n%8] += n
		}
		w.stats[i].Requests += 20
		w.stats[i].Classes[2] += 15
		w.stats[i].Classes[5] += 5
		w.stats[i].Buckets[2] += 20
	}
	w.now = w.now.Add(10 * time.Second)
	r.Tick(ctx)
}

// last returns the last point of a scope in a range that was measured.
func (w *world) last(t *testing.T, r *recorder.Recorder, scope string, in series.Range) (p series.Point, n int) {
	t.Helper()
	h, err := r.History(t.Context(), "app", in, w.now)
	if err != nil {
		t.Fatal(err)
	}
	p = series.None()
	for _, one := range h.Points(scope).All {
		if !one.Empty() {
			p, n = one, n+1
		}
	}
	return p, n
}

func near(x, y float64) bool { return x >= y*0.99 && x <= y*1.01 }

// TestRecorder: what two instances do is in the points of the app, the process and each instance, in
// all resolutions, before and after it is written.
func TestRecorder(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := w.recorder()
	w.run("app", 0)
	w.run("app", 1)
	for range 3 * 90 {
		w.work(t.Context(), r)
	}
	for scope, times := range map[string]float64{"": 2, "web": 2, "web/1": 1} {
		p, n := w.last(t, r, scope, series.Ranges[0])
		if n != 270 || !near(p[series.Status2xx], 15*times) || !near(p[series.Status5xx], 5*times) ||
			!near(p[series.CPU], 0.2*times) || !near(p[series.Memory], times*(100<<20)) ||
			!near(p[series.LogBytes], 5000*times) || !near(p[series.P99], 0.005) ||
			!near(p[series.Instances], times) || p[series.Crashes] != 0 {
			t.Errorf("%d points of 10 s, the last of %q is %v", n, scope, p)
		}
		if p, n = w.last(t, r, scope, series.Ranges[1]); n < 44 || !near(p[series.Status2xx], 90*times) ||
			!near(p[series.Memory], times*(100<<20)) || !near(p[series.CPU], 0.2*times) {
			t.Errorf("%d points of a minute, the last of %q is %v", n, scope, p)
		}
		if p, n = w.last(t, r, scope, series.Ranges[2]); n < 3 || !near(p[series.Memory], times*(100<<20)) {
			t.Errorf("%d points of 15 minutes, the last of %q is %v", n, scope, p)
		}
	}
}

// TestCrashes: crashes count, and an instance that a user restarts is none.
func TestCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := w.recorder()
	w.run("app", 0)
	w.work(t.Context(), r)
	w.running, w.stats, w.used = nil, nil, map[string]usage.Usage{} // a restart: another instance
	w.running = []controller.Running{{App: "app", Process: "p", Type: "web", Instance: "new", Index: 0}}
	w.used["new"] = usage.Usage{Memory: 1}
	w.work(t.Context(), r)
	if p, _ := w.last(t, r, "", series.Ranges[0]); p[series.Crashes] != 0 {
		t.Errorf("a restart is %v crashes", p[series.Crashes])
	}
	r.Crashed("app", "web", 0)
	r.Crashed("app", "web", 5000)
	w.work(t.Context(), r)
	for scope, want := range map[string]float64{"": 2, "web": 2, "web/0": 1} {
		if p, _ := w.last(t, r, scope, series.Ranges[0]); p[series.Crashes] != want {
			t.Errorf("%q has %v crashes, want %v", scope, p[series.Crashes], want)
		}
	}
}

// TestKilled: a server that is killed loses what it measured in the last minute, and no more: the
// points of minutes are made of those of 10 seconds.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorld()
	first := w.recorder()
	w.run("app", 0)
	for range 60 {
		w.work(t.Context(), first)
	}
	second := w.recorder() // after a kill: the first is not stopped
	for i := range w.stats {
		w.stats[i] = router.Stats{App: "app", Process: "p", Instance: w.stats[i].Instance}
	}
	for range 60 {
		w.work(t.Context(), second)
	}
	second.Stop()
	h, err := second.History(t.Context(), "app", series.Ranges[1], w.now)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, p := range h.Points("").All {
		sum += p.Requests()
	}
	if want := 120 * 20.0; sum < want-6*20-30 || sum > want*1.01 {
		t.Errorf("%v of %v requests are recorded, want all but those of a minute", sum, want)
	}
}

// TestFullDatabase: while nothing can be written the memory stays bounded, and then it goes on.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := w.recorder()
	for i := range 100 {
		w.run("app", i)
	}
	w.full = errors.New("database or disk is full")
	for range 300 {
		w.work(t.Context(), r)
	}
	w.full = nil
	for range 6 {
		w.work(t.Context(), r)
	}
	if p, _ := w.last(t, r, "", series.Ranges[0]); !near(p[series.Status2xx], 1500) {
		t.Errorf("the last point has %v requests, want those of 100 instances", p[series.Status2xx])
	}
	if p, n := w.last(t, r, "web/99", series.Ranges[0]); n != 0 {
		t.Errorf("instance 99 has %d points (%v), want none: it is beyond the limit", n, p)
	}
}

// TestIdle: where nothing runs nothing is written.
func TestIdle(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := w.recorder()
	for range 30 {
		w.work(t.Context(), r)
	}
	if w.writes != 0 {
		t.Errorf("%d writes, want none", w.writes)
	}
}

// TestPlatform: requests of all apps are added up; totals of the platform become what was added in ten seconds, and
// levels stay levels. Figures of a time without apps are written too.
func TestPlatform(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := w.recorder()
	w.figures = []recorder.Figure{
		{Scope: series.Messages, Field: series.Delivered}, {Scope: series.Messages, Field: series.Waiting, Level: true},
		{Scope: series.Builds, Field: series.Staged, Value: 1},
	}
	last := func(scope string) (p series.Point) {
		t.Helper()
		h, err := r.History(t.Context(), series.Platform, series.Ranges[0], w.now)
		if err != nil {
			t.Fatal(err)
		}
		p = series.None()
		for _, one := range h.Sum(scope).All {
			if !one.Empty() {
				p = one
			}
		}
		return p
	}
	for range 12 {
		w.figures[0].Value += 30
		w.figures[1].Value = 7
		w.work(t.Context(), r)
	}
	if p := last(series.Messages); p[series.Delivered] != 30 || p[series.Waiting] != 7 || p[series.Queued] != 0 {
		t.Errorf("messages are %v, want 30 delivered and 7 that wait", p)
	}
	if p := last(series.Builds); p[series.Staged] != 0 {
		t.Errorf("builds are %v, want none after the first point", p)
	}
	if p := last(""); !p.Empty() {
		t.Errorf("apps are %v, want nothing", p)
	}
	w.run("one", 0)
	w.run("two", 0)
	for range 6 {
		w.work(t.Context(), r)
	}
	if p := last(""); !near(p[series.Status2xx], 30) || p[series.Instances] != 2 || !near(p[series.Memory], 200<<20) {
		t.Errorf("apps are %v, want 30 requests, 2 instances and 200 MB", p)
	}
	if p := last(series.Messages); p[series.Delivered] != 0 {
		t.Errorf("messages are %v, want none", p)
	}
}

// TestClockJumps: a clock that jumps loses points of that time only.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := w.recorder()
	w.run("app", 0)
	for _, jump := range []time.Duration{0, -time.Hour, 400 * 24 * time.Hour, -400 * 24 * time.Hour, time.Hour} {
		w.now = w.now.Add(jump)
		for range 12 {
			w.work(t.Context(), r)
		}
	}
	if p, n := w.last(t, r, "", series.Ranges[0]); n < 12 || p.Requests() == 0 {
		t.Errorf("%d points, the last is %v", n, p)
	}
}

// TestService: it starts and stops like the other services.
func TestService(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(*testing.T) background.Service { return newWorld().recorder() })
}

// BenchmarkTick records 1,000 apps with three instances for 10 seconds, without what the engine needs
// to measure them.
func BenchmarkTick(b *testing.B) {
	w := newWorld()
	r := w.recorder()
	w.noise = true
	for app := range 1000 {
		for i := range 3 {
			w.run(fmt.Sprint("app-", app), i)
		}
	}
	for range 6 {
		w.work(b.Context(), r)
	}
	b.ResetTimer()
	before := processor(b)
	for range b.N {
		w.work(b.Context(), r)
	}
	b.ReportMetric(float64(processor(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
	b.StopTimer()
	w.blocks, w.stored = nil, nil
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(r) // and not after that
	runtime.GC()
	runtime.ReadMemStats(&without)
	b.ReportMetric(float64(with.HeapAlloc-without.HeapAlloc), "heap-bytes")
}

// processor returns the processor time of this process: the machine may have other work.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHistory reads 30 full days of an app with three instances, whose requests, processor time,
// memory and output differ from point to point.
func BenchmarkHistory(b *testing.B) {
	w := newWorld()
	r := w.recorder()
	for _, resolution := range series.Resolutions() {
		a := series.Addition{App: "app", Resolution: resolution}
		for at := w.now.Unix() - resolution.Keep; at < w.now.Unix(); at += resolution.Step {
			for _, scope := range []string{"", "web", "web/0", "web/1", "web/2"} {
				a.Points = append(a.Points, series.Timed{At: at, Scope: scope, Point: noise()})
			}
		}
		if err := w.AddPoints(b.Context(), "one", w.now.Unix(), []series.Addition{a}); err != nil {
			b.Fatal(err)
		}
	}
	bytes := 0
	for _, data := range w.blocks {
		bytes += len(data) + series.RowOverhead
	}
	b.ResetTimer()
	before := processor(b)
	for range b.N {
		h, err := r.History(b.Context(), "app", series.Ranges[3], w.now)
		if err != nil {
			b.Fatal(err)
		}
		h.Points("")
	}
	b.ReportMetric(float64(processor(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
	b.ReportMetric(float64(bytes), "stored-bytes")
}

// noise returns a point of a busy app.
func noise() series.Point {
	p := series.None()
	vary := func(f series.Field, least, more float64) { p[f] = least + more*rand.Float64() } //nolint:gosec // a test
	for f := series.Status3xx; f <= series.StatusOther; f++ {
		p[f] = 0
	}
	vary(series.Status2xx, 100, 200)
	vary(series.CPU, 0.1, 0.5)
	vary(series.Memory, 100<<20, 20<<20)
	vary(series.LogBytes, 1000, 100000)
	p[series.P50], p[series.P95] = 0.0025, 0.01
	p[series.P99] = []float64{0.01, 0.025}[rand.IntN(2)] //nolint:gosec // a test
	p[series.Disk], p[series.Crashes], p[series.Instances] = 50<<20, 0, 3
	return p
}
