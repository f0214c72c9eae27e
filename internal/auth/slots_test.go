package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"ingot/internal/base/fault"
)

// Addresses take turns; proven callers go first and have a reserved slot.
func TestSlotsAreFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		flood := turn{from: "flood"}
		must(s.enter(t.Context(), flood))
		order := make(chan string, 100)
		refused := make(chan error, 100)
		wait := func(ctx context.Context, name string, w turn) {
			go func() {
				if err := s.enter(ctx, w); err != nil {
					refused <- err
					return
				}
				order <- name
				s.leave(w)
			}()
			synctest.Wait()
		}
		// The second slot is reserved for proven callers, however many others wait.
		for range maxWaitingEach {
			wait(t.Context(), "flood", flood)
		}
		wait(t.Context(), "too many", flood)
		if err := <-refused; !fault.Is(err, fault.RateLimited) {
			t.Fatalf("one address waits without an end: %v", err)
		}
		wait(t.Context(), "other", turn{from: "other"})
		wait(t.Context(), "third", turn{from: "third"})
		wait(t.Context(), "proven", turn{from: "flood", proven: true})
		if got := <-order; got != "proven" {
			t.Fatalf("%s went first, although a slot is kept for proven callers", got)
		}
		gone, cancel := context.WithCancel(t.Context())
		wait(gone, "gone", turn{from: "gone"})
		cancel()
		synctest.Wait()
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Fatalf("a caller who went away: %v", err)
		}
		s.leave(flood)
		synctest.Wait()
		close(order)
		var got []string
		for name := range order {
			got = append(got, name)
		}
		if want := []string{"flood", "other", "third", "flood"}; len(got) != maxWaitingEach+2 ||
			!slices.Equal(got[:4], want) {
			t.Errorf("the order was %s", strings.Join(got, ", "))
		}
		if s.busy != 0 || s.strangers != 0 || s.others.size != 0 || len(s.others.order) != 0 || len(s.others.byAddress) != 0 {
			t.Errorf("something is left: %+v", s)
		}
	})
}

// When too many requests wait, one of the address with the most is rejected.
func TestSlotsDropTheLongestLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		first := turn{from: "first"}
		if err := s.enter(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		results := map[string]*struct{ served, refused int }{}
		type result struct {
			from string
			err  error
		}
		done := make(chan result, 2*maxWaitingAll)
		wait := func(from string) {
			go func() {
				err := s.enter(t.Context(), turn{from: from})
				if err == nil {
					s.leave(turn{from: from})
				}
				done <- result{from, err}
			}()
			synctest.Wait()
		}
		for i := range maxWaitingAll {
			wait("flood " + string(rune('a'+i%(maxWaitingAll/maxWaitingEach))))
		}
		wait("somebody")
		s.leave(first)
		synctest.Wait()
		close(done)
		for r := range done {
			if results[r.from] == nil {
				results[r.from] = &struct{ served, refused int }{}
			}
			if r.err == nil {
				results[r.from].served++
			} else {
				results[r.from].refused++
			}
		}
		if r := results["somebody"]; r.served != 1 {
			t.Errorf("the one request of an address was refused")
		}
		refused := 0
		for _, r := range results {
			refused += r.refused
		}
		if refused != 1 {
			t.Errorf("%d were refused, want one of the flood", refused)
		}
	})
}
