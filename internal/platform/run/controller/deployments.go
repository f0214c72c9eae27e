package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// A deployment runs two web processes beside each other. Its own grows, a few
// instances at a time, and the others shrink from their highest index as its
// instances have proven themselves (prove.go) and accept requests:
//
//	old  0 ────────────────────────┬─▶ stops
//	     1 ───────────┬─▶ stops    │
//	new  0 ──ready────┘            │
//	     1            ────ready────┘
//
// All state is in the rows: those of the processes have the numbers of instances
// that are wanted now, that of the deployment the number in the end. A rollback is
// the same with the processes exchanged. In the end only one of them is left.

const (
	// drainLimit is how long requests to an instance that is replaced may take before it is
	// stopped.
	drainLimit = 10 * time.Second
	// drainPoll is the interval of checks whether they have finished.
	drainPoll = 20 * time.Millisecond
)

// rollout is the work of a deployment in one pass.
type rollout struct {
	*pass
	d    *platform.Deployment
	to   *platform.Process   // the process that stays
	from []*platform.Process // those that go, in the order in which they shrink
	back bool                // it is being canceled
}

// rollout returns the work of the active deployment; nil if there is none.
func (p *pass) rollout() *rollout {
	d := p.goal.deployment
	if d == nil {
		return nil
	}
	r := &rollout{pass: p, d: d, back: d.Reason == platform.ReasonCanceling}
	stays := d.WebGUID
	if r.back {
		stays = d.PriorGUID
	}
	for _, process := range p.goal.processes {
		switch {
		case process.Type != platform.WebProcess:
		case process.GUID == stays:
			r.to = process
		default:
			r.from = append(r.from, process)
		}
	}
	if r.to == nil || r.to.DropletGUID == "" {
		return nil
	}
	// The process that a cancellation returns to shrinks last.
	slices.SortFunc(r.from, func(x, y *platform.Process) int {
		if last := x.GUID == d.PriorGUID; last != (y.GUID == d.PriorGUID) {
			if last {
				return 1
			}
			return -1
		}
		return x.Created.Compare(y.Created)
	})
	return r
}

// ready returns the number of instances of a process that accept requests, of those that
// are wanted. New ones have to be proven.
func (r *rollout) ready(process *platform.Process) int {
	n := 0
	for at, s := range r.slots {
		if at.process == process.GUID && at.index < process.Instances && s.version == process.Version && s.routable() &&
			(s.proven || r.back || at.process != r.d.WebGUID) {
			n++
		}
	}
	return n
}

// readyAt reports whether an instance of a process accepts requests.
func (r *rollout) readyAt(process *platform.Process, index int) bool {
	for at, s := range r.slots {
		if at.process == process.GUID && at.index == index && s.routable() {
			return true
		}
	}
	return false
}

// target returns how many new instances should exist now, and whether that is a canary
// step.
func (r *rollout) target() (int, bool) {
	if r.back {
		return r.d.Original, false
	}
	return r.d.Canaries(r.d.Instances)
}

// roll sets the numbers of instances that are wanted now and computes the state of the
// deployment after this pass.
func (p *pass) roll() {
	d := *p.goal.deployment
	p.deployment = &d
	r := p.rollout()
	if r == nil {
		return
	}
	if p.verdict = r.failure(); p.verdict != "" {
		return // the next pass goes back
	}
	target, canary := r.target()
	ready := r.ready(r.to)
	most := d.MaxInFlight
	if r.back {
		most = target // all missing instances may be started at once
	}
	r.to.Instances = max(r.to.Instances, min(target, ready+most))
	relieved := ready
	if canary {
		// A canary runs beside the instance it may replace; at least the last one of a
		// step does.
		relieved = min(ready, target-1)
	}
	keep := max(0, d.Original-relieved)
	r.advance(&d, ready, target, canary)
	if d.Status == platform.DeploymentFinalized || !canary && ready >= target {
		keep = 0
	}
	r.shrink(keep)
}

// shrink lowers the instances of the processes that go to a number in all. An instance
// that accepts requests goes only while enough others do.
func (r *rollout) shrink(keep int) {
	sum, ready := 0, r.ready(r.to)
	for _, process := range r.from {
		sum += process.Instances
		ready += r.ready(process)
	}
	for sum > keep {
		process := r.processToShrink(keep == 0 || ready > r.d.Original)
		if process == nil {
			return
		}
		process.Instances--
		sum--
		if r.readyAt(process, process.Instances) {
			ready--
		}
	}
}

// processToShrink returns the process that loses its last instance: the first whose last one does
// not accept requests or, if it may be one that does, the first that has instances.
func (r *rollout) processToShrink(ready bool) *platform.Process {
	var found *platform.Process
	for _, process := range r.from {
		switch {
		case process.Instances == 0:
		case !r.readyAt(process, process.Instances-1):
			return process
		case ready && found == nil:
			found = process
		}
	}
	return found
}

