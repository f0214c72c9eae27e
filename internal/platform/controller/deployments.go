package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// A deployment starts a new instance beside each old one, a few at a time, and
// stops the old one when the new one accepts requests:
//
//	index 0   old ─────────┬─▶ stops
//	          new ──ready──┘
//	index 1   old ──────────────────────┬─▶ stops
//	                    new ───ready────┘
//
// All state is in the rows: an instance of the process's version is new, any other
// is old, and the deployment says how to create an old one. A rollback is the same
// with the versions exchanged.

const (
	// drainLimit is how long requests to an instance that is replaced may take before it is
	// stopped.
	drainLimit = 10 * time.Second
	// drainPoll is the interval of checks whether they have finished.
	drainPoll = 20 * time.Millisecond
)

// before returns the web process as it was before the active deployment; zero if there is
// none.
func before(tx platform.Tx, process *platform.Process) (platform.WebRun, error) {
	if process.Type != platform.WebProcess {
		return platform.WebRun{}, nil
	}
	d, err := actions.ActiveDeployment(tx, process.AppGUID)
	if err != nil || d == nil {
		return platform.WebRun{}, err
	}
	return d.Before, nil
}

// rollout is the work of a deployment on its process in one pass.
type rollout struct {
	*pass
	d       *platform.Deployment
	process *platform.Process
	back    bool // it is being rolled back
}

// rolloutOf returns the rollout of a process; nil if no deployment concerns it.
func (p *pass) rolloutOf(guid string) *rollout {
	process := p.goal.processes[guid]
	if p.goal.deployment == nil || process == nil || process.Type != platform.WebProcess || process.DropletGUID == "" {
		return nil
	}
	return &rollout{p, p.goal.deployment, process, p.goal.deployment.Reason == platform.ReasonCanceling}
}

// side holds the slots of an index: the one of the wanted version, and others. Slots that
// are being stopped are left out, unless they restart.
type side struct {
	fresh *slotKey
	old   []slotKey
}

func (r *rollout) sideOf(slots []slotKey) side {
	var s side
	for _, at := range slots {
		slot := r.slots[at]
		switch {
		case slot.leaves():
		case slot.version == r.process.Version && s.fresh == nil:
			s.fresh = &at
		default:
			s.old = append(s.old, at)
		}
	}
	return s
}

func (r *rollout) ready(at *slotKey) bool { return at != nil && r.slots[*at].routable() }

// freshReady returns the number of instances of the wanted version that accept requests.
func (r *rollout) freshReady() int {
	n := 0
	for at, s := range r.slots {
		if at.process == r.process.GUID && at.index < r.process.Instances && s.version == r.process.Version && s.routable() {
			n++
		}
	}
	return n
}

// target returns how many new instances should exist now, and whether that is a canary
// step.
func (r *rollout) target() (int, bool) {
	if r.back {
		return r.process.Instances, false
	}
	return r.d.Canaries(r.process.Instances)
}

// roll tells the slots of the process which version is wanted.
func (r *rollout) roll(slots map[int][]slotKey, room *int) {
	wanted := r.process.Instances
	target, canary := r.target()
	complete := !canary && r.freshReady() >= wanted
	inFlight := 0
	sides := map[int]side{}
	for _, index := range slices.Sorted(maps.Keys(slots)) {
		s := r.sideOf(slots[index])
		sides[index] = s
		for _, at := range slots[index] {
			if r.slots[at].leaves() {
				r.step(at, event{kind: evDesire})
			}
		}
		if s.fresh != nil && index < wanted {
			r.step(*s.fresh, event{kind: evDesire, version: r.process.Version})
			if !r.ready(s.fresh) {
				inFlight++
			}
		} else if s.fresh != nil {
			r.step(*s.fresh, event{kind: evDesire, gently: true})
		}
		relieved := complete
		if index < wanted {
			// A canary runs beside the instance it may replace; at least the last one of a
			// step does.
			relieved = r.ready(s.fresh) && (!canary || index < target-1)
		}
		r.keepOne(s.old, relieved)
	}
	for i := 0; i < r.d.Before.Instances && *room > 0 && !r.back; i++ {
		if sides[i].fresh == nil && len(sides[i].old) == 0 {
			r.add(r.process.GUID, i, r.d.Before.Version, room) // it was interrupted like everything else
		}
	}
	most := r.d.MaxInFlight
	if r.back {
		most = wanted // all missing instances may be started at once
	}
	for i := 0; i < target && inFlight < most && *room > 0; i++ {
		if sides[i].fresh == nil {
			r.add(r.process.GUID, i, r.process.Version, room)
			inFlight++
		}
	}
}

