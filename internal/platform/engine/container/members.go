//go:build linux

package container

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ingot/internal/base/cgroup"
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

// memberControllers are those of the members' groups. Version 2 has no cpuacct.
var memberControllers = []string{"memory", "cpu", "cpuacct"}

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

// prepareMembers creates the groups of the members, if the instance needs any.
func prepareMembers(t *cgroup.Tree, group string, s engine.Spec) (*memberGroups, error) {
	g := &memberGroups{}
	if len(s.Launch.Members) < 2 && !s.LimitsMembers() {
		return g, nil
	}
	if alone(t) {
		return g, errNoMemberGroups
	}
	fail := func(err error) (*memberGroups, error) {
		g.close()
		return &memberGroups{}, fmt.Errorf("control groups of the members: %w", err)
	}
	if _, err := t.Create(filepath.Join(group, execGroup), memberControllers...); err != nil {
		return fail(err)
	}
	if err := t.CheckHierarchy(group); err != nil {
		return fail(err)
	}
	for i := range s.Launch.Members {
		one := &initproto.Group{Name: memberGroup + strconv.Itoa(i)}
		dirs, err := t.Create(filepath.Join(group, one.Name), memberControllers...)
		if err != nil {
			return fail(err)
		}
		for _, dir := range dirs {
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

// limitMembers sets the limits of the members' groups, after the container was created and
// before its first process is released. A member without its own limit gets that of
// the instance, because programs look for a limit in their own group only. Whatever limit was
// reached, the kernel kills a member as a whole and leaves the others.
func limitMembers(t *cgroup.Tree, group string, first int, s engine.Spec, limits engine.Limits) error {
	if t.V2 {
		if err := moveTo(t, filepath.Join(group, initGroup), first); err != nil {
			return err
		}
		if err := t.PassOn(group, "cpu", "memory"); err != nil {
			return err
		}
	}
	for i, m := range s.Launch.Members {
		l := cgroup.Limits{Memory: min(limits.Memory, cmp.Or(m.Memory, limits.Memory)), Whole: true,
			Weight: cmp.Or(m.CPUWeight, initproto.DefaultCPUWeight)}
		if err := t.Limit(filepath.Join(group, memberGroup+strconv.Itoa(i)), l); err != nil {
			return fmt.Errorf("limits of %s: %w", m.Name, err)
		}
	}
	return nil
}

// moveTo moves a process into a group, which is created.
func moveTo(t *cgroup.Tree, group string, pid int) error {
	if _, err := t.Create(group, memberControllers...); err != nil {
		return err
	}
	return t.Move(group, pid, memberControllers...)
}

// hasMemberGroups reports whether the members of an instance have their own groups. Those
// of an earlier server have none.
func (in *instance) hasMemberGroups() bool {
	members := in.dir.Meta().Launch.Members
	return len(members) > 0 && members[0].Group != nil
}

// setGroups creates the control groups of members. If no member needs one, the instance can
// also do without: its members' usage is then measured by their processes.
func (e *Engine) setGroups(s engine.Spec) (*memberGroups, error) {
	g, err := prepareMembers(e.groups, e.groupOf(s.ID), s)
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
	err := limitMembers(e.groups, e.groupOf(s.ID), in.Init.PID, s, limits)
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
			list[i].CPUTime, _ = e.groups.CPU(group)
			list[i].Memory, _ = e.groups.Memory(group)
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
