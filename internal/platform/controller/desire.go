package controller

import (
	"maps"
	"slices"

	"ingot/internal/platform"
)

// desire tells every place what is wanted of it. Places that are not there yet
// come in order of their index, a limited number at a time.
//
// What a deployment replaces is decided only when all is known that happened:
// before that, without settle, its places are left as they are.
func (p *pass) desire(settle bool) {
	room := maxCreating
	for _, s := range p.slots {
		if s.state == creating {
			room--
		}
	}
	lanes := p.lanes()
	for _, guid := range slices.Sorted(maps.Keys(lanes)) {
		if r := p.rolloutOf(guid); r != nil {
			if settle {
				r.roll(lanes[guid], &room)
			}
			continue
		}
		p.desireProcess(guid, lanes[guid], &room)
	}
}

// lanes are the places that there are, by process and index, for each process
// that is or was there.
func (p *pass) lanes() map[string]map[int][]place {
	all := map[string]map[int][]place{}
	for guid := range p.goal.processes {
		all[guid] = map[int][]place{}
	}
	for _, at := range p.places() {
		if all[at.process] == nil {
			all[at.process] = map[int][]place{}
		}
		all[at.process][at.index] = append(all[at.process][at.index], at)
	}
	return all
}

// desireProcess is for a process with no deployment: one place for each index.
// Of others, which a deployment left, nothing is wanted.
func (p *pass) desireProcess(guid string, lanes map[int][]place, room *int) {
	for _, index := range slices.Sorted(maps.Keys(lanes)) {
		version := p.goal.version(guid, index)
		keep := p.choose(lanes[index], version)
		for _, at := range lanes[index] {
			if at == keep {
				p.step(at, event{kind: evDesire, version: version})
			} else {
				p.step(at, event{kind: evDesire})
			}
		}
	}
	process := p.goal.processes[guid]
	for i := 0; process != nil && i < process.Instances && *room > 0; i++ {
		version := p.goal.version(guid, i)
		if len(lanes[i]) > 0 || version == "" {
			continue
		}
		p.add(guid, i, version, room)
	}
}

// add begins an instance beside those of its index.
func (p *pass) add(guid string, index int, version string, room *int) {
	p.step(freeLane(p.slots, guid, index), event{kind: evDesire, version: version})
	*room--
}

// choose is the place that goes on with a version, best one that has it
// already.
func (p *pass) choose(lanes []place, version string) place {
	best, most := lanes[0], -1
	for _, at := range lanes {
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

// going tells whether the instance was told to go.
func (s slot) going() bool {
	return s.state == stopping || s.state == clearing && s.failed == sound
}

// leaves tells whether the instance was told to go for good. One that somebody
// restarts makes room for another of its version.
func (s slot) leaves() bool { return s.going() && s.wanted != s.version }

// freeLane is a place at an index where nothing is.
func freeLane(slots map[place]slot, process string, index int) place {
	at := place{process: process, index: index}
	for {
		if _, taken := slots[at]; !taken {
			return at
		}
		at.lane++
	}
}

// asVersion makes a process what it is in a version: the present one, or that
// before the deployment which goes on.
func asVersion(tx platform.Tx, process *platform.Process, version string) error {
	if process.Version == version {
		return nil
	}
	before, err := before(tx, process)
	if err != nil {
		return err
	}
	if before.Version != version {
		return errOutdated
	}
	before.Apply(process)
	return nil
}
