package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/mounts"
)

// Tree is the control groups of this machine: one hierarchy (version 2), or one for each
// controller (version 1). Groups are named by their path below its root.
type Tree struct {
	V2 bool

	root   string            // path of the group below which all are, in the hierarchy; "" is its top
	at     map[string]string // mount point by controller
	points []string          // every mount point, also of hierarchies without controllers
	disk   func() string     // diskWeights, asked once
}

// needed are the controllers without which groups are of no use.
var needed = []string{"memory", "pids", "cpu"}

// Find finds the control groups. All groups are created below root: "" is the top of the hierarchy, and another
// one was delegated (rootless.Group); with version 2 it has no processes, and with version 1 it is in every
// hierarchy. Version 1 must have the named controllers too.
func Find(root string, old ...string) (*Tree, error) {
	table, err := mounts.Table()
	if err != nil {
		return nil, err
	}
	t := &Tree{root: root, at: map[string]string{}}
	t.disk = sync.OnceValue(t.diskWeights)
	for _, m := range table {
		switch m.Kind {
		case "cgroup2":
			t.points = append(t.points, m.Point)
			has := strings.Fields(text(filepath.Join(m.Point, root, "cgroup.controllers")))
			if t.V2 || !slices.Contains(has, "memory") {
				continue // the others are those of version 1
			}
			t.V2, t.at = true, map[string]string{}
			for _, name := range has {
				t.at[name] = m.Point
			}
		case "cgroup":
			t.points = append(t.points, m.Point)
			if !t.V2 {
				for name := range strings.SplitSeq(m.Super, ",") {
					t.at[name] = m.Point
				}
			}
		}
	}
	want := needed
	if !t.V2 {
		want = append(slices.Clip(want), old...)
	}
	for _, name := range want {
		if t.at[name] == "" || !exists(t.file(name, "", "")) {
			return nil, fmt.Errorf("%w: the controller %s is missing", ErrNone, name)
		}
	}
	return t, nil
}

// slice is systemd's slice of apps and servers of services, if it has been started:
// packaging/ingot.slice. It is neither the root, which belongs to systemd, nor the server's
// unit, which they outlive.
const slice = "ingot.slice"

// Path returns the path of a group below a parent: in the slice if there is one, and else, or
// for a group made before the slice was started, at the top. Version 1 has no slice.
func (t *Tree) Path(parent, name string) string {
	path := filepath.Join(parent, name)
	if !t.V2 || exists(t.file("memory", path, "")) || !exists(t.file("memory", slice, "")) {
		return path
	}
	return filepath.Join(slice, path)
}

// ForRuntime returns the path of a group as a container runtime expects it.
func (t *Tree) ForRuntime(group string) string { return "/" + filepath.Join(t.root, group) }

// file returns the path of a group's file of a controller.
func (t *Tree) file(controller, group, name string) string {
	return filepath.Join(t.at[controller], t.root, group, name)
}

// dirs returns the directories of a group in the hierarchies of controllers that this machine has.
func (t *Tree) dirs(group string, controllers ...string) (all []string) {
	for _, c := range controllers {
		if dir := t.file(c, group, ""); t.at[c] != "" && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// places returns every directory that a group may have.
func (t *Tree) places(group string) (all []string) {
	for _, point := range t.points {
		all = append(all, filepath.Join(point, t.root, group))
		if t.V2 {
			all = append(all, filepath.Join(point, t.root, slice, group))
		}
	}
	return all
}

// Create creates a group in the hierarchies of the controllers, and returns its directories.
func (t *Tree) Create(group string, controllers ...string) ([]string, error) {
	dirs := t.dirs(group, controllers...)
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // anyone may read a control group
			return nil, err
		}
	}
	return dirs, nil
}

// PassOn makes a group pass controllers on to those below: from then on it can have no processes.
// Version 1 always does.
func (t *Tree) PassOn(group string, controllers ...string) error {
	if !t.V2 {
		return nil
	}
	return t.write("memory", group, "cgroup.subtree_control", "+"+strings.Join(controllers, " +"))
}

// passDown is PassOn for all groups from the top down to one.
func (t *Tree) passDown(group string, controllers ...string) error {
	at := ""
	for name := range strings.SplitSeq("./"+group, "/") {
		at = filepath.Join(at, name)
		if err := t.PassOn(at, controllers...); err != nil {
			return err
		}
	}
	return nil
}

// Move moves a process into a group, in the hierarchies of the controllers.
func (t *Tree) Move(group string, pid int, controllers ...string) error {
	for _, dir := range t.dirs(group, controllers...) {
		if err := set(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// processes returns the processes in a group and in those below.
func (t *Tree) processes(group string) (pids []int, err error) {
	content, err := os.ReadFile(t.file("pids", group, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	for word := range strings.FieldsSeq(string(content)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	for _, below := range subgroups(t.file("pids", group, "")) {
		more, moreErr := t.processes(filepath.Join(group, filepath.Base(below)))
		pids, err = append(pids, more...), errors.Join(err, moreErr)
	}
	return pids, err
}

// Kill kills the processes in a group until none is left.
func (t *Tree) Kill(ctx context.Context, group string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := t.processes(group)
		if err != nil || len(pids) == 0 {
			return err
		}
		// At once, with those that are just being started: from Linux 5.14 on.
		if !t.V2 || t.write("pids", group, "cgroup.kill", "1") != nil {
			for _, pid := range pids {
				// The pid could only be reused in between if all others were used up in that
				// time.
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if !background.Sleep(ctx, wait) {
			return fmt.Errorf("%d processes do not end: %w", len(pids), ctx.Err())
		}
	}
}

// Children returns the names of the groups below a group, in any hierarchy.
func (t *Tree) Children(group string) (names []string) {
	for _, place := range t.places(group) {
		for _, path := range subgroups(place) {
			if name := filepath.Base(path); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Members returns the files of a group, in every hierarchy with a controller, to which a process is written that
// enters it.
func (t *Tree) Members(group string) []string {
	var all []string
	for _, dir := range t.dirs(group, slices.Sorted(maps.Keys(t.at))...) {
		all = append(all, filepath.Join(dir, "cgroup.procs"))
	}
	return all
}

// Remove deletes a group without processes and those below, in every hierarchy.
func (t *Tree) Remove(ctx context.Context, group string) error {
	var errs []error
	for _, path := range t.places(group) {
		errs = append(errs, remove(ctx, path))
	}
	return errors.Join(errs...)
}

func remove(ctx context.Context, path string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := syscall.Rmdir(path)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
			return nil // one that cannot be written, in a container for example, has nothing to remove
		case !errors.Is(err, syscall.EBUSY):
			return &os.PathError{Op: "rmdir", Path: path, Err: err}
		}
		var errs []error
		for _, below := range subgroups(path) {
			errs = append(errs, remove(ctx, below))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		// processes that have just ended may still be in the group
		if !background.Sleep(ctx, wait) {
			return &os.PathError{Op: "rmdir", Path: path, Err: err}
		}
	}
}

func subgroups(path string) (paths []string) {
	entries, _ := os.ReadDir(path) // it may not exist
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, filepath.Join(path, e.Name()))
		}
	}
	return paths
}

func (t *Tree) write(controller, group, name, value string) error {
	return set(t.file(controller, group, name), value)
}

// set writes to a file of a group. It never creates one: a kernel may lack it.
func set(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func text(file string) string {
	content, _ := os.ReadFile(file) // empty if it does not exist
	return strings.TrimSpace(string(content))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
