package authtest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingot/internal/auth"
	"ingot/internal/auth/scim"
)

// StoreConformance runs the suite. open returns an empty store; it is called
// once for each part, with the test that the store belongs to.
func StoreConformance(t *testing.T, open func(t *testing.T) auth.Store) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, auth.Store)
	}{
		{"Clients", testClients},
		{"ClientList", testClientList},
		{"Users", testUsers},
		{"UserRaces", testUserRaces},
		{"UserFilters", testUserFilters},
		{"UserOrder", testUserOrder},
		{"Groups", testGroups},
		{"GroupList", testGroupList},
		{"Members", testMembers},
		{"Nesting", testNesting},
		{"HostileText", testHostileText},
		{"ImpossibleText", testImpossibleText},
		{"Failures", testFailures},
		{"Codes", testCodes},
		{"Sessions", testSessions},
		{"Refresh", testRefresh},
		{"RefreshRaces", testRefreshRaces},
		{"Deletions", testDeletions},
		{"Revocations", testRevocations},
		{"Keys", testKeys},
		{"KeyRaces", testKeyRaces},
		{"Purge", testPurge},
		{"Canceled", testCanceled},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, open(t))
		})
	}
}

// base is a moment whose nanoseconds are all different.
var base = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

// racers is the number of goroutines in a race.
const racers = 6

func newClient(id string) *auth.Client {
	return &auth.Client{ID: id, GrantTypes: []string{auth.GrantPassword}, Created: base, Modified: base}
}

func newUser(id, name string) *auth.User {
	return &auth.User{ID: id, UserName: name, Origin: auth.OriginUAA, Active: true, Created: base, Modified: base}
}

func newGroup(id, name string, members ...auth.Member) *auth.Group {
	return &auth.Group{ID: id, Name: name, Members: members, Created: base, Modified: base}
}

func userMember(id string) auth.Member {
	return auth.Member{ID: id, Type: auth.MemberUser, Origin: auth.OriginUAA}
}

func groupMember(id string) auth.Member {
	return auth.Member{ID: id, Type: auth.MemberGroup, Origin: auth.OriginUAA}
}

func newRefresh(id, family, user, client string) *auth.Refresh {
	return &auth.Refresh{
		ID: id, Family: family, UserID: user, ClientID: client, Scopes: []string{"openid"}, Grant: auth.GrantPassword,
		AuthTime: base, Issued: base, Expires: base.Add(time.Hour),
	}
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused fails the test unless the error is the wanted one.
func refused(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// same fails the test unless both values are equal. Times are equal if they are
// the same moment; an empty list equals nil.
func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
}

// atOnce runs f in as many goroutines as there are racers and returns their
// results.
func atOnce[T any](f func(i int) T) []T {
	results := make([]T, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			<-start
			results[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return results
}

// oneWins fails the test unless one error is nil and all others are lost.
func oneWins(t *testing.T, errs []error, lost error) {
	t.Helper()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, lost):
			t.Fatalf("got error %v, want %v", err, lost)
		}
	}
	if won != 1 {
		t.Fatalf("%d of %d succeeded, want one", won, len(errs))
	}
}

func parse(t *testing.T, filter string) scim.Expr {
	t.Helper()
	e, err := scim.Parse(filter)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	return e
}

func userIDs(users []*auth.User) []string {
	ids := make([]string, len(users))
	for i, u := range users {
		ids[i] = u.ID
	}
	return ids
}

func groupNames(groups []*auth.Group) []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.Name
	}
	slices.Sort(names)
	return names
}
