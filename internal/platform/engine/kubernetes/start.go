package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/local"
)

const (
	// answerTime is how long an agent may take to answer for the first time.
	answerTime = 30 * time.Second
	// startLimit is more than a start takes.
	startLimit = 10 * time.Minute
	// takedown limits the removal of a Pod whose start failed.
	takedown = 2 * time.Minute
	// The agent keeps the last records of an app and the result of a build for so long.
	lingerApp   = 15 * time.Minute
	lingerBuild = time.Hour
	// createTime limits the request that creates a Pod.
	createTime = 30 * time.Second

	noMemberLimits = "This server runs apps in Pods, whose control groups Kubernetes does not hand over: it cannot " +
		"limit single sidecars. " +
		"memory-enforced and cpu-weight of sidecars need a server with the container engine; remove them from the " +
		"sidecars, or use such a server."
)

func lingerOf(s engine.Spec) time.Duration {
	if s.Launch.OneOff {
		return lingerBuild
	}
	return lingerApp
}

// Start creates a Pod, waits for its agent and launches the instance there.
func (e *Engine) Start(ctx context.Context, s engine.Spec) error {
	if err := errors.Join(checkID(s.ID), checkPorts(s), checkSegment(s.Segment)); err != nil {
		return err
	}
	if s.LimitsMembers() {
		return engine.NoMemberLimits(noMemberLimits)
	}
	if err := s.Launch.Validate(); err != nil {
		return fmt.Errorf("instance %s: %w", s.ID, err)
	}
	if err := e.startable(ctx); err != nil {
		e.discard(ctx, s)
		return err
	}
	if err := e.start(ctx, s); err != nil {
		return err
	}
	// The cluster may have begun to take it away meanwhile.
	if p := e.pods.cached(e.options.Namespace, podName(s.ID, s.Labels)); p != nil {
		e.podChanged(p)
	}
	return nil
}

// start starts an instance even if none are started at the moment.
func (e *Engine) start(ctx context.Context, s engine.Spec) error {
	unlock, err := e.ids.Lock(ctx, s.ID)
	if err != nil {
		return err
	}
	defer unlock()
	defer e.starting.Begin(s.ID)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer background.OnDone(e.open, "engine start", cancel)()
	p, exists, err := e.create(ctx, s)
	if err != nil || exists && p.over() {
		return err
	}
	idle := !exists // nothing runs in the Pod
	err = background.Do("engine start", func() error { return e.bringUp(ctx, p, s, &idle) })
	if err == nil || !idle {
		return err
	}
	// Clean up even if ctx was cancelled.
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), takedown)
	defer done()
	var refused *engine.PlacementError
	var wrong *fault.Error
	if now := e.pods.cached(p.Namespace, p.Name); ctx.Err() == nil && now != nil && now.UID == p.UID &&
		takenAway(now) != "" {
		err = &engine.PlacementError{Reason: removedEarly, Displaced: true, Err: err}
	}
	if !errors.As(err, &refused) && !errors.As(err, &wrong) {
		err = fmt.Errorf("starting instance %s: %w", s.ID, err)
	}
	if cleanErr := e.removePod(clean, p); cleanErr != nil {
		e.log.WarnContext(ctx, "the Pod of an instance that did not start could not be removed", "pod", p.Name,
			"error", cleanErr)
	}
	return err
}

// discard removes the Pod of an instance that is not started after all, if an earlier server
// created one and launched nothing in it.
func (e *Engine) discard(ctx context.Context, s engine.Spec) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), takedown)
	defer done()
	if e.pods.synced(ctx) != nil {
		return
	}
	p := e.pods.cached(e.options.Namespace, podName(s.ID, s.Labels))
	if p == nil {
		return
	}
	_, launched, err := e.instance(ctx, p, 0)
	if err == nil && !launched {
		err = e.removePod(ctx, p)
	}
	if err != nil {
		e.log.WarnContext(ctx, "the Pod of an instance that is not started could not be removed", "pod", p.Name, "error", err)
	}
}

