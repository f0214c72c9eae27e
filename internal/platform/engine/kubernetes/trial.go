package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// trialTime limits a trial, which may have to pull the image.
const trialTime = 5 * time.Minute

// Open is like New, and tries the cluster with a Pod: it is created, launched, used and
// deleted. The error names the step that failed and what to do.
func Open(ctx context.Context, o Options) (*Engine, error) {
	e, err := New(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := e.try(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// errTrying means that the trial of Reopen has not ended.
var errTrying = errors.New("the cluster is being tried with a Pod")

// Reopen is like Open for a cluster that was used before. It does not wait for the trial,
// because running instances need the engine at once; no instances are started until it has
// ended. If the cluster does not work, none are started until Check finds that it does;
// Describe says why.
func Reopen(ctx context.Context, o Options) (*Engine, error) {
	e, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := e.connect(ctx); err != nil {
		e.hold(err)
		return e, nil
	}
	e.hold(errTrying)
	e.trying = make(chan struct{})
	e.work.Go("kubernetes trial", func() {
		defer close(e.trying)
		switch err := e.Check(e.open); {
		case e.open.Err() != nil:
		case err != nil:
			e.log.Error("no app instance is started until the cluster works again; running ones continue", "why", err)
		default:
			e.log.Info("apps run on Kubernetes", "namespace", o.Namespace, "why", "as before, and a trial Pod worked")
		}
	})
	return e, nil
}

// Check tries the cluster, and starts instances again if that works. One call at a time tries
// it.
func (e *Engine) Check(ctx context.Context) error {
	e.checking.Lock()
	defer e.checking.Unlock()
	err := e.connect(ctx)
	if err == nil {
		err = e.try(ctx)
	}
	e.hold(err)
	return err
}

func (e *Engine) hold(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = err
}

// usernsTime limits the trial of user namespaces: the image is on a node already.
const usernsTime = 30 * time.Second

// try runs a trial Pod, and another one to find out whether the cluster has user
// namespaces: some refuse such a Pod, some leave it waiting, some ignore the field.
func (e *Engine) try(ctx context.Context) error {
	e.removeTrials(ctx)
	e.separate.Store(e.options.UserNamespaces == UserNamespacesOn)
	if err := e.tryPod(ctx, trialTime); err != nil || e.options.UserNamespaces != UserNamespacesAuto {
		return err
	}
	e.separate.Store(true)
	err := e.tryPod(ctx, usernsTime)
	e.mu.Lock()
	got := e.userns != nil && *e.userns
	e.mu.Unlock()
	if err != nil || !got {
		e.separate.Store(false)
		e.log.WarnContext(ctx, "the cluster has no user namespaces for Pods: root in an instance would be root of its "+
			"node's kernel", "why", err)
	}
	return ctx.Err()
}

func (e *Engine) tryPod(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	id := uuid.NewString()
	if err := e.start(ctx, trialSpec(id)); err != nil {
		return trialError(err)
	}
	err := e.tryExec(ctx, id)
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), takedown)
	defer done()
	if removeErr := e.Remove(clean, id); removeErr != nil && err == nil {
		err = stepError("delete a Pod", removeErr)
	}
	return err
}

func trialSpec(id string) engine.Spec {
	return engine.Spec{
		ID: id, Labels: map[string]string{"kind": kindTrial},
		Launch: initproto.Spec{
			Instance: id, OneOff: true, Health: initproto.Check{Kind: initproto.CheckProcess}, Timeout: trialTime,
			Members: []initproto.Member{{Name: "trial", Source: "trial", Args: []string{"/bin/sh", "-c", "exec sleep 600"},
				Env: []string{"PATH=/usr/bin:/bin"}, Dir: "{{home}}"}},
		},
		Limits: engine.Limits{Memory: 64 << 20, Disk: 64 << 20},
	}
}

// removeTrials removes the trial Pods of servers that were killed.
func (e *Engine) removeTrials(ctx context.Context) {
	all, err := e.pods.all(ctx)
	if err != nil {
		return // the next step says why
	}
	for _, p := range all {
		if p.Labels[labelKind] == kindTrial && time.Since(p.CreationTimestamp.Time) > 2*trialTime {
			if err := e.deletePod(ctx, p, 1); err != nil {
				e.log.WarnContext(ctx, "an old trial Pod could not be deleted", "pod", p.Name, "error", err)
			}
		}
	}
}

func (e *Engine) tryExec(ctx context.Context, id string) error {
	p, err := e.Exec(ctx, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c", "echo works"}})
	if err != nil {
		return stepError("run a command in a Pod", err)
	}
	defer p.Close()                                           //nolint:errcheck // it has ended
	out, err := io.ReadAll(io.LimitReader(p.Stdout(), 1<<10)) // a part of anything longer differs, too
	status, waitErr := p.Wait()
	if err = errors.Join(err, waitErr); err == nil && (status != 0 || string(out) != "works\n") {
		err = fmt.Errorf("status %d, output %q", status, out)
	}
	if err != nil {
		return stepError("run a command in a Pod", err)
	}
	return nil
}

// trialError names the step of a start that failed.
func trialError(err error) error {
	var refused *engine.PlacementError
	var wrong *agentError
	switch {
	case errors.As(err, &refused) && strings.Contains(refused.Reason, "image"):
		return fmt.Errorf("trial Pod: pull the image: %w; check --kubernetes-image, and that the nodes may pull it or have "+
			"it imported", err)
	case errors.As(err, &refused):
		return fmt.Errorf("trial Pod: find a node: %w; add nodes or raise the ResourceQuota of the namespace", err)
	case errors.As(err, &wrong):
		return fmt.Errorf("trial Pod: reach its agent: %w; run this server where Pod addresses are routed, normally in the "+
			"cluster, "+
			"and let its NetworkPolicies allow port 61001", err)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "PodSecurity"):
		return fmt.Errorf("trial Pod: create a Pod: %w; the namespace must permit Pods of the standard \"restricted\"", err)
	}
	return stepError("start a Pod", err)
}

// stepError names a step that failed and what to do.
func stepError(step string, err error) error {
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %w; give the service account of this server the Role of the chart, which permits %s", step,
			err, permitted())
	case apierrors.IsNotFound(err) && strings.Contains(step, ownerName):
		return fmt.Errorf("%s: %w; install the chart, or create it: kubectl create configmap %s -n NAMESPACE", step,
			err, ownerName)
	}
	return fmt.Errorf("%s: %w", step, err)
}
