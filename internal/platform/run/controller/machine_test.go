package controller

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// script drives one slot through events and keeps what it did.
type script struct {
	*testing.T
	rules
	slot
	ids int
	did []string
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{T: t, rules: rules{now: noon, grace: 10 * time.Second, cell: "C"}}
	s.newID = func() string { s.ids++; return fmt.Sprint("i", s.ids) }
	return s
}

// feed applies an event and returns the actions, lines left out.
func (s *script) feed(e event) string {
	s.Helper()
	next, do := s.step(s.slot, e)
	s.slot = next
	var done []string
	for _, d := range do {
		if d.kind != doLine {
			done = append(done, d.kind.String()+" "+d.id)
		}
	}
	s.did = append(s.did, done...)
	return strings.Join(done, ", ")
}

func (s *script) kinds(kinds ...eventKind) *script {
	s.Helper()
	for _, k := range kinds {
		s.feed(event{kind: k})
	}
	return s
}

func (s *script) want(version string) *script {
	s.Helper()
	s.feed(event{kind: evDesire, version: version})
	return s
}

func (s *script) is(state state, visible platform.InstanceState) {
	s.Helper()
	if s.slot.state != state || state != absent && s.visible() != visible {
		s.Errorf("it is %v and shown as %s, want %v and %s", s.slot.state, s.visible(), state, visible)
	}
}

// scenes bring a slot into each state.
var scenes = map[state]func(*script){
	absent:   func(*script) {},
	creating: func(s *script) { s.want("v1") },
	starting: func(s *script) { s.want("v1").kinds(evCreated) },
	running:  func(s *script) { s.want("v1").kinds(evCreated, evHealthy, evReady) },
	stopping: func(s *script) { s.want("v1").kinds(evCreated, evHealthy, evReady).want("") },
	clearing: func(s *script) { s.want("v1").kinds(evCreated, evHealthy, evReady, evEnded) },
	waiting: func(s *script) {
		s.want("v1")
		for range 4 {
			s.kinds(evFailed)
		}
	},
	givenUp: func(s *script) {
		s.want("v1")
		s.crashes = maxCrashes - 1
		s.kinds(evFailed)
	},
}

