package source

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/base/fault"
)

// TestFetches: an organization has its second fetch only if fewer than half of them are in progress, so there is room
// for the first one of others.
func TestFetches(t *testing.T) {
	t.Parallel()
	var f fetches
	enter := func(org string, want bool) (leave func()) {
		t.Helper()
		leave, err := f.enter(org)
		if (err == nil) != want || err != nil && !fault.Is(err, fault.RateLimited) {
			t.Fatalf("a fetch of %s: %v, want it allowed: %t", org, err, want)
		}
		return leave
	}
	all := []func(){enter("a", true), enter("a", true)}
	enter("a", false)
	for i := len(all); i < fetchesOfAll; i++ {
		org := fmt.Sprint(i)
		all = append(all, enter(org, true))
		enter(org, false)
	}
	enter("late", false)
	for _, leave := range all {
		leave()
	}
	if f.all != 0 || len(f.orgs) != 0 {
		t.Errorf("left after all: %d, %v", f.all, f.orgs)
	}
}

// TestBusy: a refused fetch is told what helps, and that helps.
func TestBusy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		all, own int
		others   int // that have to end
		mine     int
		want     string
	}{
		{2, 2, 0, 1, "2 of at most 6 git repositories are being fetched at the moment, 2 for the organization: try again " +
			"when one of its fetches is done"},
		{3, 2, 0, 1, "3 of at most 6 git repositories are being fetched at the moment, 2 for the organization: try again " +
			"when one of its fetches is done"},
		{4, 2, 0, 2, "4 of at most 6 git repositories are being fetched at the moment, 2 for the organization: try again " +
			"when its fetches are done"},
		{3, 1, 0, 1, "3 of at most 6 git repositories are being fetched at the moment, 1 for the organization: try again " +
			"when its fetch is done or fewer than 3 are in progress"},
		{3, 1, 1, 0, "its fetch is done or fewer than 3 are in progress"},
		{6, 1, 0, 1, "6 of at most 6 git repositories are being fetched at the moment, 1 for the organization: try again " +
			"when its fetch is done or fewer than 3 are in progress"},
		{6, 0, 1, 0, "6 of at most 6 git repositories are being fetched at the moment: try again when one is done"},
	} {
		f := fetches{all: c.all, orgs: map[string]int{"us": c.own, "others": c.all - c.own}}
		for ; c.mine+c.others > 0; f.all-- {
			_, err := f.enter("us")
			if !fault.Is(err, fault.RateLimited) || c.all == f.all && !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
			if c.mine > 0 {
				c.mine--
				f.orgs["us"]--
			} else {
				c.others--
				f.orgs["others"]--
			}
		}
		if _, err := f.enter("us"); err != nil {
			t.Errorf("%+v: %d left: %v", c, f.all, err)
		}
	}
}
