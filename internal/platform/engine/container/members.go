//go:build linux

package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/initproto"
)

// An instance with several members has a control group for each, below its own, so that
// their usage is exact and each can be limited:
//
//	<id>            limits of the instance
//	├── init        ingot-init, where version 2 allows no processes in <id> itself
//	├── member-0    the main process
//	├── member-1…   sidecars
//	└── ssh         processes of Exec
//
// The groups are created before the container, because ingot-init inherits the files with
// which members enter them: inside, control groups are read-only.
const (
	initGroup   = "init"
	execGroup   = "ssh"
	memberGroup = "member-"

	// firstDescriptor is that of the first file that runc passes on.
	firstDescriptor = 3
)

// memberGroups are the control groups of an instance that is being started.
type memberGroups struct {
	of    []*initproto.Group
	files []*os.File // for ingot-init, in the order of their descriptors
}

// close closes the files, which ingot-init has got by then.
func (g *memberGroups) close() {
	for _, f := range g.files {
		_ = f.Close() // nothing was written to it
	}
	g.files = nil
}

// apply sets the groups of members.
func (g *memberGroups) apply(members []initproto.Member) {
	for i := range g.of {
		members[i].Group = g.of[i]
	}
}

// trees returns the mount points of the controllers that members have groups in.
func (c cgroups) trees() []string {
	if c.unified != "" {
		return []string{c.unified}
	}
	trees := []string{c.controllers["memory"], c.controllers["cpu"], c.controllers["cpuacct"]}
	slices.Sort(trees)
	return slices.Compact(trees) // cpu and cpuacct are usually one
}

// prepareMembers creates the groups of the members, if the instance needs any.
func (c cgroups) prepareMembers(group string, s engine.Spec) (*memberGroups, error) {
	g := &memberGroups{}
	if len(s.Launch.Members) < 2 && !s.LimitsMembers() {
		return g, nil
	}
	if c.alone() {
		return g, errNoMemberGroups
	}
	fail := func(err error) (*memberGroups, error) {
		g.close()
		return &memberGroups{}, fmt.Errorf("control groups of the members: %w", err)
	}
	for _, tree := range c.trees() {
		if err := os.MkdirAll(filepath.Join(tree, group, execGroup), //nolint:gosec // as runc creates them
			0o755); err != nil {
			return fail(err)
		}
	}
	if err := c.checkHierarchy(group); err != nil {
		return fail(err)
	}
	for i := range s.Launch.Members {
		one := &initproto.Group{Name: memberGroup + strconv.Itoa(i)}
		for _, tree := range c.trees() {
			dir := filepath.Join(tree, group, one.Name)
			if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as runc creates them
				return fail(err)
			}
			f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
			if err != nil {
				return fail(err)
			}
			one.Files = append(one.Files, firstDescriptor+len(g.files))
			g.files = append(g.files, f)
		}
		g.of = append(g.of, one)
	}
	return g, nil
}

// checkHierarchy reports whether memory of the groups below a group counts for it: kernels
// before 5.11 let version 1 do without.
func (c cgroups) checkHierarchy(group string) error {
	if c.unified != "" {
		return nil
	}
	used, err := c.read("memory", group, "memory.use_hierarchy")
	if err == nil && used != "1" {
		return errors.New("memory.use_hierarchy is off: memory of a member would not count for its instance")
	}
	return nil
}

// limitMembers sets the limits of the members' groups, after the container was created and
// before its first process is released. A member without a limit of its own gets that of
// the instance, because programs look for a limit in their own group only.
func (c cgroups) limitMembers(group string, first int, s engine.Spec, limits engine.Limits) error {
	if c.unified != "" {
		// A group with controllers for those below has no processes of its own.
		if err := c.moveTo(filepath.Join(group, initGroup), first); err != nil {
			return err
		}
		if err := c.write("", group, "cgroup.subtree_control", "+cpu +memory"); err != nil {
			return err
		}
	}
	for i, m := range s.Launch.Members {
		own := filepath.Join(group, memberGroup+strconv.Itoa(i))
		limit := limits.Memory
		if m.Memory > 0 {
			limit = min(limit, m.Memory)
		}
		if err := c.limitMember(own, limit, m.Memory > 0, m.CPUWeight); err != nil {
			return fmt.Errorf("limits of %s: %w", m.Name, err)
		}
	}
	return nil
}