// advance computes the state of the deployment.
func (r *rollout) advance(d *platform.Deployment, ready, target int, canary bool) {
	change := func(status platform.DeploymentStatus, reason platform.DeploymentReason) {
		d.Status, d.Reason, d.LastChange = status, reason, r.rules.now
	}
	switch {
	case r.back:
		if ready >= target || !slices.ContainsFunc(r.from,
			func(process *platform.Process) bool { return r.ready(process) > 0 }) {
			change(platform.DeploymentFinalized, platform.ReasonCanceled)
		}
	case ready < target:
	case (!canary || d.Step > 1) && d.Reason == platform.ReasonDeploying &&
		r.rules.now.Before(d.LastChange.Add(r.shortest(d))):
		r.lookAgain(d.LastChange.Add(r.shortest(d)))
	case !canary:
		change(platform.DeploymentFinalized, platform.ReasonDeployed)
	case d.Reason == platform.ReasonDeploying:
		change(platform.DeploymentActive, platform.ReasonPaused)
	}
	if r.becameReady() {
		d.LastHealthy = r.rules.now
	}
	if r.back {
		return // it says why
	}
	d.Error = ""
	if d.Status == platform.DeploymentActive {
		d.Error = r.trouble()
	}
}

// shortest returns how long a deployment is active at least. A rolling one whose client has set the minimum
// healthy time ends without a delay: such a client knows us, and follows the deployment itself.
func (r *rollout) shortest(d *platform.Deployment) time.Duration {
	if d.Strategy == platform.StrategyRolling && d.Options.MinHealthyMS != nil {
		return 0
	}
	return r.ShortestDeployment
}

// becameReady reports whether a new instance accepts requests since this pass.
func (r *rollout) becameReady() bool {
	for at, s := range r.slots {
		was := r.app.slots[at]
		if at.process == r.to.GUID && s.version == r.to.Version && s.accepts() && (was.id != s.id || !was.accepts()) {
			return true
		}
	}
	return false
}

// trouble returns why a new instance does not become ready; "" if none fails.
func (r *rollout) trouble() string {
	for _, at := range r.slotKeys() {
		s := r.slots[at]
		if at.process != r.to.GUID || s.version != r.to.Version || s.going() || s.state == running {
			continue
		}
		if s.failed == refused {
			return fmt.Sprintf("instance %d of the new version cannot be placed: %s", at.index, s.details)
		}
		if s.crashes > 0 {
			return fmt.Sprintf("instance %d of the new version has failed %s: %s", at.index, times(s.crashes), s.details)
		}
	}
	return ""
}

// moved reports whether the deployment or the size of a web process must be written.
func (p *pass) moved() bool {
	return p.deployment != nil && (p.verdict != "" || !reflect.DeepEqual(p.deployment, p.goal.deployment) ||
		len(p.resized()) > 0)
}

// resized returns the web processes whose number of instances a deployment changes.
func (p *pass) resized() []*platform.Process {
	var out []*platform.Process
	for guid, process := range p.goal.processes {
		if process.Instances != p.goal.instances[guid] {
			out = append(out, process)
		}
	}
	return out
}

func (p *pass) concluded() bool {
	return p.deployment != nil && p.deployment.Status == platform.DeploymentFinalized
}

// saveDeployment writes the state of the deployment and the sizes of the web processes,
// unless it was changed meanwhile: then the next pass decides.
func (p *pass) saveDeployment(tx platform.Tx) error {
	if !p.moved() {
		return nil
	}
	now, err := tx.Deployments().Get(p.deployment.GUID)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted with its app
	}
	if err != nil {
		return err
	}
	if seen := p.goal.deployment; now.Status != seen.Status || now.Reason != seen.Reason || now.Step != seen.Step {
		return nil
	}
	if p.verdict != "" {
		return p.cancel(tx, now)
	}
	for _, process := range p.resized() {
		row, err := tx.Processes().Get(process.GUID)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		row.Instances = process.Instances
		if err := tx.Processes().Update(row); err != nil {
			return err
		}
	}
	d := p.deployment
	now.Status, now.Reason, now.LastChange, now.LastHealthy, now.Error = d.Status, d.Reason, d.LastChange,
		d.LastHealthy, d.Error
	if d.Status == platform.DeploymentActive {
		return tx.Deployments().Update(now)
	}
	app, err := tx.Apps().Get(p.app.guid)
	if err != nil {
		return err
	}
	return p.Platform.FinishDeployment(tx, app, now)
}

// drain waits until an instance has no requests in progress, or until drainLimit.
func (c *Controller) drain(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if c.Peers != nil {
		c.Peers.Drain(ctx, id)
	}
	if c.Traffic == nil {
		return
	}
	for c.Traffic.Busy(id) && background.Sleep(ctx, drainPoll) {
	}
}
