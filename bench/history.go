package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/run/controller/usage"
	"ingot/internal/platform/run/recorder"
	"ingot/internal/platform/series"
)

var historySection = Section{
	Name: "history",
	About: "an app's page with charts of 30 days, and what it costs to record 1,000 apps with three instances each, " +
		"on SQLite and PostgreSQL",
	Run: measureHistory,
}

const (
	chartsGoal    = 100 // ms for the page with charts of 30 days, p99
	recordedApps  = 1000
	recordedEach  = 3  // instances
	recordingGoal = 2  // % of a processor
	heapGoal      = 20 // MB
	tickSeconds   = 10
)

func measureHistory(ctx context.Context, r *Report) error {
	if err := measureSeries(ctx, r, "SQLite", "sqlite:"+filepath.Join(r.Scratch, "history.db")); err != nil {
		return err
	}
	given := os.Getenv("INGOT_TEST_POSTGRES_URL")
	if given == "" {
		r.Note("PostgreSQL was not measured: INGOT_TEST_POSTGRES_URL names no server; make bench starts one.")
		return nil
	}
	fresh, err := freshDatabase(ctx, given)
	if err != nil {
		return err
	}
	return measureSeries(ctx, r, "PostgreSQL", fresh)
}

// measureSeries measures recording in a database, and the page with charts of a server that uses it.
func measureSeries(ctx context.Context, r *Report, name, address string) error {
	if err := measureRecording(ctx, r, name, address); err != nil {
		return fmt.Errorf("record in %s: %w", name, err)
	}
	if err := measureCharts(ctx, r, name, address); err != nil {
		return fmt.Errorf("charts with %s: %w", name, err)
	}
	return nil
}

// busy are instances whose figures differ from tick to tick.
type busy struct {
	now     time.Time
	running []controller.Running
	used    map[string]usage.Usage
	stats   []router.Stats
}

func newBusy(apps []string) *busy {
	b := &busy{now: time.Now(), used: map[string]usage.Usage{}}
	for _, app := range apps {
		for i := range recordedEach {
			guid := fmt.Sprint(app, "-", i)
			b.running = append(b.running, controller.Running{App: app, Process: app, Type: "web", Instance: guid, Index: i})
			b.used[guid] = usage.Usage{Memory: 100 << 20, Disk: 5 << 20}
			b.stats = append(b.stats, router.Stats{App: app, Process: app, Instance: guid, Index: i})
		}
	}
	return b
}

// work lets the instances work until the next tick.
func (b *busy) work() {
	b.now = b.now.Add(tickSeconds * time.Second)
	for guid, u := range b.used {
		u.CPUTime += time.Duration(rand.Int64N(int64(5 * time.Second)))
		u.Memory = 100<<20 + rand.Int64N(8<<20)
		u.Written += rand.Int64N(100000)
		b.used[guid] = u
	}
	for i := range b.stats {
		n := rand.Int64N(500)
		s := &b.stats[i]
		s.Requests, s.Classes[2], s.Buckets[n%8] = s.Requests+n, s.Classes[2]+n, s.Buckets[n%8]+n
	}
}

func (b *busy) recorder(store recorder.Store) *recorder.Recorder {
	return recorder.New(recorder.Config{
		Store: store, Server: "bench", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return b.now },
		Running:  func() []controller.Running { return b.running },
		Requests: func() []router.Stats { return slices.Clone(b.stats) },
		Usage:    func(context.Context, ...string) map[string]usage.Usage { return b.used },
		Types:    func(context.Context, []string) (map[string]string, error) { return nil, nil },
	})
}

