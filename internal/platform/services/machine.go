package services

import "ingot/internal/platform/services/osb"

// kind is the operation on an instance or binding.
type kind string

const (
	create  kind = "create"
	update  kind = "update"
	remove  kind = "delete"
	cleanup kind = "cleanup" // of what a failed create may have left at the broker
	rotate  kind = "rotate"  // new credentials of a binding
	revoke  kind = "revoke"  // of the credentials that a rotation replaced

	rotation kind = "rotation" // the request for rotations, which waits for them
	deploy   kind = "deploy"   // a build that is deployed when it is done
	pull     kind = "pull"     // a commit that is fetched and built, then deployed
)

// phase is the progress of an operation.
type phase string

const (
	calling  phase = "call"
	polling  phase = "poll"
	fetching phase = "fetch"
)

// ending is the final state of an operation, if it has one.
type ending int

const (
	goesOn ending = iota
	succeeded
	failed
)

// verdict is what follows from the outcome of one step.
type verdict struct {
	ending ending
	next   phase // when it goes on
	// again: the same as before, a little later.
	again bool
	// orphan: the broker may have created something that has to be deleted.
	orphan bool
}

// judge is the state machine drawn in doc.go. late says that the phase took too
// long already, or was tried too often.
func judge(k kind, binding bool, at phase, o osb.Outcome, late bool) verdict {
	failing := verdict{ending: failed, orphan: false}
	unwanted := verdict{ending: failed, orphan: k == create || k == rotate}
	if k == cleanup || k == revoke { // it never gives up, and begins anew
		failing, unwanted = verdict{next: calling, again: true}, verdict{next: calling, again: true}
	}
	switch {
	case o == osb.Gone && (k == remove || k == cleanup || k == revoke):
		return verdict{ending: succeeded}
	case o == osb.Done && at == polling && binding && (k == create || k == rotate):
		return verdict{next: fetching}
	case o == osb.Done:
		return verdict{ending: succeeded}
	}
	again := verdict{next: at, again: true}
	switch at {
	case polling:
		switch o {
		case osb.Refused, osb.Gone:
			return failing
		case osb.Done, osb.Accepted, osb.Working, osb.Busy, osb.Unavailable, osb.Unknown:
		}
		if late {
			return unwanted
		}
		return again
	case fetching:
		switch o {
		case osb.Refused, osb.Gone:
			return unwanted
		case osb.Done, osb.Accepted, osb.Working, osb.Busy, osb.Unavailable, osb.Unknown:
		}
		if late {
			return unwanted
		}
		return again
	case calling:
	}
	switch o {
	case osb.Accepted:
		return verdict{next: polling}
	case osb.Busy:
		if late {
			return failing
		}
		return again
	case osb.Refused, osb.Gone, osb.Unavailable:
		return failing
	case osb.Done, osb.Working, osb.Unknown:
	}
	return unwanted
}
