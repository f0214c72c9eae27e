package controller

import (
	"context"
	"fmt"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/instance/initproto"
)

// A new instance of a deployment has to prove itself: it counts, and old instances stop
// for it, when it has been ready for the minimum healthy time. Until then it gets no
// requests while other instances accept them. If it crashes in that time, the deployment
// is canceled, and no request has been sent to it:
//
//	old  ───────────────────────────────┬─▶ stops       ─────────────────────▶ stays
//	new  ──ready──── min healthy time ──┴─▶ requests    ──ready──── crashes
//
// An instance that was restarted in an active deployment proves itself again.

// minHealthy returns how long a new instance of the deployment has to be ready.
func (p *pass) minHealthy() time.Duration {
	d := p.goal.deployment
	if ms := d.Options.MinHealthyMS; ms != nil {
		return time.Duration(*ms) * time.Millisecond
	}
	if web := p.goal.processes[d.WebGUID]; web != nil && web.MinHealthy != nil {
		return time.Duration(*web.MinHealthy) * time.Second
	}
	return p.MinHealthy
}

// prove decides which instances are proven, and which others get no requests yet.
func (p *pass) prove() {
	var onTrial []slotKey
	accepted := false // an instance that is not on trial accepts requests
	for at, s := range p.slots {
		switch {
		case p.goal.deployment == nil || p.typeOf(at) != platform.WebProcess:
			s.held = false
		case p.onTrial(at, &s):
			onTrial = append(onTrial, at)
		default:
			s.held = false
			accepted = accepted || s.accepts()
		}
		p.slots[at] = s
	}
	for _, at := range onTrial {
		s := p.slots[at]
		s.held = accepted
		p.slots[at] = s
	}
}

// onTrial reports whether a web instance must not get requests, and notes whether it is
// proven. One that gets requests already, because no other accepted them, keeps them.
func (p *pass) onTrial(at slotKey, s *slot) bool {
	isNew := at.process == p.goal.deployment.WebGUID
	if s.proven || !isNew && !s.held {
		return false
	}
	if s.accepts() {
		if s.readyAt.After(p.rules.now) { // the clock was set back
			s.readyAt = p.rules.now
		}
		due := s.readyAt.Add(p.minHealthy())
		if late := !p.rules.now.Before(due); late && !p.alive(s.id) {
			due = p.rules.now.Add(aliveAgain)
		} else if s.proven = late; late {
			return false
		}
		p.lookAgain(due)
	}
	was := p.app.slots[at]
	return was.id != s.id || !was.routable()
}

const (
	// aliveTime limits the question whether an instance is alive, aliveAgain is when it is
	// repeated.
	aliveTime  = 2 * time.Second
	aliveAgain = 250 * time.Millisecond
)

// alive asks the engine whether an instance is healthy now: on a busy machine the record of
// its end may be on the way.
func (p *pass) alive(id string) bool {
	ctx, cancel := context.WithTimeout(p.workOf(p.app), aliveTime)
	defer cancel()
	in, err := p.Engine.Get(ctx, id)
	return err == nil && in.Running && in.State.Phase == initproto.Running
}

// lookAgain requests another pass at a time.
func (p *pass) lookAgain(at time.Time) {
	if p.again.IsZero() || at.Before(p.again) {
		p.again = at
	}
}

// failure returns why the deployment is canceled: a new instance has crashed before it was
// proven, or too often. It is empty if there is no reason. An instance that the platform
// cannot start is retried until the user cancels the deployment.
func (r *rollout) failure() string {
	if r.back || r.d.Reason != platform.ReasonDeploying {
		return ""
	}
	for _, a := range r.actions {
		x := a.crash
		if a.kind != doCrash || a.at.process != r.to.GUID || x.version != r.to.Version || x.proven || x.readyAt.IsZero() ||
			r.minHealthy() == 0 {
			continue
		}
		return fmt.Sprintf("instance %d of the new version crashed %s after it had become ready: %s", a.at.index,
			x.at.Sub(x.readyAt).Round(10*time.Millisecond), x.description)
	}
	for _, at := range r.slotKeys() {
		s := r.slots[at]
		if at.process == r.to.GUID && s.version == r.to.Version && s.failed == crashed &&
			s.visible() == platform.InstanceCrashed {
			return fmt.Sprintf("instance %d of the new version has failed %s: %s", at.index, times(s.crashes), s.details)
		}
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// cancel starts to return to the version before the deployment.
func (p *pass) cancel(tx platform.Tx, d *platform.Deployment) error {
	app, err := tx.Apps().Get(p.app.guid)
	if err != nil {
		return err
	}
	err = p.Platform.CancelDeployment(tx, actions.Actor{GUID: app.GUID, Type: "app", Name: app.Name}, app, d)
	if err != nil && !fault.Is(err, fault.Unprocessable) { // there is nothing to return to
		return err
	}
	d.Error = p.verdict
	return tx.Deployments().Update(d)
}
