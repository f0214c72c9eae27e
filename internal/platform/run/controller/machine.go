package controller

import (
	"cmp"
	"fmt"
	"time"

	"ingot/internal/platform"
)

// The state machine of an instance slot: a process and an index, with one instance
// at a time. step is the whole machine: events in, actions out, no clock and no
// I/O, so that every path can be tested.
//
//	           wanted                  created                healthy
//	absent ─────────────▶ creating ──────────────▶ starting ──────────▶ running
//	  ▲                    │   │                       │  │              │   │
//	  │      cannot be     │   │ not wanted,           │  │ not wanted,  │   │
//	  │      started       │   │ replaced, restart     │  │ replaced,    │   │
//	  │                    │   │ (the start is         │  │ restart      │   │
//	  │                    │   │ cancelled)            ▼  │ (signal)     │   │
//	  │                    │   └──────────────▶ stopping ◀┼──────────────┘   │
//	  │                    │                       │      │                  │
//	  │                    │                 ended,│      │ ended: a crash   │
//	  │                    │             grace over│      └────────┬─────────┘
//	  │                    │                       ▼               ▼
//	  │ not wanted         │                    clearing (being removed)
//	  ├──────────────────────────────────────────── │ removed
//	  │                    ▼                        │
//	  ├─────────────── waiting ◀────── crashed ─────┤
//	  │                    │ due, restart           │ wanted anew
//	  │                    └────────▶ creating ◀────┘
//	  │                               ▲
//	  └─────────────── givenUp ───────┘ restart, new version
//	                      ▲
//	                      └── instead of waiting, after maxCrashes
//
// An instance that the engine refuses waits too, and is retried without being
// counted as a crash: it is shown as DOWN until there is room.
//
// Every start has a new guid: its records begin at one, and its crash is its own.
// The crash count carries over from one to the next.
type state int

const (
	absent   state = iota // no instance and no row
	creating              // it has a row, and the engine is starting it
	starting              // it runs but is not healthy yet
	running               // it is healthy
	stopping              // it is being stopped
	clearing              // it ended and is being removed
	waiting               // it crashed or could not be started, and will be retried
	givenUp               // it crashed too often
)

var stateNames = [...]string{"absent", "creating", "starting", "running", "stopping", "clearing", "waiting", "given up"}

func (s state) String() string { return stateNames[s] }

type eventKind int

const (
	evDesire    eventKind = iota // version is wanted, "" for none
	evCreated                    // the engine runs it
	evFailed                     // the engine could not start it; text says why
	evRefused                    // the engine has no room for it, or is paused; text says why
	evChecking                   // all its members run
	evHealthy                    //
	evReady                      //
	evNotReady                   //
	evFailing                    // a member exited or the check failed: the end will follow
	evEnded                      // it ended, and all its records were read
	evLost                       // the engine does not have the instance
	evRemoved                    // the engine has removed it
	evStuck                      // the engine could not remove it; text says why
	evDue                        // a deadline passed
	evRestart                    // a user asked for a restart
	evDisplaced                  // its machine is being vacated or was lost; text says why
	evSidecar                    // a sidecar failed that the instance can do without; text names it
	evWaiting                    // it is not healthy yet; text says why
)

var eventNames = [...]string{
	"desire", "created", "failed", "refused", "checking", "healthy", "ready", "not ready",
	"failing", "ended", "lost", "removed", "stuck", "due", "restart", "displaced", "sidecar", "waiting",
}

func (k eventKind) String() string { return eventNames[k] }

type event struct {
	kind           eventKind
	version        string // evDesire
	finishRequests bool   // evDesire: when stopping, wait for requests to finish first
	text           string // the reason
	sidecar        string // evFailing: the source of the sidecar that the kernel has killed, if any
	status         int    // evEnded, evSidecar: the exit status; 0 also if unknown
	reason         string // evSidecar: why, if more is known than the status
	moved          string // evEnded: its machine is being vacated or was lost, for this reason
	ready          bool   // evHealthy: it is ready, too
	final          bool   // evFailing: another start would fail in the same way
	seq            uint64 // of the record with the event, if any
	// Of evCreated:
	host, internal string
	ports          []platform.InstancePort
}

type actionKind int

const (
	doCreate   actionKind = iota // start the instance; evCreated or evFailed follows
	doCancel                     // cancel the start in progress
	doFollow                     // read its records
	doSignal                     // ask it to stop
	doRemove                     // evRemoved or evStuck follows
	doLine                       // write text to the app's log
	doCrash                      // record the crash: log lines and audit events
	doReady                      // record that it became ready
	doNotReady                   // record that it is no longer ready
	doMove                       // record that it is replaced because of its machine
	doSidecar                    // record that a sidecar failed
	doWaiting                    // write to the app's log why it is not healthy yet
)

