//go:build linux

package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ingot/internal/base/background"
	"ingot/internal/base/cgroup"
	"ingot/internal/base/mounts"
	"ingot/internal/platform/engine/container/network"
	"ingot/internal/platform/engine/local"
)

// Remove kills the instance's processes and removes everything it had. If another program still
// uses its disk, the instance is removed nevertheless, and the error says which.
func (e *Engine) Remove(ctx context.Context, id string) error {
	if local.CheckID(id) != nil {
		return nil
	}
	unlock, err := e.ids.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	in, err := e.find(id)
	if err != nil {
		return nil //nolint:nilerr // it does not exist
	}
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	// From here on it is incomplete, whatever happens.
	err = in.dir.Forget()
	held, down := e.takeDown(ctx, id, in.dir.Path(), in)
	if err = errors.Join(err, down); err == nil {
		err = in.dir.Remove()
	}
	if err != nil {
		return fmt.Errorf("removing instance %s: %w", id, errors.Join(err, held))
	}
	e.mu.Lock()
	delete(e.instances, id)
	e.mu.Unlock()
	e.users.release(in.Base)
	e.net.Release(in.Addr)
	e.room.Free(id)
	if held != nil {
		return fmt.Errorf("instance %s was removed, but %w", id, held)
	}
	return nil
}

// takeDown stops an instance, complete or not, and removes everything but its directory. in
// is nil if nothing is known about it. A step that fails does not keep it from the others. held is
// what other programs still use; it disappears when they end.
func (e *Engine) takeDown(ctx context.Context, id, path string, in *instance) (held, err error) {
	ctx, cancel := context.WithTimeout(ctx, takedown)
	defer cancel()
	group := e.groupOf(id)
	alive := e.kill(ctx, group, in)
	var wg background.WaitGroup
	var errs [3]error
	if in != nil && in.Addr.IsValid() {
		wg.Try("engine remove", &errs[0],
			func() error { return errors.Join(e.net.Disconnect(in.Addr), e.net.Admit(in.Addr, nil)) })
	}
	if alive == nil {
		wg.Try("engine remove", &errs[1], func() error { return e.groups.Remove(ctx, group) })
	}
	wg.Try("engine remove", &errs[2], func() (err error) {
		held, err = e.unmountAll(ctx, id, path, alive == nil)
		return err
	})
	wg.Wait()
	if errs[2] == nil { // otherwise it would remove what is mounted
		errs[2] = os.RemoveAll(e.bundle(id))
	}
	return held, errors.Join(append(errs[:], alive, os.RemoveAll(e.runc.state(id)))...)
}

// clear is takeDown for what a dead server left. What other programs still use is only logged.
func (e *Engine) clear(ctx context.Context, id, path string, in *instance) error {
	held, err := e.takeDown(ctx, id, path, in)
	if held != nil {
		e.log.Warn("another program uses something of a removed instance", "instance", id, "what", held)
	}
	return err
}

// kill ends all processes of an instance.
func (e *Engine) kill(ctx context.Context, group string, in *instance) error {
	var errs []error
	if in != nil {
		// All processes of a PID namespace end with its first.
		err := in.Init.Signal(syscall.SIGKILL)
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		errs = append(errs, err)
		if in.watched != nil && err == nil {
			select {
			case <-in.gone:
			case <-ctx.Done():
				errs = append(errs, fmt.Errorf("ingot-init does not end: %w", ctx.Err()))
			}
		}
	}
	return errors.Join(append(errs, e.groups.Kill(ctx, group))...)
}

// unmountAll removes an instance's mounts. With wait it also waits for its loop device; held says
// which program keeps it.
func (e *Engine) unmountAll(ctx context.Context, id, path string, wait bool) (held, err error) {
	table, err := mounts.Table()
	if err != nil {
		return nil, err
	}
	point := filepath.Join(e.bundle(id), "disk")
	var loop string
	for _, m := range table {
		if m.Point == point && m.Kind == "ext4" {
			loop = filepath.Base(m.Source)
		}
	}
	if err := unmountOf(table, path, e.bundle(id)); err != nil || loop == "" || !wait {
		return nil, err
	}
	return awaitLoop(ctx, loop, filepath.Join(path, diskImage), e.loopTime), nil
}