// TestTransitions says for each state what each event does to it.
func TestTransitions(t *testing.T) {
	t.Parallel()
	type outcome struct {
		state   state
		visible platform.InstanceState
		did     string
	}
	const (
		up, on, off = platform.InstanceStarting, platform.InstanceRunning, platform.InstanceStopping
	)
	same := event{kind: evDesire, version: "v1"}
	other := event{kind: evDesire, version: "v2"}
	none := event{kind: evDesire}
	of := func(k eventKind) event { return event{kind: k} }
	told := map[string]bool{}
	name := func(from state, e event) string { return fmt.Sprint(from, e.kind, e.version) }
	for _, row := range []struct {
		from state
		e    event
		outcome
	}{
		{absent, same, outcome{creating, up, "create i1"}},
		{creating, none, outcome{stopping, off, "cancel i1"}},
		{creating, other, outcome{stopping, off, "cancel i1"}},
		{creating, of(evRestart), outcome{stopping, off, "cancel i1"}},
		{creating, of(evCreated), outcome{starting, up, "follow i1"}},
		{creating, of(evFailed), outcome{creating, up, "create i2"}},
		{creating, of(evRefused), outcome{waiting, platform.InstanceDown, ""}},
		{creating, of(evLost), outcome{creating, up, "create i2"}},
		{starting, none, outcome{stopping, off, "signal i1"}},
		{starting, other, outcome{stopping, off, "signal i1"}},
		{starting, of(evRestart), outcome{stopping, off, "signal i1"}},
		{starting, of(evDisplaced), outcome{stopping, off, "move i1, signal i1"}},
		{starting, of(evHealthy), outcome{running, on, ""}},
		{starting, of(evEnded), outcome{clearing, up, "crash i1, remove i1"}},
		{starting, of(evLost), outcome{creating, up, "crash i1, create i2"}},
		{running, none, outcome{stopping, off, "signal i1"}},
		{running, other, outcome{stopping, off, "signal i1"}},
		{running, of(evRestart), outcome{stopping, off, "signal i1"}},
		{running, of(evDisplaced), outcome{stopping, off, "move i1, signal i1"}},
		{running, event{kind: evEnded, moved: "drained"}, outcome{clearing, off, "move i1, remove i1"}},
		{running, of(evNotReady), outcome{running, on, "not ready i1"}},
		{running, of(evSidecar), outcome{running, on, "sidecar i1"}},
		{starting, of(evSidecar), outcome{starting, up, "sidecar i1"}},
		{starting, of(evWaiting), outcome{starting, up, "waiting i1"}},
		{running, event{kind: evFailing, sidecar: "APP/PROC/WEB/SIDECAR/PROXY"}, outcome{running, on, "sidecar i1"}},
		{running, of(evEnded), outcome{clearing, up, "crash i1, remove i1"}},
		{running, of(evLost), outcome{creating, up, "crash i1, create i2"}},
		{stopping, of(evCreated), outcome{clearing, off, "remove i1"}},
		{stopping, of(evFailed), outcome{absent, "", ""}},
		{stopping, of(evRefused), outcome{absent, "", ""}},
		{stopping, of(evEnded), outcome{clearing, off, "remove i1"}},
		{stopping, of(evLost), outcome{absent, "", ""}},
		{clearing, of(evRemoved), outcome{creating, up, "create i2"}},
		{clearing, of(evLost), outcome{creating, up, "create i2"}},
		{clearing, of(evDisplaced), outcome{clearing, off, "move i1"}},
		{clearing, of(evRestart), outcome{clearing, off, ""}},
		{waiting, none, outcome{absent, "", ""}},
		{waiting, other, outcome{creating, up, "create i5"}},
		{waiting, of(evRestart), outcome{creating, up, "create i5"}},
		{givenUp, none, outcome{absent, "", ""}},
		{givenUp, other, outcome{creating, up, "create i2"}},
		{givenUp, of(evRestart), outcome{creating, up, "create i2"}},
	} {
		s := newScript(t)
		scenes[row.from](s)
		if s.slot.state != row.from {
			t.Fatalf("the scene of %v is %v", row.from, s.slot.state)
		}
		did := s.feed(row.e)
		if got := (outcome{s.slot.state, s.visible(), did}); got.state != row.state || got.did != row.did ||
			row.state != absent && got.visible != row.visible {
			t.Errorf("%v in %v: %v, want %v", row.e.kind, row.from, got, row.outcome)
		}
		told[name(row.from, row.e)] = true
	}
	// Everything else changes nothing.
	for from, scene := range scenes {
		for k := range eventNames {
			e := of(eventKind(k))
			if e.kind == evDesire {
				e = same
			}
			if told[name(from, e)] {
				continue
			}
			s := newScript(t)
			scene(s)
			before := s.slot
			did := s.feed(e)
			if from == running && e.kind == evFailing || from == clearing && e.kind == evStuck || from == starting &&
				e.kind == evFailing {
				continue // flags, see below
			}
			if e.kind == evDesire && from == stopping {
				before.wanted = "v1"
			}
			if did != "" || fmt.Sprint(before) != fmt.Sprint(s.slot) {
				t.Errorf("%v in %v did %q and made\n%+v of\n%+v", e.kind, from, did, s.slot, before)
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{stateNames[:], eventNames[:], actionNames[:], failureNames[:]} {
		seen := map[string]bool{}
		for _, n := range names {
			if n == "" || seen[n] {
				t.Errorf("%q is there twice or empty in %q", n, names)
			}
			seen[n] = true
		}
	}
	if len(stateNames) != int(givenUp)+1 || len(eventNames) != int(evWaiting)+1 || len(actionNames) != int(doWaiting)+1 ||
		len(failureNames) != int(refused)+1 {
		t.Error("a name is missing")
	}
	if absent.String() != "absent" || givenUp.String() != "given up" || evWaiting.String() != "waiting" ||
		doWaiting.String() != "waiting" || refused.String() != "refused" {
		t.Error("names and values do not match")
	}
}

// A slot that is refused is DOWN with the reason until there is room. It is no
// crash, is told of once, and is tried again without an end.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.want("v1")
	lines := 0
	for range maxCrashes + 10 {
		next, do := s.step(s.slot, event{kind: evRefused, text: "insufficient resources: memory"})
		s.slot = next
		for _, d := range do {
			if d.kind == doLine {
				lines++
			}
		}
		s.is(waiting, platform.InstanceDown)
		if s.crashes != 0 || s.details != "insufficient resources: memory" {
			t.Fatalf("%d crashes, %q", s.crashes, s.details)
		}
		if did := s.feed(event{kind: evDue}); did != "" {
			t.Fatalf("it did %q at once", did)
		}
		s.now = s.now.Add(placePause)
		s.feed(event{kind: evDue})
		s.is(creating, platform.InstanceDown)
	}
	if lines != 1 {
		t.Errorf("%d lines about the same thing", lines)
	}
	s.kinds(evCreated)
	s.is(starting, platform.InstanceStarting)
	s.kinds(evHealthy)
	if s.is(running, platform.InstanceRunning); s.details != "" || s.slot.failed != sound {
		t.Errorf("details are %q, failure %v, want neither", s.details, s.slot.failed)
	}
}

// Clients know the ids of instances in the form of Diego's.
func TestInstanceID(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{4}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := newGUID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("%q is not of the form 8-4-4-4-4, or was given before", id)
		}
		seen[id] = true
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		0: 0, 1: 0, 3: 0, 4: 30 * time.Second, 5: time.Minute, 6: 2 * time.Minute, 7: 4 * time.Minute,
		8: 8 * time.Minute, 9: 16 * time.Minute, 10: 16 * time.Minute, 199: 16 * time.Minute,
	} {
		if got := pause(n); got != want {
			t.Errorf("after crash %d: %v, want %v", n, got, want)
		}
	}
}

