package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var pushSection = Section{
	Name:  "push",
	About: "push of a small static program over the bare API, from the first call to the first 200 through its route",
	Run:   measurePush,
}

// pushGoal is the maximum time until an app is routable, in milliseconds.
const pushGoal = 1000

func measurePush(ctx context.Context, r *Report) (err error) {
	rounds := 10
	if r.Short {
		rounds = 2
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx, "--log-level", "debug")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	var all []pushed
	var size int
	for i := range rounds + 1 {
		bits, err := newUpload(program, fmt.Sprintf("round %d", i))
		if err != nil {
			return err
		}
		size = len(bits.body)
		one, err := pushOnce(ctx, p, fmt.Sprintf("push-%d", i), bits)
		if err != nil {
			return err
		}
		if i > 0 { // the first round is a warm-up
			all = append(all, one)
		} else {
			r.Add(Figure{Name: "total, first push of the server", Value: millis(one.times.total), Unit: "ms"})
		}
	}
	total := pushFigures(r, all)
	p.noteEngine(r)
	r.Note("%d rounds, each of another app: %s MB, and no file that the server has seen before. The login is not "+
		"counted. create: apply_manifest with buildpack, command and route, and looking up app and route. upload: package "+
		"and its bits. stage: build, asked for every %s until STAGED. start: droplet, start, and asking for stats every %s "+
		"until RUNNING. route: from there to the first 200, asked every millisecond.",
		rounds, number(float64(size)/1e6), pollEvery, pollEvery)
	if err := noteSteps(r, p); err != nil {
		return err
	}
	middle := slices.SortedFunc(slices.Values(all),
		func(a, b pushed) int { return int(a.times.total - b.times.total) })[len(all)/2]
	r.Note("the log of the app in the median round, since the build was asked for: %s", strings.Join(middle.lines, " | "))
	if total < pushGoal && r.ProfileDir == "" {
		return nil
	}
	return r.hotSpots(ctx, p.Server, "push", 6, func() error {
		for i := range 3 {
			bits, err := newUpload(program, fmt.Sprintf("profile %d", i))
			if err != nil {
				return err
			}
			if _, err := pushOnce(ctx, p, fmt.Sprintf("profiled-%d", i), bits); err != nil {
				return err
			}
		}
		return nil
	})
}

// pushed is the result of one round.
type pushed struct {
	times PushTimes
	lines []string
	// server is the processor time of the server, without its child processes.
	server time.Duration
}

// pushOnce pushes an app and deletes it.
func pushOnce(ctx context.Context, p *Platform, name string, bits *upload) (one pushed, err error) {
	before := processorTime(p.PID)
	app, err := p.Push(ctx, name, bits)
	one.server = processorTime(p.PID) - before
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return one, err
	}
	one.times = app.Times
	one.lines, err = p.appLines(ctx, app)
	return one, err
}

// pushFigures adds the figures and returns the median.
func pushFigures(r *Report, all []pushed) float64 {
	column := func(of func(pushed) time.Duration) (median, worst float64) {
		var values []time.Duration
		for _, one := range all {
			values = append(values, of(one))
		}
		return medianAndWorst(values)
	}
	total, worst := column(func(o pushed) time.Duration { return o.times.total })
	r.Add(Figure{Name: "total, median", Value: total, Unit: "ms", Beside: &Beside{"limit", pushGoal},
		Goal: Below(pushGoal)})
	r.Add(Figure{Name: "total, worst", Value: worst, Unit: "ms"})
	for _, part := range []struct {
		name string
		of   func(pushed) time.Duration
	}{
		{"create", func(o pushed) time.Duration { return o.times.create }},
		{"upload", func(o pushed) time.Duration { return o.times.upload }},
		{"stage", func(o pushed) time.Duration { return o.times.stage }},
		{"start", func(o pushed) time.Duration { return o.times.start }},
		{"route", func(o pushed) time.Duration { return o.times.route }},
		{"processor time of the server", func(o pushed) time.Duration { return o.server }},
	} {
		median, worst := column(part.of)
		r.Add(Figure{Name: part.name + ", median", Value: median, Unit: "ms", Beside: &Beside{"total, median", total},
			Detail: "worst " + number(worst) + " ms"})
	}
	return total
}

// noteSteps adds a note with the durations of the steps of starting an instance,
// from the engine's log; builds are instances too.
func noteSteps(r *Report, p *Platform) error {
	lines, err := p.logLines()
	if err != nil {
		return err
	}
	var files, create, network, release []time.Duration
	for _, l := range lines {
		if l.Message == "instance started" && l.Instance != "probe" {
			files, create = append(files, l.Files), append(create, l.Create)
			network, release = append(network, l.Network), append(release, l.Release)
		}
	}
	if len(files) == 0 {
		return nil
	}
	var parts []string
	for _, step := range []struct {
		name   string
		values []time.Duration
	}{{"files and disk", files}, {"runc create", create}, {"network", network}, {"write down and release", release}} {
		median, worst := medianAndWorst(step.values)
		parts = append(parts, fmt.Sprintf("%s %s (%s)", step.name, number(median), number(worst)))
	}
	r.Note("inside the engine, from its own log (level debug), ms, median (worst) of %d starts: %s.", len(files),
		strings.Join(parts, ", "))
	return nil
}
