package initproto

// Lineage is where a process comes from.
type Lineage struct{ Parent, Session int }

// Owners returns the members that processes belong to: the index of the member by pid. pids
// are those of the members themselves, 0 for one that does not run. A process is a member's
// if that is its ancestor, or leads its session: ingot-init starts each member in a session
// of its own. So only a process that has lost its parent and begun another session belongs
// to none.
func Owners(pids []int, processes map[int]Lineage) map[int]int {
	members := map[int]int{}
	for i, pid := range pids {
		if pid > 0 {
			members[pid] = i
		}
	}
	owners := map[int]int{}
	for pid, l := range processes {
		i, found := 0, false
		for at, depth := pid, 0; at > 1 && depth <= len(processes) && !found; depth++ {
			i, found = members[at]
			at = processes[at].Parent
		}
		if !found {
			i, found = members[l.Session]
		}
		if found {
			owners[pid] = i
		}
	}
	return owners
}