// startable returns why no instance is started. A build or a task would fail because of the
// trial at the start of a server, so it waits for its result.
func (e *Engine) startable(ctx context.Context) error {
	if e.trying != nil {
		select {
		case <-e.trying:
		case <-e.open.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.open.Err() != nil:
		return errClosed
	case e.held != nil:
		return &engine.PlacementError{Reason: "the platform does not start instances at the moment", Err: e.held}
	}
	return nil
}

// create creates the Pod of an instance. exists means that it was there before.
func (e *Engine) create(ctx context.Context, s engine.Spec) (p *pod, exists bool, err error) {
	if err := e.creates.Wait(ctx); err != nil {
		return nil, false, errors.Join(ctx.Err(), err)
	}
	o, err := e.podOf(ctx, s)
	if err != nil {
		return nil, false, err
	}
	// A request that is given up may still create the Pod, which would be left over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTime)
	defer cancel()
	made, err := e.pods.client.Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		p, err = e.pods.read(ctx, podName(s.ID, s.Labels))
		return p, true, err
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return nil, false, &engine.PlacementError{Reason: quotaReason(err.Error()), Err: err}
	case err != nil:
		return nil, false, fmt.Errorf("creating the Pod of instance %s: %w", s.ID, err)
	}
	p, err = parsePod(made)
	return p, false, err
}

// bringUp waits for the Pod's agent and launches the instance. It sets idle when the agent
// says that nothing was launched.
func (e *Engine) bringUp(ctx context.Context, p *pod, s engine.Spec, idle *bool) error {
	if err := e.pullSecret(ctx, p, s.Image); err != nil {
		return err
	}
	if err := e.place(ctx, p); err != nil {
		return err
	}
	c, err := e.agent(p)
	if err != nil {
		return err
	}
	if !*idle { // another server may have launched it
		if launched, err := e.answers(ctx, p, c); err != nil || launched {
			return err
		}
		*idle = true
	}
	words := e.words(p)
	files, err := s.AllFiles(words.IP)
	if err != nil {
		return err
	}
	l := agent.Launch{
		Spec: local.Substitute(s.Launch, words), Files: files, Limits: s.Limits, Linger: lingerOf(s),
	}
	l.Limits.Memory, l.Limits.Disk = memoryOf(s.Limits), diskOf(s.Limits)
	l.Spec.Instance = s.ID
	l.Spec.User, l.Spec.Group = 0, 0 // the container's
	var facts agent.Facts
	err = e.persist(ctx, p, func(ctx context.Context) (again bool, err error) {
		facts, err = c.Launch(ctx, l)
		return errors.Is(err, agent.ErrUnreached), err
	})
	if errors.Is(err, agent.ErrLaunched) {
		err = nil // by another server
	}
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	e.mu.Lock()
	e.userns = &facts.UserNamespace
	e.mu.Unlock()
	if e.options.UserNamespaces == UserNamespacesOn && !facts.UserNamespace {
		return errors.New("the cluster gave the Pod no user namespace, which --kubernetes-user-namespaces=on requires")
	}
	e.learn(p, func(k *known) { k.launched, k.begun = true, time.Now() })
	return nil
}

// place waits until the Pod's container runs, and updates p.
func (e *Engine) place(ctx context.Context, p *pod) error {
	began := time.Now()
	seen := false
	return e.pods.await(ctx, p.Namespace, p.Name, func(now *pod) (bool, error) {
		switch {
		case now == nil && !seen:
			// The watch is behind. If that takes long, the Pod may have come and gone.
			return false, e.missing(ctx, p, time.Since(began))
		case now == nil || now.UID != p.UID:
			return seen, &engine.PlacementError{Reason: removedEarly, Displaced: true}
		}
		seen = true
		*p = *now
		return e.placed(p, time.Since(began))
	})
}

// missing returns an error if a Pod that the watch has not reported does not exist.
func (e *Engine) missing(ctx context.Context, p *pod, waited time.Duration) error {
	if waited < answerTime {
		return nil
	}
	_, err := e.pods.read(ctx, p.Name)
	if apierrors.IsNotFound(err) {
		return &engine.PlacementError{Reason: removedEarly, Displaced: true}
	}
	return err
}

const removedEarly = "the cluster removed the instance before it started"

