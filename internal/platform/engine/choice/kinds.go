package choice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/process"
)

// kind is an engine that can be chosen.
type kind struct {
	// name is the value of --engine, and that of Description.Name.
	name string
	// apps describes the apps that it runs, for errors.
	apps string
	// root is the directory of its instances, if they are on this machine; it and
	// cache are removed when another engine is chosen.
	root, cache string
	// open opens the engine to run apps, and logs why; before is the choice of an
	// earlier start.
	open func(ctx context.Context, before record) (engine.Engine, error)
	// leftover opens the engine to stop its instances; nil means that there are none. With an
	// error and an engine there may be others.
	leftover func(context.Context) (engine.Engine, error)
	// sftp returns the path of the sftp server in instances; program is its path on
	// this machine, empty if there is none.
	sftp func(program string) (string, error)
}

const (
	containers = "container"
	processes  = "process"
	pods       = "kubernetes"
)

// kinds returns all engines.
func (c *chooser) kinds() []kind {
	return []kind{
		{
			name: containers, apps: "apps in containers", root: c.container.Root,
			open: c.openContainers, leftover: c.leftoverContainers,
			sftp: func(string) (string, error) { return container.SFTPInside, nil },
		},
		{
			name: processes, apps: "apps as plain processes", root: c.process.Root, cache: c.process.Cache,
			open: c.openProcesses, leftover: c.leftoverProcesses,
			sftp: func(program string) (string, error) { return c.dir.Share(program) },
		},
		{
			name: pods, apps: "apps on Kubernetes", open: c.openPods, leftover: c.leftoverPods,
			sftp: func(string) (string, error) { return kubernetes.SFTPInside, nil },
		},
	}
}

func (c *chooser) kind(name string) (kind, bool) {
	for _, k := range c.kinds() {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// openContainers opens the container engine. If it was used before and containers
// no longer work, it is opened but starts no instances: the server does not decide
// to run apps without isolation, and running instances need the engine.
func (c *chooser) openContainers(ctx context.Context, before record) (engine.Engine, error) {
	if before.Engine != containers {
		e, err := container.Open(ctx, c.container)
		if err != nil {
			return nil, fmt.Errorf("--engine container: %w", err)
		}
		c.log.Info("apps run in containers", "why", "--engine container, and a trial container worked")
		return e, nil
	}
	e, err := container.Reopen(ctx, c.container, func(why error) {
		if why != nil {
			c.log.Error("no app instance is started until containers work again; running ones continue. "+
				"To run apps WITHOUT isolation from now on, start with --engine process", "why", why)
			return
		}
		c.log.Info("apps run in containers", "why", "as before, and a trial container worked")
	})
	if err != nil {
		return nil, fmt.Errorf("the apps of this data directory run in containers, and these cannot be taken over: %w; "+
			"to run them WITHOUT isolation from now on, start with --engine process", err)
	}
	return e, nil
}

// leftoverContainers opens the container engine if it was used. Without instances
// there may still be a network to remove; if the engine cannot be opened then,
// there is nothing to stop.
func (c *chooser) leftoverContainers(ctx context.Context) (engine.Engine, error) {
	if used, err := hasEntries(c.container.Root); err != nil || !used {
		return nil, err
	}
	some, err := hasEntries(filepath.Join(c.container.Root, "instances"))
	if err != nil {
		return nil, err
	}
	o := c.container
	o.Leaving = true
	e, err := container.New(ctx, o)
	if err != nil && !some {
		return nil, nil //nolint:nilerr // there is nothing to stop
	}
	if err != nil {
		return nil, err
	}
	left := e.Left()
	return e, left
}

func (c *chooser) openProcesses(_ context.Context, before record) (engine.Engine, error) {
	why := "--engine process"
	if before.Engine == processes {
		why = "as before (" + before.Why + "); --engine container changes it"
	}
	c.log.Warn("apps run as plain processes, WITHOUT isolation", "why", why)
	return c.newProcesses(before)
}

func (c *chooser) newProcesses(before record) (engine.Engine, error) {
	if err := c.dir.AllowTraversal(); err != nil {
		return nil, err
	}
	e, err := process.New(c.process)
	if err != nil {
		return nil, err
	}
	why := e.Describe().Held
	if why != "" && before.Engine != processes {
		return nil, errors.Join(errors.New("--engine process: "+why), e.Close())
	}
	if why != "" {
		c.log.Error("no app instance is started; running ones continue", "why", why)
	}
	return e, nil
}

func (c *chooser) leftoverProcesses(context.Context) (engine.Engine, error) {
	if used, err := hasEntries(c.process.Root); err != nil || !used {
		return nil, err
	}
	o := c.process
	o.Leaving = true
	e, err := process.New(o)
	if err != nil {
		return nil, err
	}
	left := e.Left()
	return e, left
}

// openPods opens the Kubernetes engine. A cluster that was used before may be away for a
// while: then no instances are started.
func (c *chooser) openPods(ctx context.Context, before record) (engine.Engine, error) {
	o, err := c.kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	if before.Engine != pods {
		e, err := kubernetes.Open(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("--engine kubernetes: %w", err)
		}
		c.log.Info("apps run on Kubernetes", "namespace", o.Namespace, "why", "--engine kubernetes, and a trial Pod worked")
		return e, nil
	}
	e, err := kubernetes.Reopen(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("the apps of this data directory run on Kubernetes: %w", err)
	}
	return e, nil // it logs the result of the trial Pod
}

// leftoverPods opens the Kubernetes engine if the apps ran there until now and another
// engine was chosen. 'ingot down' leaves the Pods alone: other servers may run them.
func (c *chooser) leftoverPods(ctx context.Context) (engine.Engine, error) {
	before, err := c.recorded()
	if err != nil || before.Engine != pods || c.kubernetes == nil {
		return nil, err
	}
	o, err := c.kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	if flag, err := o.Validate(); err != nil {
		return nil, fmt.Errorf("the apps ran on Kubernetes until now; to stop them there, --%s: %w", flag, err)
	}
	return kubernetes.New(ctx, o)
}

func hasEntries(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}