// crashOnce lets a running instance crash and be removed.
func (s *script) crashOnce() {
	s.Helper()
	s.kinds(evCreated, evHealthy, evReady)
	s.feed(event{kind: evEnded, text: "APP/PROC/WEB: Exited with status 1", status: 1})
	s.kinds(evRemoved)
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.want("v1")
	for i := range 3 {
		s.crashOnce()
		s.is(creating, platform.InstanceStarting)
		if s.crashes != i+1 || s.details == "" {
			t.Errorf("crash %d: %+v", i+1, s.slot)
		}
	}
	for _, wait := range []time.Duration{30 * time.Second, time.Minute} {
		s.crashOnce()
		s.is(waiting, platform.InstanceCrashed)
		s.now = s.now.Add(wait - time.Second)
		s.kinds(evDue)
		s.is(waiting, platform.InstanceCrashed)
		s.now = s.now.Add(time.Second)
		s.kinds(evDue)
		s.is(creating, platform.InstanceStarting)
	}
	// Five minutes are forgiven, a little less is not.
	s.kinds(evCreated, evHealthy)
	s.now = s.now.Add(soundAfter - time.Second)
	s.kinds(evEnded)
	if s.crashes != 6 {
		t.Errorf("%d crashes", s.crashes)
	}
	s.now = s.restartAt
	s.kinds(evRemoved)
	s.is(creating, platform.InstanceStarting)
	s.kinds(evCreated, evHealthy)
	if s.details != "" {
		t.Error("it is healthy and has", s.details)
	}
	s.now = s.now.Add(soundAfter)
	s.kinds(evEnded, evRemoved)
	s.is(creating, platform.InstanceStarting)
	if s.crashes != 1 {
		t.Errorf("%d crashes", s.crashes)
	}
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.want("v1")
	for range maxCrashes {
		s.is(creating, platform.InstanceStarting)
		s.crashOnce()
		s.now = s.now.Add(longestPause)
		s.kinds(evDue)
	}
	s.is(givenUp, platform.InstanceCrashed)
	if !s.due().IsZero() || s.ids != maxCrashes {
		t.Errorf("due %v, %d starts", s.due(), s.ids)
	}
	s.want("v2")
	if s.crashes != 0 {
		t.Errorf("a new version begins with %d crashes", s.crashes)
	}
}

func TestUnplaced(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.want("v1")
	for range 3 {
		s.feed(event{kind: evFailed, text: "port 9000 is taken"})
		s.is(creating, platform.InstanceStarting)
		if s.details != "port 9000 is taken" {
			t.Errorf("details are %q, want port 9000 is taken", s.details)
		}
	}
	s.feed(event{kind: evFailed, text: "port 9000 is taken"})
	s.is(waiting, platform.InstanceCrashed)
	down := s.slot
	down.crashes = 1
	if down.visible() != platform.InstanceDown {
		t.Error("one that is tried again soon is", down.visible())
	}
}

func TestStopTakesAsLongAsItMay(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	scenes[stopping](s)
	s.now = noon.Add(15*time.Second - 1)
	if did := s.feed(event{kind: evDue}); did != "" {
		t.Errorf("before the time is up it did %q, want nothing", did)
	}
	s.now = noon.Add(15 * time.Second)
	if did := s.feed(event{kind: evDue}); did != "remove i1" {
		t.Errorf("when the time was up it did %q, want remove i1", did)
	}
	s.is(clearing, platform.InstanceStopping)
	s.kinds(evStuck)
	s.now = s.due()
	if did := s.feed(event{kind: evDue}); did != "remove i1" {
		t.Errorf("after a failed removal it did %q, want remove i1", did)
	}
	s.kinds(evRemoved)
	s.is(absent, "")
}

func TestReplace(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	scenes[running](s)
	s.want("v2").want("v3")
	s.kinds(evEnded)
	s.kinds(evRemoved)
	s.is(creating, platform.InstanceStarting)
	if s.version != "v3" || strings.Join(s.did,
		", ") != "create i1, follow i1, ready i1, signal i1, remove i1, create i2" {
		t.Errorf("version is %s after %v, want v3 in a second instance", s.version, s.did)
	}
}

func TestRoutable(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	see := func(want bool, when string) {
		t.Helper()
		if s.routable() != want {
			t.Errorf("%s: routable %v", when, !want)
		}
	}
	s.want("v1").kinds(evCreated)
	see(false, "starting")
	s.kinds(evHealthy)
	see(false, "not ready yet")
	s.kinds(evReady)
	see(true, "ready")
	s.kinds(evNotReady)
	see(false, "not ready")
	s.kinds(evReady, evFailing)
	see(false, "a member exited")
	s.kinds(evReady)
	see(false, "a member exited, but the last look was good")
}
