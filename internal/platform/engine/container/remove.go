//go:build linux

package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine/local"
)

// Remove kills the instance's processes and removes everything it had.
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
	if err := in.dir.Forget(); err != nil {
		return err
	}
	if err := e.takeDown(ctx, id, in.dir.Path(), in); err != nil {
		return fmt.Errorf("removing instance %s: %w", id, err)
	}
	if err := in.dir.Remove(); err != nil {
		return fmt.Errorf("removing instance %s: %w", id, err)
	}
	e.mu.Lock()
	delete(e.instances, id)
	e.mu.Unlock()
	e.users.release(in.Base)
	e.net.release(in.Addr)
	e.room.Free(id)
	return nil
}

// takeDown stops an instance, complete or not, and removes everything but its directory. in
// is nil if nothing is known about it.
func (e *Engine) takeDown(ctx context.Context, id, path string, in *instance) error {
	ctx, cancel := context.WithTimeout(ctx, takedown)
	defer cancel()
	group := filepath.Join(e.group, id)
	if in != nil {
		// All processes of a PID namespace end with its first.
		if err := in.Init.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		if in.watched != nil {
			select {
			case <-in.gone:
			case <-ctx.Done():
				return fmt.Errorf("ingot-init does not end: %w", ctx.Err())
			}
		}
	}
	if err := e.groups.empty(ctx, group); err != nil {
		return err
	}
	var wg background.WaitGroup
	var errs [3]error
	if in != nil && in.Addr.IsValid() {
		wg.Try("engine remove", &errs[0], func() error { return errors.Join(e.net.disconnect(in.Addr), e.net.admit(in.Addr, nil)) })
	}
	wg.Try("engine remove", &errs[1], func() error { return e.groups.remove(ctx, group) })
	wg.Try("engine remove", &errs[2], func() error { return e.unmountAll(ctx, id, path) })
	wg.Wait()
	return errors.Join(append(errs[:], os.RemoveAll(e.runc.state(id)), os.RemoveAll(e.bundle(id)))...)
}

// unmountAll removes an instance's mounts and waits for its loop device.
func (e *Engine) unmountAll(ctx context.Context, id, path string) error {
	table, err := mountTable()
	if err != nil {
		return err
	}
	point := filepath.Join(e.bundle(id), "disk")
	var loop string
	for _, m := range table {
		if m.point == point && m.kind == "ext4" {
			loop = filepath.Base(m.source)
		}
	}
	if err := unmountBelow(path, e.bundle(id)); err != nil {
		return err
	}
	if loop == "" {
		return nil
	}
	image := filepath.Join(path, diskImage)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		b, err := os.ReadFile("/sys/block/" + loop + "/loop/backing_file")
		if err != nil || string(b) != image+"\n" {
			return nil //nolint:nilerr // no longer attached
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the disk %s is still in use by %s", image, loop)
		case <-time.After(wait):
		}
	}
}

// recover removes incomplete instances and adopts the others.
func (e *Engine) recover(ctx context.Context) error {
	err := local.Recover(e.root, func(d *local.Dir) error { return e.takeDown(ctx, d.ID(), d.Path(), nil) })
	if err != nil {
		return err
	}
	dirs, err := local.List(e.root)
	if err != nil {
		return err
	}
	local.WarnNewer(dirs, e.log)
	for _, d := range dirs {
		if err := e.adopt(ctx, d); err != nil {
			return fmt.Errorf("instance %s: %w", d.ID(), err)
		}
	}
	// Leftovers of instances without a directory are found by name.
	strays := map[string]bool{}
	for _, dir := range []string{e.runc.root, filepath.Join(e.run, "i")} {
		entries, _ := os.ReadDir(dir) // it may not exist
		for _, f := range entries {
			strays[f.Name()] = true
		}
	}
	for _, name := range e.groups.children(e.group) {
		strays[name] = true
	}
	for id := range strays {
		if e.instances[id] != nil || local.CheckID(id) != nil {
			continue
		}
		if err := e.takeDown(ctx, id, filepath.Join(e.root, id), nil); err != nil {
			return fmt.Errorf("leftovers of instance %s: %w", id, err)
		}
	}
	if err := e.net.sweep(); err != nil {
		return err
	}
	return e.prune()
}

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
		return errors.Join(e.takeDown(ctx, d.ID(), d.Path(), in), d.Remove())
	}
	var err error
	if in.watched, err = e.watch.add(in.Init); err != nil {
		return err
	}
	e.users.adopt(in.Base)
	e.net.adopt(in.Addr, d.ID(), in.access())
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