var actionNames = [...]string{"create", "cancel", "follow", "signal", "remove", "line", "crash", "ready", "not ready",
	"move", "sidecar", "waiting"}

func (k actionKind) String() string { return actionNames[k] }

type action struct {
	kind           actionKind
	id, version    string // of the instance: the slot may already have another
	text           string
	crash          crash
	finishRequests bool // doSignal: wait for its requests to finish first
}

// crash describes one crash: its exit status, reason and count.
type crash struct {
	id, version, description string
	status, count            int
	at                       time.Time
	readyAt                  time.Time // when the instance had become ready; zero if it never was
	proven                   bool
}

// failure is why there is no instance although one is wanted.
type failure int

const (
	sound      failure = iota
	crashed            // it ended
	notStarted         // it could not be started
	refused            // the engine did not try: there is no room, or it is paused
)

var failureNames = [...]string{"sound", "crashed", "notStarted", "refused"}

func (f failure) String() string { return failureNames[f] }

// slot is the state of an instance slot.
type slot struct {
	state   state
	id      string // of the instance
	version string // of the instance
	wanted  string // version, "" for none

	ready   bool
	readyAt time.Time // when it last became ready
	proven  bool      // it was ready for the minimum healthy time of its deployment
	held    bool      // it gets no requests until it is proven
	failing bool      // it is about to end: no more requests
	// hopeless means that it is about to end for a reason that the next start has, too.
	hopeless bool
	failed   failure
	details  string // for the user

	since     time.Time // start of the visible state
	crashes   int
	crashedAt time.Time
	restartAt time.Time // in clearing and waiting after a failure
	deadline  time.Time // in stopping and clearing: when to act again

	seen           uint64 // the last record that had an effect
	host, internal string
	ports          []platform.InstancePort
}

const (
	immediateRestarts = 3
	firstPause        = 30 * time.Second
	longestPause      = 16 * time.Minute
	maxCrashes        = 200
	soundAfter        = 5 * time.Minute  // running that long resets the crash count
	stopSlack         = 5 * time.Second  // in addition to the instance's grace
	removePause       = 5 * time.Second  // before the next attempt to remove
	placePause        = 10 * time.Second // before the next attempt to place
)

// pause returns the pause after the n-th crash in a row.
func pause(n int) time.Duration {
	if n <= immediateRestarts {
		return 0
	}
	d := firstPause
	for range n - immediateRestarts - 1 {
		if d *= 2; d >= longestPause {
			return longestPause
		}
	}
	return d
}

// visible returns the state that users see. Clients give up on a CRASHED instance, so one
// that is restarted at once is STARTING; one that could not be placed is DOWN.
func (s slot) visible() platform.InstanceState {
	switch s.state {
	case creating, starting:
		if s.failed == refused {
			return platform.InstanceDown
		}
		return platform.InstanceStarting
	case running:
		return platform.InstanceRunning
	case givenUp:
		return platform.InstanceCrashed
	case clearing, waiting:
		switch {
		case s.failed == sound:
			return platform.InstanceStopping
		case s.failed == refused:
			return platform.InstanceDown
		case s.crashes > immediateRestarts:
			return platform.InstanceCrashed
		case s.failed == notStarted:
			return platform.InstanceDown
		}
		return platform.InstanceStarting
	default:
		return platform.InstanceStopping
	}
}

// routable reports whether requests may go to the instance.
func (s slot) routable() bool { return s.accepts() && !s.held }

// accepts reports whether the instance is able to handle requests.
func (s slot) accepts() bool { return s.state == running && s.ready && !s.failing }

// due returns when the slot needs evDue; zero means never.
func (s slot) due() time.Time {
	switch s.state {
	case stopping, clearing:
		return s.deadline
	case waiting:
		return s.restartAt
	}
	return time.Time{}
}

// rules are the parameters of the machine.
type rules struct {
	now   time.Time
	grace time.Duration // between SIGTERM and SIGKILL
	cell  string
	newID func() string
}

