package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"
)

var crowdSection = Section{
	Name:  "crowd",
	About: "many instances at once, from the call to scale until all of them run, compared with as many bare containers",
	Run:   measureCrowd,
}

// The goals: the rate of starts as a share of bare containers', and the maximum resident memory of the server.
const (
	crowdGoal       = 0.6
	crowdMemoryGoal = 150
)

// crowdPatience is how long many instances may take to start.
const crowdPatience = 10 * time.Minute

func measureCrowd(ctx context.Context, r *Report) (err error) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		r.Note("skipped: this system has no /proc")
		return nil
	}
	apps, each, rounds := 1, 100, 3
	if r.Short {
		each, rounds = 10, 1
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	peers, err := bareRuntimes(ctx, r, program)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	p.Memory = "16M"
	c := &crowd{Platform: p, program: program, peers: peers}
	defer func() { err = errors.Join(err, c.remove(ctx)) }()
	if err := c.measure(ctx, r, apps, each, rounds); err != nil {
		return err
	}
	if r.Large {
		if err := c.measure(ctx, r, 20, 50, 1); err != nil {
			return err
		}
	} else {
		r.Note("20 apps of 50 instances each: with -large, which needs about 12 GB of memory.")
	}
	p.noteEngine(r)
	r.Note("ours is from the first POST …/actions/scale until the API shows all instances as RUNNING, asked about three "+
		"times a second, and includes disks, networks, health checks and routes. Bare containers are started %d at a "+
		"time, until each has written a line, and all of them keep running until the last one has.", crowdWorkers())
	return nil
}

// crowdWorkers is the number of bare containers that are started at the same time: more were not quicker.
func crowdWorkers() int { return 2 * runtime.NumCPU() }

// crowd is a server with apps whose instances are started together.
type crowd struct {
	*Platform
	program string
	peers   []*bareRuntime
	apps    []*App
}

func (c *crowd) remove(ctx context.Context) error {
	var errs []error
	for _, app := range c.apps {
		errs = append(errs, c.Remove(ctx, app))
	}
	return errors.Join(errs...)
}

// measure starts so many instances of so many apps, in turn with bare containers, and adds the better rates.
func (c *crowd) measure(ctx context.Context, r *Report, apps, each, rounds int) error {
	for i := len(c.apps); i < apps; i++ {
		bits, err := newUpload(c.program, fmt.Sprintf("crowd %d", i))
		if err != nil {
			return err
		}
		app, err := c.Push(ctx, fmt.Sprintf("crowd-%d", i), bits)
		if app != nil {
			c.apps = append(c.apps, app)
		}
		if err != nil {
			return err
		}
	}
	contenders := []Contender{func(ctx context.Context) (Result, error) { return c.round(ctx, each) }}
	for _, peer := range c.peers {
		contenders = append(contenders, func(ctx context.Context) (Result, error) { return peer.crowd(ctx, apps*each) })
	}
	best, err := bestOf(ctx, rounds, contenders...)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d x %d instances", apps, each)
	if len(c.peers) == 0 {
		r.Add(Figure{Name: what, Value: best[0].PerSecond, Unit: "starts/s"})
	}
	for i, peer := range c.peers {
		r.Add(Figure{Name: what, Value: best[0].PerSecond, Unit: "starts/s",
			Beside: &Beside{"bare " + peer.name, best[i+1].PerSecond}, Goal: ShareOf(crowdGoal),
			Detail: "CPU of the server: " + number(millis(best[0].Server)) + " ms a start"})
	}
	if _, err := c.scaleAll(ctx, each); err != nil {
		return err
	}
	m, err := residentMemory(c.PID)
	if err != nil {
		return err
	}
	r.Add(Figure{Name: what + ", server's VmRSS", Value: m.total, Unit: "MB",
		Beside: &Beside{"limit", crowdMemoryGoal}, Goal: Below(crowdMemoryGoal)})
	_, err = c.scaleAll(ctx, 1)
	return err
}

// round scales every app from one instance to the given number and back.
func (c *crowd) round(ctx context.Context, each int) (Result, error) {
	if _, err := c.scaleAll(ctx, 1); err != nil {
		return Result{}, err
	}
	before := processorTime(c.PID)
	took, err := c.scaleAll(ctx, each)
	if err != nil {
		return Result{}, err
	}
	started := len(c.apps) * (each - 1)
	result := Result{PerSecond: float64(started) / took.Seconds(),
		Server: (processorTime(c.PID) - before) / time.Duration(started)}
	_, err = c.scaleAll(ctx, 1)
	return result, err
}

// scaleAll scales every app and waits until exactly that many instances run.
func (c *crowd) scaleAll(ctx context.Context, each int) (time.Duration, error) {
	began := time.Now()
	for _, app := range c.apps {
		err := c.Do(ctx, http.MethodPost, "/v3/apps/"+app.GUID+"/processes/web/actions/scale",
			map[string]int{"instances": each}, nil)
		if err != nil {
			return 0, err
		}
	}
	waiting := c.apps
	err := pollFor(ctx, crowdPatience, 300*time.Millisecond, "the instances", func() (bool, error) {
		for len(waiting) > 0 {
			stats, err := c.stats(ctx, waiting[0])
			if err != nil {
				return false, err
			}
			running := 0
			for _, one := range stats {
				if one.State == "RUNNING" {
					running++
				}
			}
			if running != each || len(stats) != each {
				return false, nil
			}
			waiting = waiting[1:]
		}
		return true, nil
	})
	return time.Since(began), err
}

// crowd starts n containers, some at a time, and removes them when all run.
func (b *bareRuntime) crowd(ctx context.Context, n int) (result Result, err error) {
	numbers := make(chan int, n)
	bundle := func(i int) string { return fmt.Sprintf("%s-%d", b.bundle, i) }
	for i := range n {
		numbers <- i
		if err := b.describe(bundle(i), fmt.Sprintf("%s-%d", b.name, i)); err != nil {
			return result, err
		}
	}
	close(numbers)
	running := make([]*bareContainer, n)
	errs := make([]error, crowdWorkers())
	var all sync.WaitGroup
	began := time.Now()
	for w := range errs {
		all.Go(func() {
			for i := range numbers {
				id := fmt.Sprintf("ingot-bench-%d-%s-crowd-%d", selfPID, b.name, i)
				if running[i], errs[w] = b.launch(bundle(i), id); errs[w] != nil || ctx.Err() != nil {
					return
				}
			}
		})
	}
	all.Wait()
	result.PerSecond = float64(n) / time.Since(began).Seconds()
	err = errors.Join(errors.Join(errs...), ctx.Err())
	for _, one := range running {
		if one != nil {
			err = errors.Join(err, one.stop())
		}
	}
	return result, err
}