// measureRecording measures the ticks of a recorder, with the transactions that store the points.
func measureRecording(ctx context.Context, r *Report, name, address string) (err error) {
	ticks := 60
	if r.Short {
		ticks = 12
	}
	d, err := db.Open(ctx, db.Options{URL: address})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Migrate(ctx, platformdb.Migrations); err != nil {
		return err
	}
	store := platformdb.New(d)
	var apps []string
	err = store.Update(ctx, func(tx platform.Tx) error {
		apps = nil // the transaction may be retried
		for n := range recordedApps {
			app := &platform.App{Name: fmt.Sprint("recorded-", n), SpaceGUID: "space"}
			if err := tx.Apps().Insert(app); err != nil {
				return err
			}
			apps = append(apps, app.GUID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := newBusy(apps)
	rec := b.recorder(store)
	var cpu, wall time.Duration
	for n := range 2 * ticks {
		b.work()
		before, began := processorTime(os.Getpid()), time.Now()
		rec.Tick(ctx)
		if n >= ticks { // the first half fills memory and tables
			cpu, wall = cpu+processorTime(os.Getpid())-before, wall+time.Since(began)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(rec) // and not after that
	runtime.GC()
	runtime.ReadMemStats(&without)
	of := float64(ticks) * tickSeconds
	r.Add(Figure{
		Name: "recording 1,000 apps x 3 instances, " + name, Value: 100 * cpu.Seconds() / of, Unit: "% of a processor",
		Goal: Below(recordingGoal),
		Detail: fmt.Sprintf("with SQL, without the engine and PostgreSQL's processes; a tick takes %s ms",
			number(millis(wall)/float64(ticks))),
	})
	r.Add(Figure{
		Name: "its memory, " + name, Value: max(0, float64(with.HeapAlloc)-float64(without.HeapAlloc)) / 1e6, Unit: "MB",
		Goal: Below(heapGoal), Detail: "live heap that ends with the recorder",
	})
	return nil
}

// month returns the points of an app with three instances in all resolutions.
func month(app string, now int64) (all []series.Addition) {
	for _, res := range series.Resolutions() {
		a := series.Addition{App: app, Resolution: res}
		for at := now - res.Keep; at < now; at += res.Step {
			for _, scope := range []string{"", "web", "web/0", "web/1", "web/2"} {
				a.Points = append(a.Points, series.Timed{At: at, Scope: scope, Point: busyPoint()})
			}
		}
		all = append(all, a)
	}
	return all
}

func busyPoint() series.Point {
	p := series.None()
	for f := range series.Field(len(p)) {
		p[f] = 0
	}
	vary := func(f series.Field, least, more float64) { p[f] = least + more*rand.Float64() }
	vary(series.Status2xx, 100, 200)
	vary(series.CPU, 0.1, 0.5)
	vary(series.Memory, 100<<20, 20<<20)
	vary(series.LogBytes, 1000, 100000)
	p[series.P50], p[series.P95], p[series.P99] = 0.0025, 0.01, 0.025
	p[series.Disk], p[series.Instances] = 50<<20, recordedEach
	return p
}

// measureCharts measures the page with the charts of 30 days of an app whose points were stored before.
func measureCharts(ctx context.Context, r *Report, name, address string) (err error) {
	rounds := 200
	if r.Short {
		rounds = 20
	}
	dir := r.freshDir()
	args := []string{}
	if name == "SQLite" {
		address = "sqlite:" + filepath.Join(dir, "ingot.db")
	} else {
		if address, err = freshDatabase(ctx, address); err != nil {
			return err
		}
		args = append(args, "--database-url", address)
	}
	p, err := r.startPlatformIn(ctx, dir, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	var app struct{ GUID string }
	if err := p.Do(ctx, "POST", "/v3/apps", map[string]any{"name": "charted",
		"relationships": relationship("space", p.space)}, &app); err != nil {
		return err
	}
	d, err := db.Open(ctx, db.Options{URL: address})
	if err != nil {
		return err
	}
	now := time.Now().Unix()
	err = errors.Join(platformdb.New(d).AddPoints(ctx, "bench", now, month(app.GUID, now)), d.Close())
	if err != nil {
		return err
	}
	v, err := p.visit(ctx, "admin", adminPassword)
	if err != nil {
		return err
	}
	path := consolePath + "/apps/" + url.PathEscape(app.GUID) + "/history?range=30d"
	_, page, err := v.get(ctx, path, "")
	if err != nil {
		return err
	}
	if drawn := strings.Count(string(page), "<polyline") + strings.Count(string(page), "<path"); drawn < 3 {
		return fmt.Errorf("the page has %d lines in its charts", drawn)
	}
	var took []time.Duration
	before := processorTime(p.PID)
	for range rounds {
		began := time.Now()
		if _, _, err := v.get(ctx, path, "gzip"); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	cpu := (processorTime(p.PID) - before) / time.Duration(rounds)
	slices.Sort(took)
	f := Figure{
		Name: "app page with charts of 30 days, p99, " + name, Value: millis(percentile(took, 0.99)), Unit: "ms",
		Goal: Below(chartsGoal), Detail: fmt.Sprintf("p50 %s ms, CPU: %s ms, page %s kB",
			number(millis(percentile(took, 0.5))), number(millis(cpu)), number(float64(len(page))/1000)),
	}
	r.Add(f)
	if f.judge() != resultFail && r.ProfileDir == "" {
		return nil
	}
	return r.hotSpots(ctx, p.Server, "charts-"+name, 3, func() error {
		for began := time.Now(); time.Since(began) < 3*time.Second; {
			if _, _, err := v.get(ctx, path, "gzip"); err != nil {
				return err
			}
		}
		return nil
	})
}
