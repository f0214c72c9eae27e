package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

const (
	// stateFresh is how long List uses a state without asking the agent again.
	stateFresh = time.Minute
	// justBegun is how long an instance is known to be starting after its launch: the
	// controller asks for the ports next.
	justBegun = 100 * time.Millisecond
	// asking is how many agents List asks at the same time.
	asking = 64
	// killed is the status of a process that got SIGKILL.
	killed = 137
)

// known is what this process knows of a Pod besides its object.
type known struct {
	launched  bool
	state     initproto.State
	at        time.Time // of the state
	begun     time.Time // when this process launched it
	followed  int       // open streams, which keep the state up to date
	final     bool      // the state is that of the ended Pod
	displaced string    // why the cluster takes it away
	silent    bool      // its agent did not answer for a while
	node      string    // where it runs, if it is or was followed
}

// knownOf returns what is known of a Pod. mu must be held.
func (e *Engine) knownOf(p *pod) *known {
	k := e.known[p.UID]
	if k == nil {
		k = &known{}
		e.known[p.UID] = k
	}
	return k
}

func (e *Engine) look(p *pod) known {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.knownOf(p)
}

func (e *Engine) learn(p *pod, f func(*known)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.knownOf(p))
}

// podDeleted forgets a Pod.
func (e *Engine) podDeleted(p *pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, p.UID)
	delete(e.removing, p.UID)
}

// podChanged notices that the cluster takes a Pod away.
func (e *Engine) podChanged(p *pod) {
	_, disrupted := p.condition("DisruptionTarget")
	if why := takenAway(p); why != "" && (disrupted || !p.over()) {
		e.displace(p, why)
	}
}

// takenAway returns why the cluster ends a Pod; empty if it does not.
func takenAway(p *pod) string {
	if c, ok := p.condition("DisruptionTarget"); ok && c.Status == "True" {
		switch c.Reason {
		case "PreemptionByScheduler":
			return "the cluster needs the room for something more important"
		case "DeletionByTaintManager":
			return "its node failed"
		case "EvictionByEvictionAPI":
			return "its node is being drained"
		case "TerminationByKubelet":
			return "its node is short of resources or shuts down"
		}
		return "the cluster moves it"
	}
	if p.DeletionTimestamp != nil {
		return "its Pod was deleted"
	}
	return ""
}

// displace reports once that the cluster takes an instance away, unless this engine
// removes it itself.
func (e *Engine) displace(p *pod, why string) {
	e.mu.Lock()
	k := e.knownOf(p)
	told := k.displaced != "" || e.removing[p.UID] || e.starting.Has(p.id())
	if !told {
		k.displaced = why
	}
	e.mu.Unlock()
	if !told {
		e.log.Info("an instance is displaced", "instance", p.id(), "node", p.Spec.NodeName, "why", why)
		e.options.Displaced(p.id(), why)
	}
}

// Get returns one instance.
func (e *Engine) Get(ctx context.Context, id string) (engine.Instance, error) {
	p, err := e.find(ctx, id)
	if err != nil {
		return engine.Instance{}, err
	}
	in, launched, err := e.instance(ctx, p, 0)
	if err == nil && !launched {
		err = engine.ErrNotFound
	}
	return in, err
}

// List returns the instances of launched Pods. Each agent is asked, unless its records are
// followed here.
func (e *Engine) List(ctx context.Context, wanted engine.Wanted) ([]engine.Instance, error) {
	all, err := e.pods.all(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p *pod) bool {
		return e.starting.Has(p.id()) || p.Labels[labelKind] == kindTrial || !wanted.Of(p.labels())
	})
	found := make([]engine.Instance, len(all))
	failed := make([]error, len(all))
	tokens := make(chan struct{}, asking)
	var work background.WaitGroup
	for i, p := range all {
		tokens <- struct{}{}
		work.Go("state of an instance", func() {
			defer func() { <-tokens }()
			var launched bool
			found[i], launched, failed[i] = e.instance(ctx, p, stateFresh)
			if !launched {
				found[i] = engine.Instance{}
			}
		})
	}
	work.Wait()
	found = slices.DeleteFunc(found, func(in engine.Instance) bool { return in.ID == "" })
	slices.SortFunc(found, func(a, b engine.Instance) int { return strings.Compare(a.ID, b.ID) })
	return found, errors.Join(failed...)
}

// instance returns the instance of a Pod, with a state that is not older than fresh if the
// agent answers. launched is false if nothing was ever run in the Pod, and no end is known.
func (e *Engine) instance(ctx context.Context, p *pod, fresh time.Duration) (in engine.Instance, launched bool,
	err error) {
	p, state, launched, err := e.state(ctx, p, fresh)
	if errors.Is(err, engine.ErrNotFound) {
		return engine.Instance{}, false, nil // deleted meanwhile
	}
	in = engine.Instance{
		ID: p.id(), Labels: p.labels(), State: state, Running: !p.over() && state.Phase != initproto.Ended,
		Created: p.CreationTimestamp.Time, Ports: p.ports(), Host: p.Status.PodIP, Internal: p.Status.PodIP,
		Displaced: e.look(p).displaced != "",
	}
	return in, launched, err
}

