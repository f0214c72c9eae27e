package choice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ingot/internal/platform/engine"
)

const (
	// stopTimeout is how long instances have to stop: longer than ingot-init waits
	// for its members.
	stopTimeout = 15 * time.Second
	stopPoll    = 20 * time.Millisecond
)

// StopAll stops and removes the instances of every engine of a data directory, and
// returns how many there were.
func StopAll(ctx context.Context, o Options) (int, error) {
	all := 0
	for _, k := range newChooser(o).kinds() {
		n, err := k.stop(ctx)
		all += n
		if err != nil {
			return all, fmt.Errorf("%s: %w", k.apps, err)
		}
	}
	return all, nil
}

// InCluster reports whether the instances of a data directory run in a cluster, where
// StopAll leaves them alone.
func InCluster(o Options) bool {
	before, err := newChooser(o).recorded()
	return err == nil && before.Engine == pods
}

// stopOthers stops the instances of the engines that are not used, and removes
// their files.
func (c *chooser) stopOthers(ctx context.Context, used string) error {
	for _, k := range c.kinds() {
		if k.name == used {
			continue
		}
		n, err := k.stop(ctx)
		if err == nil {
			err = errors.Join(os.RemoveAll(k.root), os.RemoveAll(k.cache))
		}
		if err != nil {
			return fmt.Errorf("the instances of the previous engine could not be stopped: %w", err)
		}
		if n > 0 {
			c.log.Info("stopped the instances of the other engine; they are started again", "instances", n, "engine", used)
		}
	}
	return nil
}

// stop stops and removes all instances of an engine, also those of builds.
func (k kind) stop(ctx context.Context) (n int, err error) {
	e, err := k.leftover(ctx)
	if err != nil || e == nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	all, err := e.List(ctx, nil)
	if err != nil {
		return 0, err
	}
	for _, in := range all {
		if err := e.Signal(ctx, in.ID); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return 0, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for _, in := range all {
		awaitEnd(limited, e, in.ID)
		if err := e.Remove(ctx, in.ID); err != nil {
			return n, fmt.Errorf("instance %s: %w", in.ID, err)
		}
		n++
	}
	return n, nil
}

// awaitEnd waits for an instance that was signalled. If it does not stop in time,
// Remove kills it.
func awaitEnd(ctx context.Context, e engine.Engine, id string) {
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for {
		if in, err := e.Get(ctx, id); err != nil || !in.Running {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
