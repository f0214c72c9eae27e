package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// clientRate is the number of lines a second of all apps while our client shows
// them.
const clientRate = 5000

// measureLogClient lets apps print, and measures the standard output of 'ingot
// logs'.
func measureLogClient(ctx context.Context, r *Report, p *Platform, apps []*App) (err error) {
	seconds := 10
	if r.Short {
		seconds = 2
	}
	c := &pusher{name: "ingot", program: r.Binary, home: filepath.Join(r.Scratch, "home-logs")}
	if err := os.MkdirAll(c.home, 0o700); err != nil {
		return err
	}
	if err := c.run(ctx, "login", "-a", "http://"+p.API, "-u", "admin", "-p", adminPassword, "-o", "demo", "-s",
		"dev"); err != nil {
		return err
	}
	lines := clientRate / len(apps) * seconds
	screens := make([]*screen, len(apps))
	var reading sync.WaitGroup
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for i, app := range apps {
		s, end, err := c.logs(ctx, "logs-"+strconv.Itoa(i), lines)
		if err != nil {
			return err
		}
		ends = append(ends, end)
		// The client follows the log once it shows a line.
		if err := s.seeOne(func() error { return p.print(ctx, app, 1000, 1) }); err != nil {
			return err
		}
		screens[i] = s
		reading.Go(func() { s.failure = s.read() })
	}
	idle := watchTimer()
	for _, app := range apps {
		if err := p.print(ctx, app, clientRate/len(apps), lines); err != nil {
			return err
		}
	}
	reading.Wait()
	late := idle()
	var delays []time.Duration
	wrong := 0
	for _, s := range screens {
		if s.failure != nil {
			return s.failure
		}
		delays = append(delays, s.delays...)
		wrong += lines - s.lines + s.disorder
	}
	slices.Sort(delays)
	r.Add(Figure{
		Name: "lines that ingot logs does not show, or not in order", Value: float64(wrong), Unit: "lines", Goal: Below(1),
		Detail: fmt.Sprintf("of %d", lines*len(apps)),
	})
	if len(delays) == 0 {
		return errors.New("ingot logs shows nothing")
	}
	r.Add(Figure{
		Name: "from write to what ingot logs shows, p99", Value: millis(percentile(delays, 0.99)), Unit: "ms",
		Goal:   Below(screenGoal),
		Beside: &Beside{"a bare timer is late, p99", millis(percentile(late, 0.99))},
		Detail: fmt.Sprintf("median %s ms, worst %s ms", number(millis(percentile(delays, 0.5))),
			number(millis(percentile(delays, 1)))),
	})
	r.Note("%d processes of 'ingot logs', each for one of %d apps that print %d lines a second together for %d s; a "+
		"line counts when its end has been read from the client's standard output.", len(apps), len(apps),
		clientRate, seconds)
	return nil
}

// logs starts the client; end stops it.
func (c *pusher) logs(ctx context.Context, app string, lines int) (s *screen, end func(), err error) {
	cmd := exec.CommandContext(ctx, c.program, "logs", app, "--process", "web")
	cmd.Dir, cmd.Env = c.home, c.env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	s = &screen{in: out, want: lines, delays: make([]time.Duration, 0, lines), text: func(line []byte) ([]byte, error) {
		_, text, _ := bytes.Cut(line, []byte(" OUT "))
		return text, nil
	}}
	return s, func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait() // the exit status after an interrupt is irrelevant
	}, nil
}

// seeOne has a line printed and waits until it is shown. Older lines may come
// before it, and none after it.
func (s *screen) seeOne(printOne func() error) error {
	asked := time.Now()
	if err := printOne(); err != nil {
		return err
	}
	late := time.AfterFunc(screenPatience, func() { s.in.Close() })
	defer late.Stop()
	in := bufio.NewReader(s.in)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("ingot logs shows no line: %w", err)
		}
		n, at, err := s.parse(line)
		if err != nil || n >= 0 && at.After(asked) {
			return err
		}
	}
}
