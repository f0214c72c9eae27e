//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"ingot/internal/base/background"
)

// able determines what this machine supports, and describes it. A limit that cannot be set
// is an error: instances never run without it.
func (e *Engine) able(ctx context.Context) error {
	program, err := findRunc(e.options.Runc)
	if err != nil {
		return err
	}
	e.runc.program.Store(&program)
	version, problem, err := e.runc.version(ctx)
	if err != nil {
		return err
	}
	found, err := e.prepare(ctx)
	if err != nil {
		return err
	}
	detail := "Linux containers through " + version
	if problem != "" {
		e.log.Warn("problem with the version of runc", "problem", problem)
		detail += "; " + problem
	}
	if e.userSpace != nil {
		detail += e.describeRootless()
	}
	e.disks, e.sharing = found.disks, e.userSpace == nil && found.layers == nil
	if e.userSpace == nil && found.layers != nil {
		e.log.Warn("layers cannot be shared: unpacking files for each instance", "err", found.layers)
		detail += "; unpacked files are not shared"
	}
	if e.options.Egress {
		detail += "; instances may connect to the outside"
	} else {
		detail += "; instances cannot connect to the outside"
	}
	if e.groups.V2 {
		detail += "; control groups of version 2"
	} else {
		detail += "; control groups of version 1"
	}
	if !e.groups.DiskWeights() {
		detail += ", without weights of disks"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.about.Detail = detail
	return nil
}

// prepared is what prepare has found.
type prepared struct {
	disks  *disks // nil without root
	layers error  // why layers cannot be shared
}

// prepare creates the root file system that containers share, and tries disks and layers: all at the same time,
// because a first start waits for it.
func (e *Engine) prepare(ctx context.Context) (found prepared, err error) {
	var wg background.WaitGroup
	var root, disks error
	wg.Try("root file system of containers", &root, e.makeRoot)
	if e.userSpace == nil {
		wg.Try("disks of containers", &disks, func() (err error) {
			found.disks, err = e.ableDisks(ctx)
			return err
		})
	}
	wg.Try("layers of containers", &found.layers, e.tryLayer)
	wg.Wait()
	if root != nil {
		return found, fmt.Errorf("root file system: %w", root)
	}
	if disks != nil {
		return found, fmt.Errorf("the disks of instances cannot be limited: %w", disks)
	}
	return found, nil
}

// ableDisks prepares the disks of instances.
func (e *Engine) ableDisks(ctx context.Context) (*disks, error) {
	disks, err := newDisks(filepath.Join(e.run, "disks"))
	if err != nil {
		return nil, err
	}
	return disks, e.tryDisk(ctx, disks)
}

// tryDisk checks whether disks can be created.
func (e *Engine) tryDisk(ctx context.Context, disks *disks) error {
	dir, err := os.MkdirTemp(e.run, "try")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	point := filepath.Join(dir, "disk")
	if err := os.Mkdir(point, 0o700); err != nil {
		return err
	}
	if err := disks.attach(ctx, filepath.Join(dir, "disk.img"), point, smallestDisk); err != nil {
		return err
	}
	return unmount(point)
}

// tryLayer checks whether layers can be mounted with mapped owners: that needs Linux 5.19,
// and a file system below Root that supports it.
func (e *Engine) tryLayer() (err error) {
	dir, err := os.MkdirTemp(e.run, "try")
	if err != nil {
		return err
	}
	lower, err := os.MkdirTemp(e.layers.root, ".try")
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, unmountBelow(dir), os.RemoveAll(dir), os.RemoveAll(lower)) }()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"home", "upper", "work", "scratch"} {
		if err := os.Mkdir(path(name), 0o700); err != nil {
			return err
		}
	}
	file := filepath.Join(lower, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Lchown(file, vcapID, vcapID)); err != nil {
		return err
	}
	base, err := e.users.take()
	if err != nil {
		return err
	}
	defer e.users.release(base)
	users, err := e.users.namespace(base)
	if err != nil {
		return err
	}
	if err := overlay(path("home"), []layer{{path: lower}}, path("upper"), path("work"), path("scratch"),
		users); err != nil {
		return err
	}
	info, err := os.Lstat(path("home/file"))
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != base+vcapID {
		return errors.New("owners are not mapped")
	}
	return nil
}