// keepOne keeps one of the old instances of an index, unless a new one replaced them:
// preferably one that accepts requests. One that does not is worth keeping only if it can
// be started again.
func (r *rollout) keepOne(old []slotKey, relieved bool) {
	var keep *slotKey
	worth := func(at slotKey) int {
		s, n := r.slots[at], 0
		if s.routable() {
			n += 2
		}
		if !r.back && s.version == r.d.Before.Version {
			n++
		}
		return n
	}
	for _, at := range old {
		if n := worth(at); !relieved && n > 0 && (keep == nil || n > worth(*keep)) {
			keep = &at
		}
	}
	for _, at := range old {
		if keep != nil && at == *keep {
			r.step(at, event{kind: evDesire, version: r.slots[at].version})
		} else {
			r.step(at, event{kind: evDesire, gently: true})
		}
	}
}

// progress computes the state of the deployment after this pass.
func (p *pass) progress() {
	d := *p.goal.deployment
	p.deployment = &d
	r := p.rolloutOf(p.goal.app.GUID)
	if r == nil {
		return
	}
	target, canary := r.target()
	ready := r.freshReady()
	change := func(status platform.DeploymentStatus, reason platform.DeploymentReason) {
		d.Status, d.Reason, d.LastChange = status, reason, p.rules.now
	}
	switch {
	case r.back:
		if ready >= target || !r.holdsOld() {
			change(platform.DeploymentFinalized, platform.ReasonCanceled)
		}
	case ready < target:
	case !canary && p.rules.now.Before(d.LastChange.Add(p.ShortestDeployment)):
		p.again = d.LastChange.Add(p.ShortestDeployment)
	case !canary:
		change(platform.DeploymentFinalized, platform.ReasonDeployed)
	case d.Reason == platform.ReasonDeploying:
		change(platform.DeploymentActive, platform.ReasonPaused)
	}
	if r.becameReady() {
		d.LastHealthy = p.rules.now
	}
	d.Error = ""
	if d.Status == platform.DeploymentActive {
		d.Error = r.trouble()
	}
}

// holdsOld reports whether an instance of another version is kept.
func (r *rollout) holdsOld() bool {
	for at, s := range r.slots {
		if at.process == r.process.GUID && s.version != r.process.Version && s.wanted != "" {
			return true
		}
	}
	return false
}

// becameReady reports whether a new instance accepts requests since this pass.
func (r *rollout) becameReady() bool {
	for at, s := range r.slots {
		was := r.app.slots[at]
		if at.process == r.process.GUID && s.version == r.process.Version && s.routable() && (was.id != s.id || !was.routable()) {
			return true
		}
	}
	return false
}

// trouble returns why a new instance does not become ready; "" if none fails.
func (r *rollout) trouble() string {
	for _, at := range r.slotKeys() {
		s := r.slots[at]
		if at.process != r.process.GUID || s.version != r.process.Version || s.going() || s.state == running {
			continue
		}
		if s.failed == refused {
			return fmt.Sprintf("instance %d of the new version cannot be placed: %s", at.index, s.details)
		}
		if s.crashes > 0 {
			return fmt.Sprintf("instance %d of the new version has failed (%d times): %s", at.index, s.crashes, s.details)
		}
	}
	return ""
}

// moved reports whether the deployment must be written.
func (p *pass) moved() bool {
	return p.deployment != nil && !reflect.DeepEqual(p.deployment, p.goal.deployment)
}

func (p *pass) concluded() bool {
	return p.deployment != nil && p.deployment.Status == platform.DeploymentFinalized
}

// saveDeployment writes the state of the deployment, unless it was changed meanwhile: then
// the next pass decides.
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
	d := p.deployment
	now.Status, now.Reason, now.LastChange, now.LastHealthy, now.Error = d.Status, d.Reason, d.LastChange, d.LastHealthy, d.Error
	if d.Reason != platform.ReasonDeployed {
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
	look := time.NewTicker(drainPoll)
	defer look.Stop()
	for c.Traffic.Busy(id) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
