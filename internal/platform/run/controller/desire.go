package controller

import (
	"maps"
	"slices"

	"ingot/internal/platform"
)

// desire tells every slot which version is wanted. New slots are added in order of their
// index, a limited number at a time.
func (p *pass) desire() {
	room := maxCreating
	for _, s := range p.slots {
		if s.state == creating {
			room--
		}
	}
	slots := p.byIndex()
	for _, guid := range slices.Sorted(maps.Keys(slots)) {
		p.desireProcess(guid, slots[guid], &room)
	}
}

// finishesRequests reports whether instances of a process that stop should finish their requests
// first: those that a deployment replaces.
func (p *pass) finishesRequests(guid string) bool {
	return !p.goal.idle && p.goal.app != nil && p.typeOf(slotKey{process: guid}) == platform.WebProcess &&
		(p.goal.deployment != nil || p.goal.processes[guid] == nil)
}

// byIndex returns the existing slots by process and index, with an entry for each current
// or former process.
func (p *pass) byIndex() map[string]map[int][]slotKey {
	all := map[string]map[int][]slotKey{}
	for guid := range p.goal.processes {
		all[guid] = map[int][]slotKey{}
	}
	for _, at := range p.slotKeys() {
		if all[at.process] == nil {
			all[at.process] = map[int][]slotKey{}
		}
		all[at.process][at.index] = append(all[at.process][at.index], at)
	}
	return all
}

// desireProcess wants one slot per index of a process. Others, left by a move to another
// machine, should stop.
func (p *pass) desireProcess(guid string, slots map[int][]slotKey, room *int) {
	for _, index := range slices.Sorted(maps.Keys(slots)) {
		version := p.goal.version(guid, index)
		keep := p.choose(slots[index], version)
		for _, at := range slots[index] {
			if at == keep {
				p.step(at, event{kind: evDesire, version: version, finishRequests: p.finishesRequests(guid)})
			} else {
				p.step(at, event{kind: evDesire, finishRequests: p.finishesRequests(guid)})
			}
		}
	}
	process := p.goal.processes[guid]
	for i := 0; process != nil && i < process.Instances && *room > 0; i++ {
		version := p.goal.version(guid, i)
		if len(slots[i]) > 0 || version == "" {
			continue
		}
		p.add(guid, i, version, room)
	}
}

// add starts another instance at an index.
func (p *pass) add(guid string, index int, version string, room *int) {
	p.step(freeSlot(p.slots, guid, index), event{kind: evDesire, version: version})
	*room--
}

// choose returns the slot that should run the version, preferably one that already does.
func (p *pass) choose(slots []slotKey, version string) slotKey {
	best, most := slots[0], -1
	for _, at := range slots {
		s, worth := p.slots[at], 0
		if !s.going() {
			worth += 2
		}
		if s.version == version {
			worth++
		}
		if worth > most {
			best, most = at, worth
		}
	}
	return best
}

// going reports whether the instance is being stopped.
func (s slot) going() bool {
	return s.state == stopping || s.state == clearing && s.failed == sound
}

// leaves reports whether the instance is being stopped for good. One that is restarted is
// followed by another of its version.
func (s slot) leaves() bool { return s.going() && s.wanted != s.version }

// freeSlot returns the key of an unused slot at an index.
func freeSlot(slots map[slotKey]slot, process string, index int) slotKey {
	at := slotKey{process: process, index: index}
	for {
		if _, taken := slots[at]; !taken {
			return at
		}
		at.copy++
	}
}