// state returns the state of a Pod's instance. A Pod that was not launched yet
// is not an instance: the server that created it launches it, or it ends by itself.
// It also returns the Pod, which may be newer than the one of the watch.
func (e *Engine) state(ctx context.Context, p *pod, fresh time.Duration) (now *pod, s initproto.State, launched bool,
	err error) {
	k := e.look(p)
	switch {
	case p.over():
		s, err = e.finalState(ctx, p)
		return p, s, true, err
	case !p.reachable():
		return p, k.state, k.launched, nil
	case k.launched && k.state.Phase == "" && time.Since(k.begun) < justBegun:
		return p, initproto.State{Phase: initproto.Starting}, true, nil
	case k.launched && fresh > 0 && (k.followed > 0 || time.Since(k.at) < fresh || fresh >= time.Hour):
		return p, k.state, true, nil
	}
	c, err := e.agent(p)
	if err != nil {
		return p, s, false, err
	}
	limited, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	s, launched, err = c.State(limited)
	if err == nil {
		e.learn(p, func(k *known) {
			if !k.final {
				k.state, k.launched, k.at = s, launched, time.Now()
			}
		})
		return p, s, launched, nil
	}
	if ctx.Err() != nil {
		return p, s, false, ctx.Err()
	}
	// It may have ended just now.
	if now, err := e.pods.read(ctx, p.Name); err == nil && now.UID == p.UID && now.over() {
		s, err = e.finalState(ctx, now)
		return now, s, true, err
	}
	// Its node may be cut off. That is not an end.
	if !k.launched {
		k.state = initproto.State{Phase: initproto.Starting}
	}
	return p, k.state, true, nil
}

// finalState returns the state of a Pod that has ended: as its last record says, or as the
// cluster reports if its processes were killed.
func (e *Engine) finalState(ctx context.Context, p *pod) (initproto.State, error) {
	k := e.look(p)
	if k.final {
		return k.state, nil
	}
	s := k.state
	if s.Phase != initproto.Ended {
		s.Phase = cmp.Or(s.Phase, initproto.Starting)
		err := e.readLog(ctx, p, tailLines, func(r initproto.Record) { fold(&s, r) })
		switch {
		case errors.Is(err, engine.ErrNotFound) || ctx.Err() != nil:
			return s, err
		case err != nil: // its node may be gone; the cluster still knows how it ended
			e.log.WarnContext(ctx, "the log of an ended Pod cannot be read", "pod", p.Name, "error", err)
			explainEnd(&s, p)
			return s, nil
		}
	}
	explainEnd(&s, p)
	e.learn(p, func(k *known) { k.state, k.final, k.launched = s, true, true })
	return s, nil
}

// explainEnd adds the reasons of the cluster to the end of an instance.
func explainEnd(s *initproto.State, p *pod) {
	if s.Phase == initproto.Ended {
		return
	}
	end := func(x initproto.Exit) { s.Phase, s.Ready, s.Exit = initproto.Ended, false, &x }
	t := p.container().Terminated
	switch {
	case t != nil && t.Reason == "OOMKilled":
		end(initproto.Exit{Status: killed, OOM: true, Description: "Instance was killed (out of memory)"})
	case p.Status.Reason == "Evicted":
		end(initproto.Exit{Status: killed, Description: evicted(p.Status.Message)})
	case p.Status.Reason == "DeadlineExceeded":
		end(initproto.Exit{Status: killed, Description: "Timed out"})
	}
}

// evicted describes why the kubelet ended a Pod.
func evicted(message string) string {
	message = strings.TrimSuffix(strings.TrimSpace(message), ".")
	if strings.Contains(message, "storage") || strings.Contains(message, "EmptyDir") {
		return "Instance exceeded its disk limit and was stopped (" + message + ")"
	}
	return "Instance was stopped by the cluster (" + message + ")"
}

// fold applies a record to a state.
func fold(s *initproto.State, r initproto.Record) {
	if r.Seq <= s.Seq && s.Seq != 0 {
		return
	}
	s.Seq = r.Seq
	if s.PID == 0 {
		s.PID = 1 // it has run
	}
	if r.Kind != initproto.Event {
		return
	}
	var b initproto.EventBody
	if json.Unmarshal(r.Payload, &b) != nil {
		return
	}
	move := func(p initproto.Phase) { s.Phase, s.Since = p, r.Time }
	switch b.Event {
	case initproto.EventStarted:
		move(initproto.Starting)
	case initproto.EventHealthy:
		move(initproto.Running)
	case initproto.EventReady:
		s.Ready = true
	case initproto.EventNotReady:
		s.Ready = false
	case initproto.EventUnhealthy, initproto.EventExited:
		if b.Restart > 0 || b.Harmless {
			return // the instance lives
		}
		s.Ready = false
		move(initproto.Stopping)
	case initproto.EventEnded:
		s.Ready = false
		move(initproto.Ended)
		s.Exit = &initproto.Exit{Status: b.Status, Description: b.Reason, Stopped: b.Stopped, OOM: b.OOM}
	}
}
