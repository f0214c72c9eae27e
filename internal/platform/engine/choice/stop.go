package choice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
)

const (
	// stopTimeout is how long instances have to stop: longer than ingot-init waits
	// for its members.
	stopTimeout = 15 * time.Second
	stopPoll    = 20 * time.Millisecond
	stopAtOnce  = 8
)

// Stopped says what became of the instances of a data directory.
type Stopped struct {
	Instances int  // that were stopped
	Left      int  // that still run
	Unknown   bool // there may be others, which could not be listed
}

// StopAll stops and removes the instances of every engine of a data directory. One that cannot be
// stopped does not keep it from the others; the error says what is left.
func StopAll(ctx context.Context, o Options) (all Stopped, err error) {
	var errs []error
	for _, k := range newChooser(o).kinds() {
		one, err := k.stop(ctx)
		all.Instances, all.Left, all.Unknown = all.Instances+one.Instances, all.Left+one.Left, all.Unknown || one.Unknown
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.apps, err))
		}
	}
	return all, errors.Join(errs...)
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
	var errs []error
	for _, k := range c.kinds() {
		if k.name == used {
			continue
		}
		stopped, err := k.stop(ctx)
		if err == nil {
			err = errors.Join(os.RemoveAll(k.root), os.RemoveAll(k.cache))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the instances of the previous engine could not be stopped: %w", err))
		}
		if stopped.Instances > 0 {
			c.log.Info("stopped the instances of the other engine; they are started again", "instances", stopped.Instances,
				"engine", used)
		}
	}
	return errors.Join(errs...)
}

// stop stops and removes all instances of an engine, also those of builds. It does what it can for
// each, whatever becomes of the others.
func (k kind) stop(ctx context.Context) (s Stopped, err error) {
	e, err := k.leftover(ctx)
	if e == nil {
		return Stopped{Unknown: err != nil}, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	all, listErr := e.List(ctx, nil)
	s.Unknown = err != nil || listErr != nil
	for _, in := range all {
		_ = e.Signal(ctx, in.ID) // if it fails, Remove kills it
	}
	limited, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	results := background.EachResult(ctx, "stop instances", stopAtOnce, all,
		func(ctx context.Context, in engine.Instance) error {
			awaitEnd(limited, e, in.ID)
			return e.Remove(ctx, in.ID)
		})
	for i, result := range results {
		if in, err := e.Get(ctx, all[i].ID); result != nil && err == nil && in.Running {
			s.Left++
		} else {
			s.Instances++
		}
	}
	return s, errors.Join(append(results, err, listErr)...)
}

// awaitEnd waits for an instance that was signalled. If it does not stop in time,
// Remove kills it.
func awaitEnd(ctx context.Context, e engine.Engine, id string) {
	for alive := true; alive; alive = background.Sleep(ctx, stopPoll) {
		if in, err := e.Get(ctx, id); err != nil || !in.Running {
			return
		}
	}
}
