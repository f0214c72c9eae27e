package gitpush

import (
	"sync"

	"ingot/internal/base/fault"
)

// Limits of pushes at the same time: each has a list of its objects in memory. A user or an organization gets the
// second one only if fewer than half of them are in progress.
const (
	pushesOfAll = 8
	pushesOfOne = 2 // of one user, and of one organization
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
	case s.users[user] >= pushesOfOne, s.orgs[org] >= pushesOfOne:
		return nil, fault.New(fault.RateLimited,
			"%d pushes of the same user or organization are in progress: push again when one is done", pushesOfOne)
	case s.all >= pushesOfAll, s.all >= pushesOfAll/2 && s.users[user]+s.orgs[org] > 0:
		return nil, fault.New(fault.RateLimited, "%d pushes are in progress: push again when one is done", s.all)
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

func give(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
