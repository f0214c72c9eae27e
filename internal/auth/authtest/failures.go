package authtest

import (
	"testing"
	"time"

	"ingot/internal/auth"
)

// testFailures: failed logins are counted by account and address, also by several servers at
// once, and start again when they have expired.
func testFailures(t *testing.T, s auth.Store) {
	ctx := t.Context()
	expires := base.Add(time.Hour)
	want := func(account string, now time.Time, counts map[string]int) {
		t.Helper()
		all, err := s.Failures(ctx, account, now)
		must(t, err)
		got := map[string]int{}
		for address, f := range all {
			got[address] = f.Count
		}
		same(t, got, counts)
	}
	want("user:x", base, map[string]int{})
	for _, err := range atOnce(func(int) error {
		_, err := s.AddFailure(ctx, "user:x", "10.0.0.1", base, expires)
		return err
	}) {
		must(t, err)
	}
	all, err := s.Failures(ctx, "user:x", base)
	must(t, err)
	many := all["10.0.0.1"].Count
	if many < 2 || !all["10.0.0.1"].Last.Equal(base) {
		t.Errorf("got %+v, want several at %v", all, base)
	}
	for i, address := range []string{"10.0.0.1", "::1"} {
		f, err := s.AddFailure(ctx, "user:x", address, base.Add(time.Minute), expires)
		must(t, err)
		if n := []int{many + 1, 1}[i]; f.Count != n || !f.Last.Equal(base.Add(time.Minute)) {
			t.Errorf("got %+v for %s, want %d", f, address, n)
		}
	}
	_, err = s.AddFailure(ctx, "user:y", "::1", base, expires)
	must(t, err)
	want("user:x", base, map[string]int{"10.0.0.1": many + 1, "::1": 1})
	want("user:x", expires.Add(1), map[string]int{})
	f, err := s.AddFailure(ctx, "user:x", "::1", expires.Add(1), expires.Add(time.Hour))
	must(t, err)
	if f.Count != 1 {
		t.Errorf("got %d failures after an hour, want 1", f.Count)
	}
	must(t, s.ForgetFailures(ctx, "user:x", "::1"))
	want("user:x", base, map[string]int{"10.0.0.1": many + 1})
	must(t, s.ForgetFailures(ctx, "user:x"))
	want("user:x", base, map[string]int{})
	must(t, s.Purge(ctx, expires.Add(1)))
	want("user:y", base, map[string]int{})
}
