package gitpush

import (
	"fmt"
	"strings"
	"sync"

	"ingot/internal/base/fault"
)

// Limits of pushes at the same time: each has a list of its objects in memory. A user or an organization gets the
// second one only if fewer than half of them are in progress.
const (
	pushesOfAll = 8
	pushesOfOne = 2 // of one user, and of one organization
	freeForAll  = pushesOfAll / 2
)

// errInProgress refuses the second push of an app, on whichever server the first is.
var errInProgress = fault.New(fault.Conflict, "another push to this app is in progress: push again when it is done")

// slots counts the pushes that are in progress.
type slots struct {
	mu    sync.Mutex
	all   int
	users map[string]int
	orgs  map[string]int
	apps  map[string]bool
}

// enter reserves a slot, or returns why there is none. leave is called in the end.
func (s *slots) enter(user, org, app string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.apps[app]:
		return nil, errInProgress
	case s.users[user] >= pushesOfOne, s.orgs[org] >= pushesOfOne, s.all >= pushesOfAll,
		s.all >= freeForAll && s.users[user]+s.orgs[org] > 0:
		return nil, refusal(s.all, s.users[user], s.orgs[org])
	}
	if s.apps == nil {
		s.users, s.orgs, s.apps = map[string]int{}, map[string]int{}, map[string]bool{}
	}
	s.all++
	s.users[user]++
	s.orgs[org]++
	s.apps[app] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		give(s.users, user)
		give(s.orgs, org)
		delete(s.apps, app)
	}, nil
}

// refusal says which slots are in use, and what frees one for this push. One push may count for both, the user and
// the organization.
func refusal(all, user, org int) error {
	own := max(user, org)
	var by, owners, limits []string
	for _, o := range []struct {
		n        int
		by, name string
	}{{user, "you", "yours"}, {org, "the organization", "the organization's"}} {
		if o.n > 0 {
			by, owners = append(by, fmt.Sprintf("%d by %s", o.n, o.by)), append(owners, o.name)
		}
		if o.n >= pushesOfOne {
			limits = append(limits, "one of "+o.name)
		}
	}
	used := fmt.Sprintf("%d of %d slots for pushes are in use", all, pushesOfAll)
	if own > 0 {
		used += ", " + strings.Join(by, " and ")
	}
	var until string
	switch {
	case own == 0:
		until = "one is free"
	case own >= pushesOfOne && all <= freeForAll:
		until = done(limits, 1)
	default:
		until = done(owners, own)
		if own < pushesOfOne {
			until += fmt.Sprintf(" or fewer than %d are in use", freeForAll)
		}
	}
	return fault.New(fault.RateLimited, "%s: push again when %s", used, until)
}

// done says that pushes have to end, n of each.
func done(which []string, n int) string {
	verb := " is done"
	if len(which)*n > 1 {
		verb = " are done"
	}
	return strings.Join(which, " and ") + verb
}

func give(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
