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

// A deployment puts a new instance beside each old one, a few at a time, and has
// the old one go when the new one takes requests:
//
//	index 0   old ─────────┬─▶ goes
//	          new ──ready──┘
//	index 1   old ──────────────────────┬─▶ goes
//	                    new ───ready────┘
//
// The rows are all that has to be remembered: an instance of the process's
// version is new, any other old, and how the old one is made is in the
// deployment. The way back is the same with the versions exchanged.

const (
	// drainLimit is how long requests of an instance that is replaced may
	// take before it is told to go.
	drainLimit = 10 * time.Second
	// drainLook is how often it is looked whether they have ended.
	drainLook = 20 * time.Millisecond
)

// before is what the web process was before the deployment that goes on; zero
// if none does.
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

// rollout is what a deployment does to its process in one pass.
type rollout struct {
	*pass
	d       *platform.Deployment
	process *platform.Process
	back    bool // it is on its way back
}

// rolloutOf is that of a process, nil for one that no deployment concerns.
func (p *pass) rolloutOf(guid string) *rollout {
	process := p.goal.processes[guid]
	if p.goal.deployment == nil || process == nil || process.Type != platform.WebProcess || process.DropletGUID == "" {
		return nil
	}
	return &rollout{p, p.goal.deployment, process, p.goal.deployment.Reason == platform.ReasonCanceling}
}

// side is what is at an index: the instance of the wanted version, and others.
// Those that were told to go count no more, unless they come again.
type side struct {
	fresh *place
	old   []place
}

func (r *rollout) sideOf(lanes []place) side {
	var s side
	for _, at := range lanes {
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

func (r *rollout) ready(at *place) bool { return at != nil && r.slots[*at].routable() }

// freshReady counts the instances of the wanted version that take requests.
func (r *rollout) freshReady() int {
	n := 0
	for at, s := range r.slots {
		if at.process == r.process.GUID && at.index < r.process.Instances && s.version == r.process.Version && s.routable() {
			n++
		}
	}
	return n
}

// target is how many new instances there shall be now, and whether that is but a
// step on the way to all.
func (r *rollout) target() (int, bool) {
	if r.back {
		return r.process.Instances, false
	}
	return r.d.Canaries(r.process.Instances)
}

// roll tells the places of the process what is wanted of them.
func (r *rollout) roll(lanes map[int][]place, room *int) {
	wanted := r.process.Instances
	target, canary := r.target()
	complete := !canary && r.freshReady() >= wanted
	inFlight := 0
	sides := map[int]side{}
	for _, index := range slices.Sorted(maps.Keys(lanes)) {
		s := r.sideOf(lanes[index])
		sides[index] = s
		for _, at := range lanes[index] {
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
			// A canary is beside what it may replace, the last one of a step at least.
			relieved = r.ready(s.fresh) && (!canary || index < target-1)
		}
		r.keepOne(s.old, relieved)
	}
	for i := 0; i < r.d.Before.Instances && *room > 0 && !r.back; i++ {
		if sides[i].fresh == nil && len(sides[i].old) == 0 {
			r.add(r.process.GUID, i, r.d.Before.Version, room) // it was interrupted with everything else
		}
	}
	most := r.d.MaxInFlight
	if r.back {
		most = wanted // each that is missing is missed
	}
	for i := 0; i < target && inFlight < most && *room > 0; i++ {
		if sides[i].fresh == nil {
			r.add(r.process.GUID, i, r.process.Version, room)
			inFlight++
		}
	}
}

// keepOne leaves one of the old instances of an index alone, unless there is
// another for them: best one that takes requests. One that does not is of use
// only if it can be started again.
func (r *rollout) keepOne(old []place, relieved bool) {
	var keep *place
	worth := func(at place) int {
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

// progress is what the deployment has come to with this pass.
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

// holdsOld tells whether an instance is kept that is not of the wanted version.
func (r *rollout) holdsOld() bool {
	for at, s := range r.slots {
		if at.process == r.process.GUID && s.version != r.process.Version && s.wanted != "" {
			return true
		}
	}
	return false
}

// becameReady tells whether a new instance takes requests since this pass.
func (r *rollout) becameReady() bool {
	for at, s := range r.slots {
		was := r.app.slots[at]
		if at.process == r.process.GUID && s.version == r.process.Version && s.routable() && (was.id != s.id || !was.routable()) {
			return true
		}
	}
	return false
}

// trouble is why a new instance does not become ready, "" if none fails.
func (r *rollout) trouble() string {
	for _, at := range r.places() {
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

// moved tells whether the deployment is to be written.
func (p *pass) moved() bool {
	return p.deployment != nil && !reflect.DeepEqual(p.deployment, p.goal.deployment)
}

func (p *pass) concluded() bool {
	return p.deployment != nil && p.deployment.Status == platform.DeploymentFinalized
}

// saveDeployment writes how far the deployment is, unless somebody has turned it
// elsewhere meanwhile: then the next pass sees what to do.
func (p *pass) saveDeployment(tx platform.Tx) error {
	if !p.moved() {
		return nil
	}
	now, err := tx.Deployments().Get(p.deployment.GUID)
	if fault.Is(err, fault.NotFound) {
		return nil // it went with its app
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

// drain returns when an instance has no requests under way, or has had its
// time.
func (c *Controller) drain(ctx context.Context, id string) {
	if c.Traffic == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for c.Traffic.Busy(id) {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
