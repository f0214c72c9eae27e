package main

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

var startSection = Section{
	Name:  "start",
	About: "from the launch of the process to the first 200 of /healthz and of /readyz, asked every millisecond",
	Run:   measureStart,
}

// The maximum time until /healthz responds, and until /readyz does after a first start and after a restart, in
// milliseconds.
const (
	startGoal   = 1000
	firstGoal   = 400
	restartGoal = 150
)

// startTimes are the times of one type of start.
type startTimes struct{ healthy, ready []time.Duration }

func measureStart(ctx context.Context, r *Report) error {
	rounds := 10
	if r.Short {
		rounds = 3
	}
	var first, again startTimes
	var bareStarts []time.Duration
	for range rounds {
		began := time.Now()
		if err := exec.CommandContext(ctx, r.Binary, "version").Run(); err != nil {
			return err
		}
		bareStarts = append(bareStarts, time.Since(began))
		dir := r.freshDir()
		for _, times := range []*startTimes{&first, &again} {
			if err := timeStart(ctx, r, dir, times); err != nil {
				return err
			}
		}
	}
	floor, _ := medianAndWorst(bareStarts)
	peer := &Beside{"ingot version", floor}
	for _, kind := range []struct {
		name  string
		times startTimes
		goal  float64
	}{{"first run", first, firstGoal}, {"restart", again, restartGoal}} {
		healthy, healthyWorst := medianAndWorst(kind.times.healthy)
		ready, readyWorst := medianAndWorst(kind.times.ready)
		r.Add(Figure{Name: kind.name + ", /healthz, median", Value: healthy, Unit: "ms", Beside: peer,
			Goal: Below(startGoal)})
		r.Add(Figure{Name: kind.name + ", /healthz, worst", Value: healthyWorst, Unit: "ms", Beside: peer})
		r.Add(Figure{Name: kind.name + ", /readyz, median", Value: ready, Unit: "ms", Beside: peer,
			Goal: Below(kind.goal)})
		r.Add(Figure{Name: kind.name + ", /readyz, worst", Value: readyWorst, Unit: "ms", Beside: peer})
	}
	r.Note("%d rounds. A first run finds no data directory; a restart finds that of the first run. Beside: launch and "+
		"end of the same program that only prints its version, median.", rounds)
	return nil
}

// timeStart measures one start. Its ports are chosen in advance, so that the
// first connection need not wait for the file with the addresses.
func timeStart(ctx context.Context, r *Report, dir string, times *startTimes) error {
	api, err1 := freePort(ctx)
	admin, err2 := freePort(ctx)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s, err := r.Launch(dir, "--listen", api, "--admin-listen", admin)
	if err != nil {
		return err
	}
	s.API, s.Admin = api, admin
	healthy, err := s.Await(ctx, "/healthz")
	var ready time.Duration
	if err == nil {
		ready, err = s.Await(ctx, "/readyz")
	}
	if err := errors.Join(err, s.Stop()); err != nil {
		return err
	}
	times.healthy, times.ready = append(times.healthy, healthy), append(times.ready, ready)
	return nil
}