// placed reports whether the container runs, or why it will not.
func (e *Engine) placed(p *pod, waited time.Duration) (bool, error) {
	state := p.container()
	if first := p.first(); first != nil && (first.Waiting != nil ||
		first.Terminated != nil && first.Terminated.ExitCode != 0) {
		state = *first // the container of the app waits for it
	} else if err := e.imageFailed(p, waited); err != nil {
		return false, err
	}
	switch {
	case p.reachable():
		return true, nil
	case p.DeletionTimestamp != nil:
		return false, &engine.PlacementError{Reason: removedEarly, Displaced: true}
	case p.over():
		t := state.Terminated
		if t == nil { // the kubelet did not admit it
			return false, &engine.PlacementError{
				Reason: "a node refused the instance", Err: fmt.Errorf("%s: %s", p.Status.Reason, p.Status.Message),
			}
		}
		why := fmt.Sprintf("%s (status %d) %s", t.Reason, t.ExitCode, t.Message)
		return false, fmt.Errorf("the Pod ended before the instance was launched: %s", strings.TrimSpace(why))
	case state.Waiting != nil:
		if why, ok := stuck[state.Waiting.Reason]; ok {
			return false, &engine.PlacementError{Reason: why, Err: fmt.Errorf("%s: %s", state.Waiting.Reason,
				state.Waiting.Message)}
		}
	}
	if c, ok := p.condition("PodScheduled"); ok && c.Status == "False" && waited > e.options.PlaceTimeout {
		return false, &engine.PlacementError{Reason: placementReason(c.Message, p.Spec.NodeSelector[LabelSegment]),
			Err: errors.New(c.Message)}
	}
	return false, nil
}

// stuck are the states of a container from which it does not start by itself, with the
// reason for users.
var stuck = map[string]string{
	"ImagePullBackOff":           "the platform's stack image could not be pulled",
	"InvalidImageName":           "the platform's stack image has an invalid name",
	"ErrImageNeverPull":          "the platform's stack image is not on the node",
	"CreateContainerConfigError": "the cluster could not create the container",
	"CreateContainerError":       "the cluster could not create the container",
	"RunContainerError":          "the cluster could not start the container",
}

// placementReason translates the message of the scheduler for users.
func placementReason(message, segment string) string {
	if reason := resourceReason(message, "Insufficient "); reason != "" {
		return reason
	}
	if segment != "" && strings.Contains(message, "node affinity/selector") {
		return engine.NoSegment(segment).Reason
	}
	first, _, _ := strings.Cut(message, ". ")
	return "no node can run the instance: " + first
}

// quotaReason translates the refusal of a ResourceQuota for users.
func quotaReason(message string) string {
	_, requested, _ := strings.Cut(message, "exceeded quota")
	requested, _, _ = strings.Cut(requested, ", used:")
	if reason := resourceReason(requested, ""); reason != "" {
		return reason
	}
	return "insufficient resources: the quota of the cluster's namespace is used up"
}

func resourceReason(message, before string) string {
	for _, r := range []struct{ name, reason string }{
		{"memory", engine.InsufficientMemory}, {"ephemeral-storage", engine.InsufficientDisk},
		{"cpu", "insufficient resources: cpu"}, {"pods", "insufficient resources: instances"},
	} {
		if strings.Contains(message, before+r.name) {
			return r.reason
		}
	}
	return ""
}

// answers waits until the agent answers, and reports whether it was launched already.
func (e *Engine) answers(ctx context.Context, p *pod, c *agent.Client) (launched bool, err error) {
	err = e.persist(ctx, p, func(ctx context.Context) (again bool, err error) {
		once, done := context.WithTimeout(ctx, agentTime)
		defer done()
		_, launched, err = c.State(once)
		return !errors.Is(err, agent.ErrWrongAgent), err
	})
	return launched, err
}

// persist calls the agent of a new Pod until it answers, or says that it is of no use to try
// again.
func (e *Engine) persist(ctx context.Context, p *pod, call func(context.Context) (again bool, err error)) error {
	limit, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		again, err := call(ctx)
		if err == nil || ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		if !again && !errors.Is(err, agent.ErrWrongAgent) {
			return err
		}
		if now := e.pods.cached(p.Namespace, p.Name); !again || now == nil || now.UID != p.UID || now.over() ||
			!background.Sleep(limit, wait) {
			return errors.Join(ctx.Err(), &agentError{p.Status.PodIP, err})
		}
	}
}

// agentError means that the agent of a new Pod does not answer.
type agentError struct {
	ip  string
	err error
}

func (e *agentError) Error() string {
	return "the agent at " + e.ip + " does not answer: " + e.err.Error()
}

func (e *agentError) Unwrap() error { return e.err }
