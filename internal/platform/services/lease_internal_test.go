package services

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"ingot/internal/platform"
)

// uncommitted is a store whose transactions run and do not commit.
type uncommitted struct {
	platform.Store
	tx platform.Tx
}

func (u uncommitted) Update(_ context.Context, f func(platform.Tx) error) error {
	return errors.Join(f(u.tx), errors.New("the commit failed"))
}

// oneJob is a transaction that sees one job.
type oneJob struct {
	platform.Tx
	platform.Repo[platform.Job]
	job platform.Job
}

func (o *oneJob) Jobs() platform.Repo[platform.Job] { return o }

func (o *oneJob) Get(string) (*platform.Job, error) {
	j := o.job
	return &j, nil
}

func (o *oneJob) Update(*platform.Job) error { return nil }

// A lease whose renewals are never committed is lost when it ends: another worker takes the
// job then.
func TestLeaseIsLostWithoutCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Store: nil, Lease: 9 * time.Second})
		j := &platform.Job{Resource: platform.Resource{GUID: "j"}, State: platform.JobProcessing, Worker: s.worker,
			Lease: time.Now().Add(s.Lease)}
		s.Store = uncommitted{tx: &oneJob{job: *j}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lost := false
		s.keepLease(ctx, j, func() { lost = true })
		if !lost {
			t.Error("the worker goes on after its lease has ended")
		}
	})
}

// A job that waits for others looks often at first, and seldom if it takes a week.
func TestChecksOfWaitingJobs(t *testing.T) {
	t.Parallel()
	checks := map[time.Duration]int{}
	for _, until := range []time.Duration{time.Second, time.Minute, time.Hour, 7 * 24 * time.Hour} {
		for waited := time.Duration(0); waited < until; waited += nextCheck(waited) {
			checks[until]++
		}
	}
	if n := checks[time.Second]; n < 4 || n > 5 {
		t.Errorf("%d checks in a second, want 5", n)
	}
	for until, most := range map[time.Duration]int{time.Minute: 50, time.Hour: 150, 7 * 24 * time.Hour: 7*24*60 + 150} {
		if checks[until] > most {
			t.Errorf("%d checks in %s, want at most %d", checks[until], until, most)
		}
	}
}
