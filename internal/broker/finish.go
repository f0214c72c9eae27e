package broker

import (
	"context"
	"math/rand/v2"

	"ingot/internal/base/background"
)

// finishers is how many operations of each kind are completed at the same time.
const finishers = 4

// finishAll completes operations that were interrupted, because the broker or a
// server was killed, and retries until it succeeds. It also starts the servers
// of existing instances, because apps connect to them without asking the broker.
// None of it waits for one instance: a creation may take long, and the deletions
// of others, whose credentials are valid until then, must not wait for it.
func (b *Broker) finishAll(ctx context.Context) {
	creations, others := make(chan struct{}, finishers), make(chan struct{}, finishers)
	done := make(chan struct{}, 1)
	for first, open := true, false; first || background.Wait(ctx, retryInterval, done); first = false {
		if !open {
			open = b.openListeners(ctx)
		}
		all := b.state.list()
		if first {
			for _, i := range all {
				b.resume(ctx, i)
			}
		}
		// In any order: those that hang must not be the first each time.
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) //nolint:gosec // no secret
		for _, i := range all {
			slots := others
			if i.isBeingMade() {
				slots = creations
			}
			if i.unfinished() {
				b.retry(ctx, slots, i.ID, done)
			}
		}
	}
}

// retry completes an instance in the background, unless an operation holds it or all slots are taken. When it has
// succeeded, done gets a value.
func (b *Broker) retry(ctx context.Context, slots chan struct{}, id string, done chan struct{}) {
	select {
	case slots <- struct{}{}:
	default:
		return
	}
	b.spawn(func() {
		completed := false
		defer func() {
			<-slots
			if completed {
				background.Kick(done) // for the next one
			}
		}()
		// A panic must not run this again, which has given its slot back.
		background.Safely("service instance", func() {
			release, ok := b.state.tryAcquire(id)
			if !ok {
				return
			}
			defer release()
			b.finish(ctx, id)
			i := b.state.get(id)
			completed = i == nil || !i.unfinished()
		})
	})
}

// resume starts the server of one instance.
func (b *Broker) resume(ctx context.Context, i *instance) {
	if _, err := b.backendOf(i); err != nil {
		b.config.Log.Warn("service instance unavailable", "instance", i.ID, "reason", err)
		return
	}
	if i.Phase == ready {
		b.spawn(func() { background.Safely("service instance", func() { b.wake(ctx, i.ID) }) })
	}
}

// wake starts an instance's server without waiting for it. The instance is
// acquired: one that is being deleted must not get its server back.
func (b *Broker) wake(ctx context.Context, id string) {
	release, err := b.state.acquire(ctx, id)
	if err != nil {
		return
	}
	defer release()
	i := b.state.get(id)
	if i == nil || i.Phase != ready {
		return
	}
	s, err := b.backendOf(i)
	if err != nil {
		return // logged at the start
	}
	if err := s.wake(ctx, i); err != nil && ctx.Err() == nil {
		b.config.Log.Error("server of a service instance is not running", "instance", i.ID, "service", i.Offering,
			"error", err)
	}
}

// isBeingMade reports whether the instance is created while the client polls, which may take long.
func (i *instance) isBeingMade() bool { return i.Phase == creating && i.Async }

// unfinished reports whether there is something to complete or undo.
func (i *instance) unfinished() bool {
	if i.Phase == creating || i.Phase == deleting {
		return true
	}
	for _, b := range i.Bindings {
		if b.Phase != ready {
			return true
		}
	}
	return false
}

// finishSoon completes an instance when the request that began it, or another one about it, has ended.
func (b *Broker) finishSoon(id string) {
	wait, stop := context.WithTimeout(b.work, operationTime)
	defer stop()
	release, err := b.state.acquire(wait, id)
	if err != nil {
		return
	}
	defer release()
	b.finish(b.work, id)
}

// finish completes an instance: asynchronous creations are continued, deletions
// are completed, and creations that were never acknowledged are undone. The caller must have acquired the instance.
func (b *Broker) finish(ctx context.Context, id string) {
	i := b.state.get(id)
	if i == nil || !i.unfinished() {
		return
	}
	s, err := b.backendOf(i)
	if err != nil {
		return // logged at the start
	}
	limit := operationTime
	if i.isBeingMade() {
		limit = createTime
	}
	op, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := b.finishOne(op, s, i); err != nil && ctx.Err() == nil {
		b.config.Log.Warn("complete service instance failed, retrying", "instance", i.ID, "phase", string(i.Phase),
			"error", err)
	}
}

func (b *Broker) finishOne(ctx context.Context, s backend, i *instance) error {
	if i.isBeingMade() {
		o, _ := offeringNamed(i.Offering)
		params, err := readParameters(i.Params, o.create)
		if err != nil {
			return err
		}
		return b.provision(ctx, s, i, params)
	}
	if i.Phase != ready {
		// The request got no response, so the client treats it as failed and
		// repeats it or deletes the instance.
		i.Phase = deleting
		return b.deprovision(ctx, s, i)
	}
	if err := s.ensure(ctx, i); err != nil {
		return err
	}
	for _, to := range i.Bindings {
		if to.Phase != ready {
			if err := b.removeBinding(ctx, s, i, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchSizes checks the sizes of all databases periodically.
func (b *Broker) watchSizes(ctx context.Context) {
	for range background.Ticks(ctx, sizeInterval, nil) {
		b.checkSizes(ctx)
	}
}

// checkSizes makes instances that exceed the size of their plan read-only, and
// writable again when they are below it.
func (b *Broker) checkSizes(ctx context.Context) {
	for _, id := range b.state.ids() {
		err := background.Do("service instance", func() error { return b.checkSize(ctx, id) })
		if err != nil && ctx.Err() == nil {
			b.config.Log.Warn("measure service instance failed", "instance", id, "error", err)
		}
	}
}

// checkSize checks one instance, unless an operation holds it.
func (b *Broker) checkSize(ctx context.Context, id string) error {
	release, free := b.state.tryAcquire(id)
	if !free {
		return nil // the next time
	}
	defer release()
	return b.checkHeld(ctx, id)
}

// checkHeld checks an instance that the caller has acquired.
func (b *Broker) checkHeld(ctx context.Context, id string) error {
	op, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	i := b.state.get(id)
	if i == nil || i.Phase != ready {
		return nil
	}
	s, err := b.backendOf(i)
	if err != nil || !s.up(i) {
		return nil //nolint:nilerr // logged at the start; a stopped server does not grow
	}
	size, err := s.size(op, i)
	if err != nil {
		return err
	}
	limit := b.config.limit(i)
	if over := size > limit; over != i.Over {
		i.Over = over
		if err := b.state.save(i); err != nil {
			return err
		}
		b.config.Log.Info("service instance write access changed", "instance", id, "size", sizeText(size), "plan",
			sizeText(limit), "over", over)
		return s.resize(op, i)
	}
	return nil
}
