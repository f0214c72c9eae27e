package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

var membersSection = Section{
	Name: "members",
	About: "the start of an instance with 0, 1 and 5 sidecars, each with a control group, and the memory of " +
		"its ingot-init",
	Run: measureMembers,
}

// sidecarCounts are the numbers of sidecars that are compared.
var sidecarCounts = []int{0, 1, 5}

// memberGoal is how much longer a start may take for each sidecar, in milliseconds.
const memberGoal = 8

func measureMembers(ctx context.Context, r *Report) (err error) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		r.Note("skipped: this system has no /proc")
		return nil
	}
	rounds, idle := 8, 10*time.Second
	if r.Short {
		rounds, idle = 2, 6*time.Second
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "members")
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	app, err := p.Push(ctx, "members", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	have := 0
	var alone, memoryAlone float64
	for _, count := range sidecarCounts {
		for ; have < count; have++ {
			sidecar := map[string]any{"name": fmt.Sprint("s", have), "command": "exec sleep 1000000",
				"process_types": []string{"web"}}
			if err := p.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/sidecars", sidecar, nil); err != nil {
				return err
			}
		}
		start, pss, err := p.measureCount(ctx, app, rounds, idle)
		if err != nil {
			return err
		}
		started := Figure{Name: fmt.Sprintf("instance start, %d sidecars, median", count), Value: start, Unit: "ms"}
		kept := Figure{Name: fmt.Sprintf("ingot-init, %d sidecars, PSS, mean", count), Value: pss, Unit: "MB"}
		if count == 0 {
			alone, memoryAlone = start, pss
		} else {
			started.Beside, kept.Beside = &Beside{"without sidecars", alone}, &Beside{"without sidecars", memoryAlone}
			started.Goal = Below(alone + float64(count)*memberGoal)
			started.Detail = fmt.Sprintf("%s ms for each sidecar", number((start-alone)/float64(count)))
			kept.Detail = fmt.Sprintf("%s MB for each sidecar", number((pss-memoryAlone)/float64(count)))
		}
		r.Add(started)
		r.Add(kept)
	}
	p.noteEngine(r)
	r.Note("%d instances each, one after the other, from POST …/actions/scale to the first 200 of the new instance "+
		"through the router. Sidecars are `sleep`; an instance without sidecars has no control groups below its own.", rounds)
	return nil
}

// measureCount restarts the app, adds instances one by one, and returns how long one takes to
// start and the memory of their first processes. In the end there is one instance again.
func (p *Platform) measureCount(ctx context.Context, app *App, rounds int, idle time.Duration) (start, pss float64,
	err error) {
	if err := p.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/actions/restart", nil, nil); err != nil {
		return 0, 0, err
	}
	if err := p.awaitRunning(ctx, app); err != nil {
		return 0, 0, err
	}
	var times []time.Duration
	for i := 1; i <= rounds; i++ {
		took, err := p.scale(ctx, app, i)
		if err != nil {
			return 0, 0, err
		}
		times = append(times, took)
	}
	if err := pause(ctx, idle); err != nil {
		return 0, 0, err
	}
	stats, err := p.stats(ctx, app)
	if err != nil {
		return 0, 0, err
	}
	var guids []string
	for _, one := range stats {
		guids = append(guids, one.GUID)
	}
	inits, err := findInits(guids)
	if err != nil {
		return 0, 0, err
	}
	var shares []float64
	for _, pid := range inits {
		share, err := proportionalMemory(pid)
		if err != nil {
			return 0, 0, err
		}
		shares = append(shares, share)
	}
	median, _ := medianAndWorst(times)
	err = p.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/processes/web/actions/scale",
		map[string]int{"instances": 1}, nil)
	return median, mean(shares), err
}
