package services

import (
	"context"
	"errors"
	"strings"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// A build or a start is looked at soon after it began, and less often later.
const (
	deployPoll    = 100 * time.Millisecond
	maxDeployPoll = time.Second
)

// Deploy stores a job that deploys the droplet of a build when it is done, and is complete when the app runs it. It
// continues after a restart of the server.
func (s *Services) Deploy(tx platform.Tx, by actions.Actor, app *platform.App, build *platform.Build,
	warnings []string) (*platform.Job, error) {
	return s.insertJob(tx, opDeploy, "app", app.GUID, &work{Kind: deploy, Actor: by, Build: build.GUID}, warnings...)
}

// deployStep looks at the build, or at the instances that run its droplet.
func (s *Services) deployStep(ctx context.Context, job *platform.Job, w *work) error {
	err := s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		next := w.copied()
		next.Tries++
		done, err := s.deployed(tx, mine, &next)
		if err != nil {
			return err
		}
		if done {
			finish(mine, platform.JobComplete)
			return keepBuild(mine, w)
		}
		return reschedule(mine, &next, clock.Steady().Add(pause(next.Tries, deployPoll, maxDeployPoll)))
	})
	var known *fault.Error
	if !errors.As(err, &known) || known.Code == fault.Internal {
		return err
	}
	return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		finish(mine, platform.JobFailed, s.jobError(ctx, err))
		if err := keepBuild(mine, w); err != nil {
			return err
		}
		app, gone := tx.Apps().Get(mine.ResourceGUID)
		if w.Launch == nil || fault.Is(gone, fault.NotFound) {
			return nil
		}
		if gone != nil {
			return gone
		}
		return s.Platform.CancelLaunch(tx, w.Actor, app, w.Launch)
	})
}

// deployed reports whether the app runs the droplet of the build. A fault says why it never will.
func (s *Services) deployed(tx platform.Tx, job *platform.Job, w *work) (bool, error) {
	if w.Launch != nil {
		running, _, err := s.Platform.Launched(tx, w.Launch)
		if err == nil && !running && clock.Steady().Sub(w.Begun) > actions.LaunchTime {
			err = fault.New(fault.Unprocessable, "the app did not start within %v", actions.LaunchTime)
		}
		return running, err
	}
	build, err := tx.Builds().Get(w.Build)
	switch {
	case fault.Is(err, fault.NotFound):
		return false, fault.New(fault.Unprocessable, "the build was deleted")
	case err != nil || build.State == platform.BuildStaging:
		return false, err
	case build.State != platform.BuildStaged:
		why, _, _ := strings.Cut(build.Error, "\n") // then come lines of the build's log
		return false, fault.New(fault.Unprocessable, "the build failed: %s", why)
	}
	app, err := tx.Apps().Get(job.ResourceGUID)
	if err != nil {
		return false, err
	}
	w.Launch, err = s.Platform.Launch(tx, w.Actor, app, build.DropletGUID)
	w.Begun, w.Tries = clock.Steady(), 0
	return false, err
}

// keepBuild keeps the build of a job that is finished.
func keepBuild(j *platform.Job, w *work) (err error) {
	j.Payload, err = encodeWork(&work{Kind: deploy, Build: w.Build})
	return err
}

// BuildOf returns the guid of the build that a job deploys; empty if it deploys none.
func BuildOf(j *platform.Job) string {
	if j.Operation != opDeploy || len(j.Payload) == 0 {
		return ""
	}
	w, err := decodeWork(j)
	if err != nil {
		return ""
	}
	return w.Build
}
