//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/cgroup"
	"ingot/internal/base/mounts"
)

// cgroups holds the mount points of this machine's control groups: one tree (v2), or one
// for each controller (v1), with or without an empty v2 tree.
type cgroups struct {
	unified     string            // of v2; "" if it lacks the controllers
	controllers map[string]string // mount point by controller, v1
	all         []string          // every mount point
}

func findCgroups() (cgroups, error) {
	table, err := mounts.Table()
	if err != nil {
		return cgroups{}, err
	}
	c := cgroups{controllers: map[string]string{}}
	var available []string
	for _, m := range table {
		switch m.Kind {
		case "cgroup2":
			c.all = append(c.all, m.Point)
			b, err := os.ReadFile(filepath.Join(m.Point, "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(b)), "memory") {
				c.unified, available = m.Point, strings.Fields(string(b))
			}
		case "cgroup":
			c.all = append(c.all, m.Point)
			for name := range strings.SplitSeq(m.Super, ",") {
				c.controllers[name] = m.Point
			}
		}
	}
	if c.unified != "" {
		for _, name := range []string{"memory", "cpu", "pids"} {
			if !slices.Contains(available, name) {
				return c, fmt.Errorf("the %s cgroup controller is not available", name)
			}
		}
		return c, nil
	}
	for _, name := range []string{"memory", "cpu", "cpuacct", "pids", "devices"} {
		if c.controllers[name] == "" {
			return c, fmt.Errorf("the %s cgroup controller is not mounted", name)
		}
	}
	return c, nil
}

// file returns the path of an instance's file of a controller.
func (c cgroups) file(controller, group, name string) string {
	if c.unified != "" {
		return filepath.Join(c.unified, group, name)
	}
	return filepath.Join(c.controllers[controller], group, name)
}

func (c cgroups) read(controller, group, name string) (string, error) {
	b, err := os.ReadFile(c.file(controller, group, name))
	return strings.TrimSpace(string(b)), err
}

func (c cgroups) number(controller, group, name string) (int64, error) {
	text, err := c.read(controller, group, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// field reads a number from a file of lines "name number"; 0 if it is missing.
func (c cgroups) field(controller, group, name, field string) (int64, error) {
	text, err := c.read(controller, group, name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == field {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, nil
}

// oomKills returns how many processes of the group the kernel has killed because of the
// memory limit. It is the only proof: status 137 alone does not show the reason.
func (c cgroups) oomKills(group string) (int64, error) {
	if c.unified != "" {
		return c.field("memory", group, "memory.events", "oom_kill")
	}
	kills, err := c.field("memory", group, "memory.oom_control", "oom_kill")
	// Version 1 counts a kill only in the group of the process.
	for _, below := range subgroups(c.file("memory", group, "")) {
		n, err := c.field("memory", filepath.Join(group, filepath.Base(below)), "memory.oom_control", "oom_kill")
		if err == nil {
			kills += n
		}
	}
	return kills, err
}

// memory returns the memory usage of the group, without cached files that the kernel would
// drop first.
func (c cgroups) memory(group string) (int64, error) {
	usage, inactive := "memory.usage_in_bytes", "total_inactive_file"
	if c.unified != "" {
		usage, inactive = "memory.current", "inactive_file"
	}
	used, err := c.number("memory", group, usage)
	if err != nil {
		return 0, err
	}
	cached, err := c.field("memory", group, "memory.stat", inactive)
	return max(used-cached, 0), err
}

// memoryLimit returns the limit in force.
func (c cgroups) memoryLimit(group string) (int64, error) {
	if c.unified != "" {
		return c.number("memory", group, "memory.max")
	}
	return c.number("memory", group, "memory.limit_in_bytes")
}

// countsSwap reports whether limits of memory and swap together can be set.
func (c cgroups) countsSwap() bool {
	if c.unified != "" {
		return true
	}
	_, err := os.Lstat(c.file("memory", "", "memory.memsw.limit_in_bytes"))
	return err == nil
}

// checkSwap reports why the group can use swap beyond its memory limit; nil if it cannot.
func (c cgroups) checkSwap(group string, limit int64) error {
	if c.unified != "" {
		swap, err := c.read("memory", group, "memory.swap.max")
		switch {
		case errors.Is(err, fs.ErrNotExist) && !hasSwap():
			return nil // a kernel that does not count swap, and there is none
		case err != nil:
			return fmt.Errorf("swap cannot be limited: %w", err)
		case swap != "0":
			return fmt.Errorf("its swap limit is %s instead of 0", swap)
		}
		return nil
	}
	if !c.countsSwap() {
		swappiness, err := c.number("memory", group, "memory.swappiness")
		if err != nil || swappiness != 0 {
			return fmt.Errorf("swap cannot be limited: swappiness is %d (%w)", swappiness, err)
		}
		return nil
	}
	both, err := c.number("memory", group, "memory.memsw.limit_in_bytes")
	if err != nil {
		return fmt.Errorf("limit of memory and swap: %w", err)
	}
	if both != limit {
		return fmt.Errorf("its limit of memory and swap is %d instead of %d", both, limit)
	}
	return nil
}

// hasSwap reports whether the machine has swap, or does not tell.
func hasSwap() bool {
	b, err := os.ReadFile("/proc/swaps")
	return err != nil || strings.Count(strings.TrimSpace(string(b)), "\n") > 0
}

// pidsLimit returns the limit in force.
func (c cgroups) pidsLimit(group string) (int64, error) { return c.number("pids", group, "pids.max") }

// cpu returns the processor time that the group has used.
func (c cgroups) cpu(group string) (time.Duration, error) {
	if c.unified != "" {
		us, err := c.field("cpu", group, "cpu.stat", "usage_usec")
		return time.Duration(us) * time.Microsecond, err
	}
	ns, err := c.number("cpuacct", group, "cpuacct.usage")
	return time.Duration(ns), err
}

// processes returns the processes in the group and in those below.
func (c cgroups) processes(group string) ([]int, error) {
	pids, err := c.processesIn(group)
	for _, below := range subgroups(c.file("pids", group, "")) {
		more, moreErr := c.processes(filepath.Join(group, filepath.Base(below)))
		pids, err = append(pids, more...), errors.Join(err, moreErr)
	}
	return pids, err
}

func (c cgroups) processesIn(group string) ([]int, error) {
	text, err := c.read("pids", group, "cgroup.procs")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	var pids []int
	for line := range strings.Lines(text) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// empty kills the processes in the group until none is left.
func (c cgroups) empty(ctx context.Context, group string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := c.processes(group)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			// The pid could only be reused in between if all others were used up in that
			// time.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !background.Sleep(ctx, wait) {
			return fmt.Errorf("%d processes do not end: %w", len(pids), ctx.Err())
		}
	}
}

// places returns every directory that a group may have, in all trees.
func (c cgroups) places(group string) (paths []string) {
	for _, point := range c.all {
		for _, path := range cgroup.Places(group) {
			paths = append(paths, filepath.Join(point, path))
		}
	}
	return paths
}

// groupOf returns the control group of an instance.
func (e *Engine) groupOf(id string) string {
	return filepath.Join(cgroup.Place(e.groups.unified, e.group, id), id)
}

// remove deletes a group without processes, in every tree.
func (c cgroups) remove(ctx context.Context, group string) error {
	var errs []error
	for _, path := range c.places(group) {
		errs = append(errs, removeGroup(ctx, path))
	}
	return errors.Join(errs...)
}

func removeGroup(ctx context.Context, path string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := unix.Rmdir(path)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY):
			return &os.PathError{Op: "rmdir", Path: path, Err: err}
		}
		var errs []error
		for _, below := range subgroups(path) {
			errs = append(errs, removeGroup(ctx, below))
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

func subgroups(path string) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	return names
}

// children returns the names of the groups below a group, in any tree.
func (c cgroups) children(group string) []string {
	seen := map[string]bool{}
	for _, place := range c.places(group) {
		for _, path := range subgroups(place) {
			seen[filepath.Base(path)] = true
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	return names
}
