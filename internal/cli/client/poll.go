package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The polling interval starts small, so that quick operations are noticed at
// once, and grows, so that slow ones cause few requests.
const (
	firstPause = 8 * time.Millisecond
	lastPause  = time.Second
	growth     = 1.3
)

// Poll calls ask until it returns true or ctx is done.
func Poll(ctx context.Context, ask func() (done bool, err error)) error {
	return PollWithin(ctx, lastPause, ask)
}

// PollWithin is like Poll with a shorter interval, for a user who waits.
func PollWithin(ctx context.Context, longest time.Duration, ask func() (done bool, err error)) error {
	pause := firstPause
	for {
		done, err := ask()
		if done || err != nil {
			return err
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
		pause = min(longest, time.Duration(float64(pause)*growth))
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Job is an asynchronous operation of the API.
type Job struct {
	GUID      string `json:"guid"`
	Operation string `json:"operation"`
	State     string `json:"state"`
	Errors    []Item `json:"errors"`
	Warnings  []struct {
		Detail string `json:"detail"`
	} `json:"warnings"`
}

// ErrInProgress is returned by JobStarted while a broker is still working.
var ErrInProgress = errors.New("in progress")

// Job waits for the job of a reply, if it has one.
func (c *Client) Job(ctx context.Context, reply *Reply) error { return c.job(ctx, reply, false) }

// JobStarted is like Job, but returns ErrInProgress as soon as a service broker
// has accepted the operation.
func (c *Client) JobStarted(ctx context.Context, reply *Reply) error { return c.job(ctx, reply, true) }

func (c *Client) job(ctx context.Context, reply *Reply, early bool) error {
	at := reply.Header.Get("Location")
	if at == "" {
		return nil
	}
	warned := 0
	return Poll(ctx, func() (bool, error) {
		var job Job
		if _, err := c.Do(ctx, Call{Method: http.MethodGet, URL: at, Into: &job}); err != nil {
			return false, err
		}
		for ; warned < len(job.Warnings) && c.Warn != nil; warned++ {
			c.Warn(job.Warnings[warned].Detail)
		}
		switch job.State {
		case "COMPLETE":
			return true, nil
		case "FAILED":
			if len(job.Errors) == 0 {
				return false, fmt.Errorf("the job %s failed without a reason", job.Operation)
			}
			return false, &Error{Method: http.MethodGet, URL: at, Status: http.StatusUnprocessableEntity, Items: job.Errors}
		case "POLLING":
			if early {
				return false, ErrInProgress
			}
		}
		return false, nil
	})
}
