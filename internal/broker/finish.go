package broker

import (
	"context"

	"ingot/internal/base/background"
)

// finishAll completes operations that were interrupted, because the broker or a
// server was killed, and retries until it succeeds. It also starts the servers
// of existing instances, because apps connect to them without asking the broker.
func (b *Broker) finishAll(ctx context.Context) {
	for first, open := true, false; first || background.Sleep(ctx, retryInterval); first = false {
		if !open {
			open = b.openListeners(ctx)
		}
		// A panic for one instance must not block the others. Servers are started before anything is completed, which
		// may take long.
		if first {
			for _, i := range b.state.list() {
				background.Safely("service instance", func() { b.resume(ctx, i) })
			}
		}
		for _, i := range b.state.list() {
			if i.unfinished() {
				background.Safely("service instance", func() { b.finish(ctx, i.ID) })
			}
		}
	}
}

// resume starts the server of one instance.
func (b *Broker) resume(ctx context.Context, i *instance) {
	if _, err := b.backendOf(i); err != nil {
		b.config.Log.Warn("service instance unavailable", "instance", i.ID, "reason", err)
	}
	b.wake(ctx, i.ID)
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

// finish completes an instance: asynchronous creations are continued, deletions
// are completed, and creations that were never acknowledged are undone.
func (b *Broker) finish(ctx context.Context, id string) {
	wait, stop := context.WithTimeout(ctx, operationTime)
	defer stop()
	release, err := b.state.acquire(wait, id)
	if err != nil {
		return
	}
	defer release()
	i := b.state.get(id)
	if i == nil || !i.unfinished() {
		return
	}
	s, err := b.backendOf(i)
	if err != nil {
		return // logged at the start
	}
	limit := operationTime
	if i.Phase == creating && i.Async {
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
	if i.Phase == creating && i.Async {
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

func (b *Broker) checkSize(ctx context.Context, id string) error {
	op, cancel := context.WithTimeout(ctx, operationTime)
	defer cancel()
	release, err := b.state.acquire(op, id)
	if err != nil {
		return err
	}
	defer release()
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
