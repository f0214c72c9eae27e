package services

import (
	"context"
	"errors"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Begin begins the build of a commit that was fetched, in a transaction. It returns warnings for the user, too.
type Begin func(tx platform.Tx) (*platform.Build, []string, error)

// Redeploy fetches the newest commit of an app's git source, as a user, and stores a package of it. It returns nil if
// the commit is deployed already.
type Redeploy func(ctx context.Context, by actions.Actor, app string) (Begin, error)

// Pulls sets what fetches commits. Without it, jobs that pull wait.
func (s *Services) Pulls(with Redeploy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redeploy = with
}

func (s *Services) fetch(ctx context.Context, by actions.Actor, app string) (Begin, error) {
	s.mu.Lock()
	redeploy := s.redeploy
	s.mu.Unlock()
	if redeploy == nil {
		return nil, fault.New(fault.RateLimited, "the server is starting")
	}
	return redeploy(ctx, by, app)
}

// The operations of jobs that deploy apps. A job that pulls becomes one that deploys.
const (
	opDeploy = "app.deploy"
	opPull   = "app.pull"
)

const (
	// pullTries is how often a fetch is tried when the git server cannot answer.
	pullTries   = 5
	pullPause   = 2 * time.Second
	maxPullWait = 30 * time.Second
)

// Pull stores a job that deploys the newest commit of an app's git source, after the deployments that were begun
// before. It returns nil if such a job exists that has not begun to fetch: that one deploys the newest commit, too.
func (s *Services) Pull(tx platform.Tx, by actions.Actor, app *platform.App) (*platform.Job, error) {
	waiting, err := tx.Jobs().Count(platform.Where("resource_guid", app.GUID).And(platform.In("operation", opPull)).
		And(platform.In("state", platform.JobProcessing, platform.JobPolling)).And(platform.In("worker", "")))
	if err != nil || waiting > 0 {
		return nil, err
	}
	return s.insertJob(tx, opPull, "app", app.GUID, &work{Kind: pull, Actor: by})
}

// pullStep fetches a commit and begins its build, once no older deployment of the app is in progress.
func (s *Services) pullStep(ctx context.Context, job *platform.Job, w *work) error {
	busy, err := s.deploying(ctx, job)
	if err != nil {
		return err
	}
	if busy {
		return s.pullLater(ctx, job, w, maxDeployPoll, w.Tries)
	}
	begin, err := s.fetch(ctx, w.Actor, job.ResourceGUID)
	if err == nil {
		err = s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error { return s.pulled(tx, mine, w, begin) })
	}
	var known *fault.Error
	if ctx.Err() != nil || !errors.As(err, &known) || known.Code == fault.Internal {
		return err
	}
	switch {
	case known.Code == fault.RateLimited: // too many fetches at the same time
		return s.pullLater(ctx, job, w, pullPause, w.Tries)
	case known.Code == fault.BadGateway && w.Tries+1 < pullTries:
		return s.pullLater(ctx, job, w, pause(w.Tries, pullPause, maxPullWait), w.Tries+1)
	}
	return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		failure := s.jobError(ctx, err)
		finish(mine, platform.JobFailed, failure)
		return s.Platform.GitDeployFailed(tx, mine.ResourceGUID, failure.Detail)
	})
}

// deploying reports whether an older job deploys the app of a job, or one of its packages is being built.
func (s *Services) deploying(ctx context.Context, job *platform.Job) (busy bool, err error) {
	err = s.Store.View(ctx, func(tx platform.Tx) error {
		jobs, _, err := tx.Jobs().List(platform.Where("resource_guid", job.ResourceGUID).
			And(platform.In("operation", opPull, opDeploy)).
			And(platform.In("state", platform.JobProcessing, platform.JobPolling)))
		busy = false
		for _, j := range jobs {
			if j.GUID != job.GUID && (j.Operation == opDeploy || j.Created.Before(job.Created)) {
				busy = true
			}
		}
		if err != nil || busy {
			return err
		}
		n, err := staging(tx, job.ResourceGUID)
		busy = n > 0
		return err
	})
	return busy, err
}

func staging(tx platform.Tx, app string) (int, error) {
	return tx.Builds().Count(platform.Where("app_guid", app).And(platform.In("state", platform.BuildStaging)))
}

func (s *Services) pullLater(ctx context.Context, job *platform.Job, w *work, in time.Duration, tries int) error {
	return s.commit(ctx, job, func(_ platform.Tx, mine *platform.Job) error {
		next := w.copied()
		next.Tries = tries
		return reschedule(mine, &next, clock.Steady().Add(in))
	})
}

// pulled makes the job one that waits for the build and deploys it.
func (s *Services) pulled(tx platform.Tx, mine *platform.Job, w *work, begin Begin) error {
	if begin == nil {
		finish(mine, platform.JobComplete)
		return nil
	}
	n, err := staging(tx, mine.ResourceGUID)
	if err != nil {
		return err
	}
	if n > 0 { // of another client, begun in the meantime
		return reschedule(mine, w, clock.Steady().Add(maxDeployPoll))
	}
	build, warnings, err := begin(tx)
	if err != nil {
		return err
	}
	mine.Operation, mine.Warnings = opDeploy, warnings
	return reschedule(mine, &work{Kind: deploy, Actor: w.Actor, Build: build.GUID}, clock.Steady())
}