// limitMember sets the limits of one group and checks that they are in force.
func (c cgroups) limitMember(group string, limit int64, enforced bool, weight int) error {
	weight = cmp.Or(weight, initproto.DefaultCPUWeight)
	bytes := strconv.FormatInt(limit, 10)
	var errs []error
	if c.unified != "" {
		errs = append(errs, c.write("", group, "memory.max", bytes), c.write("", group, "cpu.weight", strconv.Itoa(weight)))
		if _, err := os.Lstat(c.file("memory", group, "memory.swap.max")); err == nil {
			errs = append(errs, c.write("", group, "memory.swap.max", "0"))
		}
		if enforced {
			errs = append(errs, c.write("", group, "memory.oom.group", "1")) // all of it or nothing
		}
	} else {
		errs = append(errs, c.write("memory", group, "memory.limit_in_bytes", bytes),
			c.write("cpu", group, "cpu.shares", strconv.Itoa(max(2, weight*defaultShares/initproto.DefaultCPUWeight))))
		if c.countsSwap() {
			errs = append(errs, c.write("memory", group, "memory.memsw.limit_in_bytes", bytes))
		} else {
			errs = append(errs, c.write("memory", group, "memory.swappiness", "0"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	found, err := c.memoryLimit(group)
	if err != nil {
		return err
	}
	if page := int64(os.Getpagesize()); found != limit/page*page {
		return fmt.Errorf("its memory limit is %d instead of %d", found, limit)
	}
	return c.checkSwap(group, found)
}

func (c cgroups) write(controller, group, name, value string) error {
	return os.WriteFile(c.file(controller, group, name), []byte(value), 0)
}

// moveTo moves a process into a group, which is created.
func (c cgroups) moveTo(group string, pid int) error {
	for _, tree := range c.trees() {
		dir := filepath.Join(tree, group)
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as runc creates them
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return nil
}

// hasMemberGroups reports whether the members of an instance have groups of their own. Those
// of an earlier server have none.
func (in *instance) hasMemberGroups() bool {
	members := in.dir.Meta().Launch.Members
	return len(members) > 0 && members[0].Group != nil
}

// setGroups creates the control groups of members. If no member needs one, the instance can
// also do without: its members' usage is then measured by their processes.
func (e *Engine) setGroups(s engine.Spec) (*memberGroups, error) {
	g, err := e.groups.prepareMembers(e.groupOf(s.ID), s)
	if err != nil && !s.LimitsMembers() {
		e.log.Warn("members of an instance share its control group", "instance", s.ID, "err", err)
		return g, nil
	}
	return g, err
}

// limitGroups sets the limits of members.
func (e *Engine) limitGroups(in *instance, g *memberGroups, s engine.Spec, limits engine.Limits) error {
	if g.of == nil {
		return nil
	}
	err := e.groups.limitMembers(e.groupOf(s.ID), in.Init.PID, s, limits)
	if err != nil && !s.LimitsMembers() {
		e.log.Warn("members of an instance share its control group", "instance", s.ID, "err", err)
		g.of = nil
		return nil
	}
	return err
}

// memberUsage returns the usage of the members: by their groups, or for an instance without
// them, by their processes.
func (e *Engine) memberUsage(_ context.Context, in *instance, all engine.Usage) []engine.MemberUsage {
	launch := in.dir.Meta().Launch.Members
	list := local.MembersOf(in.dir.State(), launch)
	switch {
	case len(list) == 1:
		list[0].CPUTime, list[0].Memory = all.CPUTime, all.Memory
	case in.hasMemberGroups():
		for i := range list {
			group := filepath.Join(e.groupOf(in.dir.ID()), launch[i].Group.Name)
			// They are gone with the instance, or after a reboot.
			list[i].CPUTime, _ = e.groups.cpu(group)
			list[i].Memory, _ = e.groups.memory(group)
		}
	case in.runs():
		table, err := local.Processes()
		if err != nil {
			return list
		}
		local.AddProcesses(list, table, outsidePIDs(table, in.Init.PID, list))
	}
	return list
}

// outsidePIDs returns the pids of members on this machine; 0 for those that do not run. Inside
// they are different.
func outsidePIDs(table map[int]local.Stat, first int, members []engine.MemberUsage) []int {
	pids := make([]int, len(members))
	for pid, s := range table {
		if s.Parent != first {
			continue
		}
		inside := innermostPID(pid)
		for i, m := range members {
			if inside > 0 && m.State.PID == inside {
				pids[i] = pid
			}
		}
	}
	return pids
}

// innermostPID returns the pid of a process in its own pid namespace; 0 if it has ended.
func innermostPID(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(list)
			n, _ := strconv.Atoi(all[len(all)-1])
			return n
		}
	}
	return 0
}
