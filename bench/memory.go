package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

var memorySection = Section{
	Name:  "memory",
	About: "resident memory of a server after its first start, and after some work",
	Run:   measureMemory,
}

// memoryGoal is the maximum resident memory of an idle server, in MB of a million
// bytes.
const memoryGoal = 40

// burst is the number of requests; one in loginsEvery is a login, whose password
// verification needs 19 MiB for a moment.
const (
	burst       = 2000
	loginsEvery = 50
)

func measureMemory(ctx context.Context, r *Report) (err error) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		r.Note("skipped: this system has no /proc")
		return nil
	}
	idle := 10 * time.Second
	if r.Short {
		idle = 2 * time.Second
	}
	s, err := r.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()

	if err := addMemory(ctx, r, s, idle, "idle after the first start", Below(memoryGoal)); err != nil {
		return err
	}
	requests, err := burstRequests(ctx, s)
	if err != nil {
		return err
	}
	if err := (Load{Addr: s.API, Requests: requests, Connections: 16}).Exactly(ctx); err != nil {
		return err
	}
	if err := addMemory(ctx, r, s, idle, fmt.Sprintf("idle after %d requests", len(requests)), Goal{}); err != nil {
		return err
	}
	r.Note("%s after the server was ready, or the last request was answered. MB are 1,000,000 bytes. RssFile is the "+
		"program itself, as far as it was used, and can be shared and dropped; RssAnon is what it holds.", idle)
	r.Note("the requests: client tokens and /userinfo in turn, each %dth a login with a password, over 16 connections.",
		loginsEvery)
	return nil
}

func addMemory(ctx context.Context, r *Report, s *Server, idle time.Duration, name string, goal Goal) error {
	if err := pause(ctx, idle); err != nil {
		return err
	}
	m, err := residentMemory(s.PID)
	if err != nil {
		return err
	}
	// The limit is not a measurement, but the figure is compared with it.
	var limit *Beside
	if goal != (Goal{}) {
		limit = &Beside{"limit", goal.limit}
	}
	r.Add(Figure{Name: name + ", VmRSS", Value: m.total, Unit: "MB", Beside: limit, Goal: goal})
	r.Add(Figure{Name: name + ", RssAnon", Value: m.anonymous, Unit: "MB", Beside: &Beside{"VmRSS", m.total}})
	r.Add(Figure{Name: name + ", RssFile", Value: m.file, Unit: "MB", Beside: &Beside{"VmRSS", m.total}})
	return nil
}

func burstRequests(ctx context.Context, s *Server) ([][]byte, error) {
	c, err := newCast(ctx, s, 16, 4)
	if err != nil {
		return nil, err
	}
	var requests [][]byte
	for i := range burst {
		switch {
		case i%loginsEvery == 0:
			requests = append(requests, c.logins[i/loginsEvery%len(c.logins)])
		case i%2 == 0:
			requests = append(requests, c.tokens[i/2%len(c.tokens)])
		default:
			requests = append(requests, c.userInfos[i/2%len(c.userInfos)])
		}
	}
	return requests, nil
}