// recover removes incomplete instances and adopts the others. What could not be removed is in
// e.left.
func (e *Engine) recover(ctx context.Context) error {
	left := []error{local.Recover(e.root, func(d *local.Dir) error { return e.clear(ctx, d.ID(), d.Path(), nil) })}
	dirs, err := local.List(e.root)
	if err != nil && !e.options.Leaving {
		return err
	}
	left = append(left, err)
	local.WarnNewer(dirs, e.log)
	var failed []error
	for _, d := range dirs {
		if strings.HasPrefix(d.ID(), trialPrefix) { // a server was killed in the middle of it
			left = append(left, e.discard(ctx, d))
			continue
		}
		err := e.adopt(ctx, d)
		if err == nil {
			continue
		}
		err = fmt.Errorf("instance %s: %w", d.ID(), err)
		if !e.options.Leaving {
			failed = append(failed, err)
			continue
		}
		e.log.Warn("an instance cannot be adopted; it is removed", "err", err)
		left = append(left, e.discard(ctx, d))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	e.left = errors.Join(errors.Join(left...), e.clearStrays(ctx), e.net.Sweep(), e.prune())
	if e.left != nil {
		e.log.Warn("something of removed instances is left; the next start tries again", "what", e.left)
	}
	return nil
}

// discard removes an instance that is not adopted.
func (e *Engine) discard(ctx context.Context, d *local.Dir) error {
	if err := errors.Join(d.Forget(), e.clear(ctx, d.ID(), d.Path(), nil)); err != nil {
		return fmt.Errorf("instance %s: %w", d.ID(), err)
	}
	return d.Remove()
}

// clearStrays removes leftovers of instances without a directory, which are found by name.
func (e *Engine) clearStrays(ctx context.Context) error {
	strays := map[string]bool{}
	for _, dir := range []string{e.runc.root, filepath.Join(e.run, "i")} {
		entries, _ := os.ReadDir(dir) // it may not exist
		for _, f := range entries {
			strays[f.Name()] = true
		}
	}
	for _, name := range e.groups.Children(e.group) {
		strays[name] = true
	}
	var errs []error
	for id := range strays {
		if e.instances[id] != nil || local.CheckID(id) != nil {
			continue
		}
		if err := e.clear(ctx, id, filepath.Join(e.root, id), nil); err != nil {
			errs = append(errs, fmt.Errorf("leftovers of instance %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// removeOrphans removes what is left of engines whose root is gone.
func removeOrphans(ctx context.Context, groups *cgroup.Tree, log *slog.Logger) error {
	return network.RemoveOrphans(log, func(hash string) (bool, error) {
		name := namePrefix + hash
		if len(groups.Children(name)) > 0 {
			return true, nil
		}
		err := groups.Remove(ctx, name)
		run := filepath.Join(runDir, name)
		if busy := unmountBelow(run); busy != nil {
			return false, errors.Join(err, busy)
		}
		return true, errors.Join(err, os.RemoveAll(run))
	})
}

// Left returns what a dead server left and New could not remove; nil if there is nothing.
func (e *Engine) Left() error { return e.left }

// adopt adopts one instance.
func (e *Engine) adopt(ctx context.Context, d *local.Dir) error {
	in := &instance{dir: d}
	if err := json.Unmarshal(d.Meta().Engine, &in.extra); err != nil {
		return err
	}
	if e.runc.waits(d.ID()) && in.Init.Alive() {
		// The server died before the instance was started.
		if err := d.Forget(); err != nil {
			return err
		}
		return errors.Join(e.clear(ctx, d.ID(), d.Path(), in), d.Remove())
	}
	var err error
	if in.watched, err = e.watch.add(in.Init); err != nil {
		return err
	}
	e.users.adopt(in.Base)
	e.net.Adopt(in.Addr, d.ID(), in.access())
	e.room.Adopt(d.ID(), d.Meta().Limits)
	e.instances[d.ID()] = in
	if err := e.regain(in); err != nil {
		// It runs; only its disk usage is not known, and its files cannot be collected.
		e.log.Warn("the disk of an adopted instance cannot be mounted", "instance", d.ID(), "err", err)
	}
	return nil
}

// prune removes unused layers when they take too much space.
func (e *Engine) prune() error { return e.layers.prune(e.names) }

// Trim removes the unpacked archives that no instance uses and whose key is not wanted.
func (e *Engine) Trim(wanted func(key string) bool) error { return e.layers.trim(e.names, wanted) }

// names reports whether an instance uses a layer.
func (e *Engine) names(layer string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, in := range e.instances {
		if slices.Contains(in.Layers, layer) {
			return true
		}
	}
	return false
}
