package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A member that listens on another port than the one that is checked will hardly become
// healthy: most often it ignores PORT. elsewhere says so after a few seconds, and decides
// when it is certain: the same wrong sockets for a while, during which the member used
// hardly any processor time. One that is busy may still be starting, such as a Java app with
// its debug port open.

const (
	lookPause    = time.Second      // between looks at the sockets
	sayAfter     = 3 * time.Second  // when the user is told
	certainAfter = 10 * time.Second // when the member is given up
	idleShare    = 0.1              // of one processor
)

// elsewhere observes a member whose port is closed.
type elsewhere struct {
	looked  time.Time
	sockets []socket // on which the member listens
	since   time.Time
	begin   time.Time // of the time in which it has to be idle
	cpu     time.Duration
	told    bool
}

// look returns why the member is not healthy if that is worth a message now, and whether it
// never will be.
func (e *elsewhere) look(now time.Time, of subject, err error, wanted []int) (reason string, certain bool) {
	var closed *closedPort
	if !errors.As(err, &closed) || of.listening == nil || now.Sub(e.looked) < lookPause {
		return "", false
	}
	if e.looked.IsZero() { // most members are healthy before the next look
		e.looked = now
		return "", false
	}
	e.looked = now
	all, own := of.listening()
	reason = of.explainedBy(err, wanted, all)
	slices.SortFunc(all, compareSockets)
	if reason == err.Error() || !slices.EqualFunc(all, e.sockets,
		func(a, b socket) bool { return compareSockets(a, b) == 0 }) {
		e.sockets, e.since, e.begin, e.cpu, e.told = all, now, now, of.used(), false
		return "", false
	}
	if cpu := of.used(); now.Sub(e.begin) >= certainAfter {
		busy := float64(cpu-e.cpu) > idleShare*float64(now.Sub(e.begin))
		if !busy && own && !of.patient {
			return fmt.Sprintf("%s; that has not changed for %s", reason, now.Sub(e.begin).Round(time.Second)), true
		}
		e.begin, e.cpu = now, cpu
	}
	if e.told || now.Sub(e.since) < sayAfter {
		return "", false
	}
	e.told = true
	return reason, false
}