// step returns the slot after an event, and the actions to perform, in order. An event
// without a meaning in the current state changes nothing.
func (r rules) step(s slot, e event) (slot, []action) {
	before := s.visible()
	id := s.id
	s.seen = max(s.seen, e.seq)
	var do []action
	switch e.kind {
	case evDesire:
		s.wanted = e.version
		do = r.desire(&s, e.finishRequests)
	case evCreated:
		do = r.created(&s, e)
	case evFailed:
		do = r.failed(&s, e)
	case evRefused:
		do = r.refused(&s, e)
	case evChecking:
		if s.state == starting {
			do = append(do, r.line(s, "Starting health monitoring of container"))
		}
	case evHealthy:
		if s.state == starting {
			s.state, s.details = running, ""
			do = append(do, r.line(s, "Container became healthy"))
			if e.ready && !s.failing {
				// In one step: clients that wait for a running instance send requests then.
				s.ready, s.readyAt = true, r.now
				do = append(do, action{kind: doReady, id: s.id, version: s.version})
			}
		}
	case evReady:
		if s.state == running && !s.ready && !s.failing {
			s.ready, s.readyAt = true, r.now
			do = append(do, action{kind: doReady, id: s.id, version: s.version})
		}
	case evNotReady:
		if s.state == running && s.ready {
			s.ready = false
			do = append(do, action{kind: doNotReady, id: s.id, version: s.version, text: e.text})
		}
	case evSidecar:
		if s.state == starting || s.state == running {
			do = append(do, sidecarEnded(s, e.text, e.status, e.reason))
		}
	case evFailing:
		if s.state == starting || s.state == running {
			if e.sidecar != "" {
				do = append(do, sidecarEnded(s, e.sidecar, e.status, e.text))
			}
			s.failing, s.ready, s.hopeless = true, false, s.hopeless || e.final
		}
	case evWaiting:
		if s.state == starting {
			s.details = e.text
			do = append(do, action{kind: doWaiting, id: s.id, version: s.version, text: e.text})
		}
	case evEnded:
		do = r.ended(&s, e)
	case evLost:
		do = r.lost(&s)
	case evRemoved:
		if s.state == clearing {
			do = append(do, r.line(s, "Cell %s successfully destroyed container for instance %s", r.cell, s.id))
			do = append(do, r.cleared(&s)...)
		}
	case evStuck:
		if s.state == clearing {
			s.deadline = r.now.Add(removePause)
		}
	case evDue:
		do = r.passed(&s)
	case evRestart:
		do = r.restart(&s)
	case evDisplaced:
		do = r.displaced(&s, e)
	}
	if s.visible() != before || s.id != id {
		s.since = r.now
	}
	return s, do
}

func sidecarEnded(s slot, name string, status int, description string) action {
	return action{kind: doSidecar, id: s.id, text: name,
		crash: crash{status: status, version: s.version, description: description}}
}

func (r rules) line(s slot, format string, args ...any) action {
	return action{kind: doLine, id: s.id, text: fmt.Sprintf(format, args...)}
}

// desire starts or stops the instance as wanted.
func (r rules) desire(s *slot, finishRequests bool) []action {
	switch s.state {
	case absent:
		if s.wanted != "" {
			return r.create(s)
		}
	case creating, starting, running:
		if s.wanted != s.version {
			return r.stop(s, finishRequests)
		}
	case waiting, givenUp:
		if s.wanted != s.version {
			return r.cleared(s)
		}
	}
	return nil
}

// create starts a new instance. It keeps the crash count of the previous one, and its
// failure until the new one is healthy.
func (r rules) create(s *slot) []action {
	next := slot{state: creating, id: r.newID(), version: s.wanted, wanted: s.wanted}
	if s.failed != sound && s.version == s.wanted {
		next.crashes, next.crashedAt, next.details = s.crashes, s.crashedAt, s.details
		if s.failed == refused {
			// It is the same attempt, which was logged.
			next.failed = refused
			*s = next
			return []action{{kind: doCreate, id: s.id, version: s.version}}
		}
	}
	*s = next
	return []action{
		r.line(*s, "Cell %s creating container for instance %s", r.cell, s.id),
		{kind: doCreate, id: s.id, version: s.version},
	}
}

func (r rules) created(s *slot, e event) []action {
	switch s.state {
	case creating:
		if s.failed == refused {
			s.details = ""
		}
		s.state, s.failed = starting, sound
		s.host, s.internal, s.ports = e.host, e.internal, e.ports
		return []action{
			r.line(*s, "Cell %s successfully created container for instance %s", r.cell, s.id),
			{kind: doFollow, id: s.id},
		}
	case stopping: // too late to cancel the start
		return r.clear(s)
	}
	return nil
}

func (r rules) failed(s *slot, e event) []action {
	switch s.state {
	case creating:
		r.count(s, notStarted, e.text)
		s.state = waiting
		do := []action{r.line(*s, "Cell %s failed to create container for instance %s: %s", r.cell, s.id, e.text)}
		return append(do, r.settle(s)...)
	case stopping:
		return r.cleared(s)
	}
	return nil
}

// refused waits for room. It does not count as a crash: nothing is wrong with the app,
// however long it takes. The same refusal is logged once.
func (r rules) refused(s *slot, e event) []action {
	switch s.state {
	case creating:
		told := s.failed == refused && s.details == e.text
		s.state, s.failed, s.details = waiting, refused, e.text
		s.restartAt = r.now.Add(placePause)
		if told {
			return nil
		}
		return []action{r.line(*s, "Cell %s cannot place instance %s: %s", r.cell, s.id, e.text)}
	case stopping:
		return r.cleared(s)
	}
	return nil
}

