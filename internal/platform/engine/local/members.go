//go:build linux

package local

import (
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// MembersOf returns the members of an instance without their usage, in the order of its
// launch. Before ingot-init has reported anything, they are waiting.
func MembersOf(state initproto.State, launch []initproto.Member) []engine.MemberUsage {
	list := make([]engine.MemberUsage, len(launch))
	for i, m := range launch {
		list[i] = engine.MemberUsage{State: initproto.MemberState{Name: m.Name, Waiting: true}, MemoryLimit: m.Memory}
		if i < len(state.Members) {
			list[i].State = state.Members[i]
		}
	}
	return list
}

// AddProcesses adds the usage of processes to the members that they belong to, as
// initproto.Owners says; pids are those of the members on this machine. Shared memory is
// counted for each process, and what a process used that has ended is lost unless the member
// has waited for it.
func AddProcesses(list []engine.MemberUsage, table map[int]Stat, pids []int) {
	lineage := make(map[int]initproto.Lineage, len(table))
	for pid, s := range table {
		lineage[pid] = initproto.Lineage{Parent: s.Parent, Session: s.Session}
	}
	for i := range pids {
		if list[i].State.Exited || list[i].State.Waiting {
			pids[i] = 0 // another process may have its pid
		}
	}
	for pid, i := range initproto.Owners(pids, lineage) {
		list[i].CPUTime += table[pid].CPU
		list[i].Memory += table[pid].Memory
	}
}
