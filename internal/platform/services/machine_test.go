package services

import (
	"fmt"
	"testing"

	"ingot/internal/platform/services/osb"
)

var outcomes = []osb.Outcome{osb.Done, osb.Accepted, osb.Working, osb.Gone, osb.Refused, osb.Busy, osb.Unavailable,
	osb.Unknown}

// TestMachine holds every transition: for each kind and phase one character an
// outcome, in the order of outcomes, in time and too late.
//
//	S succeeded, F failed, O failed and cleaned up, P poll next, G get (fetch)
//	next, C call next, and in lower case: the same again.
func TestMachine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind          kind
		binding       bool
		phase         phase
		inTime, later string
	}{
		//                            done accepted working gone refused busy unavailable unknown
		{create, false, calling, "S P O F F c F O", "S P O F F F F O"},
		{create, true, calling, "S P O F F c F O", "S P O F F F F O"},
		{update, false, calling, "S P F F F c F F", "S P F F F F F F"},
		{remove, false, calling, "S P F S F c F F", "S P F S F F F F"},
		{remove, true, calling, "S P F S F c F F", "S P F S F F F F"},
		{cleanup, false, calling, "S P c S c c c c", "S P c S c c c c"},
		{cleanup, true, calling, "S P c S c c c c", "S P c S c c c c"},

		{create, false, polling, "S p p F F p p p", "S O O F F O O O"},
		{create, true, polling, "G p p F F p p p", "G O O F F O O O"},
		{update, false, polling, "S p p F F p p p", "S F F F F F F F"},
		{remove, false, polling, "S p p S F p p p", "S F F S F F F F"},
		{remove, true, polling, "S p p S F p p p", "S F F S F F F F"},
		{cleanup, false, polling, "S p p S c p p p", "S c c S c c c c"},
		{cleanup, true, polling, "S p p S c p p p", "S c c S c c c c"},

		{create, true, fetching, "S g g O O g g g", "S O O O O O O O"},
	} {
		for late, want := range map[bool]string{false: test.inTime, true: test.later} {
			got := ""
			for _, o := range outcomes {
				got += " " + symbol(judge(test.kind, test.binding, test.phase, o, late))
			}
			if got[1:] != want {
				t.Errorf("%s binding=%v %s late=%v:\n got %s\nwant %s", test.kind, test.binding, test.phase, late, got[1:], want)
			}
		}
	}
}

func symbol(v verdict) string {
	switch {
	case v.ending == succeeded && !v.orphan && !v.again:
		return "S"
	case v.ending == failed && v.orphan && !v.again:
		return "O"
	case v.ending == failed && !v.again:
		return "F"
	case v.ending == goesOn && !v.orphan:
		words := map[phase][2]string{calling: {"C", "c"}, polling: {"P", "p"}, fetching: {"G", "g"}}[v.next]
		if v.again {
			return words[1]
		}
		return words[0]
	}
	return fmt.Sprintf("%+v", v)
}

func TestOutcomesHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, o := range outcomes {
		if seen[o.String()] || o.String() == "" {
			t.Errorf("%d is called %q", o, o)
		}
		seen[o.String()] = true
	}
}