// count records a failure and the time of the next attempt.
func (r rules) count(s *slot, f failure, details string) {
	if s.state == running && r.now.Sub(s.since) >= soundAfter {
		s.crashes = 0
	}
	s.crashes++
	if s.hopeless {
		s.crashes = max(s.crashes, immediateRestarts+1) // users need not wait to see it
	}
	s.failed, s.details, s.crashedAt = f, details, r.now
	s.restartAt = r.now.Add(pause(s.crashes))
	s.ready, s.failing, s.hopeless = false, false, false
}

// settle chooses the next state after a failure, once the instance is removed.
func (r rules) settle(s *slot) []action {
	switch {
	case s.wanted != s.version:
		return r.cleared(s)
	case s.crashes >= maxCrashes:
		s.state, s.restartAt = givenUp, time.Time{}
		return []action{r.line(*s, "Cell %s does not start the instance again: it failed %d times in a row. Restart the "+
			"app to try again", r.cell, s.crashes)}
	case !r.now.Before(s.restartAt):
		return r.create(s)
	}
	s.state = waiting
	return nil
}

func (r rules) ended(s *slot, e event) []action {
	switch s.state {
	case starting, running:
		if e.moved != "" {
			s.wanted, s.ready, s.failing, s.failed, s.details = "", false, false, sound, ""
			return append(r.moving(*s, e.moved), r.clear(s)...)
		}
		text := cmp.Or(e.text, "Instance ended without a reason")
		r.count(s, crashed, text)
		return append([]action{crashOf(*s, e.status)}, r.clear(s)...)
	case stopping:
		return r.clear(s)
	}
	return nil
}

// crashOf records the crash of an instance that was just counted.
func crashOf(s slot, status int) action {
	return action{kind: doCrash, id: s.id, crash: crash{
		id: s.id, version: s.version, description: s.details, status: status, count: s.crashes, at: s.crashedAt,
		readyAt: s.readyAt, proven: s.proven,
	}}
}

// clear removes an instance that ended.
func (r rules) clear(s *slot) []action {
	s.state, s.deadline = clearing, time.Time{}
	return []action{
		r.line(*s, "Cell %s destroying container for instance %s", r.cell, s.id),
		{kind: doRemove, id: s.id},
	}
}

// cleared chooses the next state once the instance is removed.
func (r rules) cleared(s *slot) []action {
	switch {
	case s.wanted == "":
		*s = slot{}
		return nil
	case s.failed != sound && s.wanted == s.version && s.state == clearing:
		return r.settle(s)
	}
	return r.create(s)
}

// lost handles an instance that has a row but is unknown to the engine.
func (r rules) lost(s *slot) []action {
	switch s.state {
	case creating: // the server died before starting it, or it is outdated
		if s.wanted == "" {
			*s = slot{}
			return nil
		}
		if s.crashes > 0 {
			s.failed = crashed // the crash count continues
		}
		return r.create(s)
	case starting, running:
		r.count(s, crashed, "Instance disappeared")
		do := []action{crashOf(*s, 0)}
		s.state = waiting
		return append(do, r.settle(s)...)
	case stopping, clearing:
		return r.cleared(s)
	}
	return nil
}

// stop starts stopping the instance.
func (r rules) stop(s *slot, finishRequests bool) []action {
	wasCreating := s.state == creating
	s.state, s.ready, s.failing, s.failed = stopping, false, false, sound
	s.details = ""
	do := []action{r.line(*s, "Cell %s stopping instance %s", r.cell, s.id)}
	if wasCreating {
		s.deadline = time.Time{} // the start finishes, one way or the other
		return append(do, action{kind: doCancel, id: s.id})
	}
	s.deadline = r.now.Add(r.grace + stopSlack)
	if finishRequests {
		s.deadline = s.deadline.Add(drainLimit)
	}
	return append(do, action{kind: doSignal, id: s.id, finishRequests: finishRequests})
}

// passed acts on deadlines that have passed.
func (r rules) passed(s *slot) []action {
	due := s.due()
	if due.IsZero() || r.now.Before(due) {
		return nil
	}
	switch s.state {
	case stopping:
		return r.clear(s)
	case clearing:
		s.deadline = time.Time{}
		return []action{{kind: doRemove, id: s.id}}
	case waiting:
		if s.wanted == s.version {
			return r.create(s)
		}
	}
	return nil
}

// restart replaces the instance in any state, and resets the crash count.
func (r rules) restart(s *slot) []action {
	if s.wanted == "" {
		return nil
	}
	switch s.state {
	case creating, starting, running:
		return r.stop(s, false)
	case clearing:
		s.failed, s.details = sound, ""
	case waiting, givenUp:
		s.failed, s.details = sound, ""
		return r.create(s)
	}
	return nil
}
