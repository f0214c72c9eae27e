package push

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/apps"
	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

const (
	// unhurried is how long a new version may take before another change replaces it.
	unhurried = 5 * time.Second
	// cancelTime is how long canceling a deployment may take.
	cancelTime = 20 * time.Second
	// provenAfter is how long a new version must be ready before it replaces the one before
	// it, in seconds: long enough for most that crash at their start, and shorter than in
	// other deployments, because a developer waits for it.
	provenAfter = 0.25
)

// errNewer means that a change was given up for a newer one.
var errNewer = errors.New("there is a newer change")

// launch runs a droplet as the new version of the app. Running instances are replaced
// only when new ones accept requests.
func (w *watching) launch(ctx context.Context, droplet string, files []bits.File) error {
	if w.app.State != "STARTED" {
		if err := apps.SetDroplet(ctx, w.Session, w.app, droplet); err != nil {
			return err
		}
		if err := apps.CallAction(ctx, w.Session, &w.app, "start"); err != nil {
			return err
		}
		w.files, w.droplet = files, droplet
		if err := w.failedStart(ctx, apps.WaitForInstances(ctx, w.Session, w.app)); err != nil {
			return err
		}
	} else if err := w.replace(ctx, droplet); err != nil {
		return err
	}
	w.files, w.droplet = files, droplet
	w.runs = "the version of " + w.Env.Now().Local().Format(time.TimeOnly)
	return nil
}

// failedStart adds the log to a failure, unless it is shown anyway.
func (w *watching) failedStart(ctx context.Context, err error) error {
	if w.noLogs || w.runs == "" {
		return apps.WithLog(ctx, w.Session, w.app, "APP", err)
	}
	return err
}

// replace deploys a droplet and waits until it has replaced the version before it. If
// it does not start, or is interrupted, that version stays.
func (w *watching) replace(ctx context.Context, droplet string) error {
	var web cfapi.Process
	if err := w.API.Get(ctx, "/v3/apps/"+w.app.GUID+"/processes/web", nil, &web); err != nil {
		return err
	}
	var d cfapi.Deployment
	options := map[string]any{"max_in_flight": max(1, web.Instances), "min_healthy_time": provenAfter} // all at once
	request := map[string]any{
		"strategy": "rolling", "droplet": map[string]string{"guid": droplet},
		"relationships": map[string]any{"app": cfapi.Relate(w.app.GUID)},
		"options":       options,
	}
	_, err := w.API.Post(ctx, "/v3/deployments", request, &d)
	var refused *client.Error
	if errors.As(err, &refused) && refused.Says("min_healthy_time") { // another Cloud Foundry
		delete(options, "min_healthy_time")
		_, err = w.API.Post(ctx, "/v3/deployments", request, &d)
	}
	if err != nil {
		return err
	}
	w.Progress.Step("Starting "+w.app.Name, 0)
	err = w.awaitReady(ctx, &d, web.Instances)
	if err == nil {
		return nil
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, undo := w.API.Post(after, "/v3/deployments/"+d.GUID+"/actions/cancel", nil, nil)
	if undo != nil && client.Status(undo) != http.StatusUnprocessableEntity { // it has already ended
		w.droplet = "" // the next change is sent with all files
		return errors.Join(err, fmt.Errorf("the deployment could not be canceled: %w", undo))
	}
	return w.failedStart(ctx, err)
}

// awaitReady waits until instances of a deployment accept requests.
func (w *watching) awaitReady(ctx context.Context, d *cfapi.Deployment, instances int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, apps.Patience(w.Session, "CF_STARTUP_TIMEOUT", apps.StartPatience),
		apps.ErrTooLong)
	defer cancel()
	ctx, newer := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.findNewer(ctx, newer)
	}()
	err := client.PollWithin(ctx, apps.WatchPause, func() (bool, error) { return w.ready(ctx, d, instances) })
	newer(nil)
	<-done
	if errors.Is(err, apps.ErrTooLong) {
		return &core.Problem{What: "The new version of " + w.app.Name + " did not become ready in time.",
			Why: d.Status.Details.Error, Try: "CF_STARTUP_TIMEOUT sets the minutes to wait", Err: err}
	}
	return err
}

// findNewer cancels a wait that takes long when files have changed again.
func (w *watching) findNewer(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(unhurried):
	}
	w.lookForNewer(ctx, cancel)
}

func (w *watching) lookForNewer(ctx context.Context, cancel context.CancelCauseFunc) {
	for w.folders.Wait(ctx) == nil {
		w.told = true
		files, err := w.rescan(ctx)
		if err != nil {
			return
		}
		news, gone := bits.Diff(w.seen, files)
		if files != nil && len(news)+len(gone) > 0 {
			cancel(errNewer)
			return
		}
	}
}

// ready reports whether the instances of a deployment accept requests.
func (w *watching) ready(ctx context.Context, d *cfapi.Deployment, instances int) (bool, error) {
	var now cfapi.Deployment
	if err := w.API.Get(ctx, "/v3/deployments/"+d.GUID, nil, &now); err != nil {
		return false, err
	}
	*d = now
	switch {
	case d.Status.Reason == "DEPLOYED" || instances == 0:
		return true, nil
	case d.Status.Details.Error != "":
		return false, w.notReady(d.Status.Details.Error)
	case d.Status.Value == "FINALIZED":
		return false, &core.Problem{What: "The change was not deployed.",
			Why: "another deployment or a restart of the app replaced it", Try: "save a file to push again"}
	}
	n := 0
	for _, p := range d.NewProcesses {
		stats, err := apps.InstanceStats(ctx, w.Session, p.GUID)
		if client.Status(err) == http.StatusNotFound {
			return false, nil // the deployment says what became of it
		}
		if err != nil {
			return false, err
		}
		for _, st := range stats {
			if st.State == "CRASHED" {
				return false, w.notReady(st.Details)
			}
			if st.State == "RUNNING" && (st.Routable == nil || *st.Routable) {
				n++
			}
		}
	}
	return n >= instances, nil
}

func (w *watching) notReady(why string) error {
	return &core.Problem{What: "The new version of " + w.app.Name + " does not start.", Why: why,
		Try: "fix it and save; the next change is tried automatically"}
}
