package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/notify"
)

// testMailQuotas takes from the quotas of a warm-up plan.
func testMailQuotas(k *kit) {
	s := k.store()
	today := int(k.clock.Now().Unix() / (24 * 3600))
	quota := func(n int) int { return []int{10, 20, 40, -1}[min(n, 3)] }
	take := func(day, wanted, want, nth int) {
		k.Helper()
		got := value[map[string]notify.MailPart](k)(s.TakeMail(k.ctx, day, map[string]int{"a.example": wanted}, quota))
		if part := (notify.MailPart{Messages: want, Day: nth}); got["a.example"] != part {
			k.Errorf("took %v of day %d, want %v", got, day-today, part)
		}
	}
	take(today, 6, 6, 0)
	take(today, 6, 4, 0)
	take(today, 6, 0, 0)
	take(today-1, 6, 0, 0) // a clock that is late
	got := value[map[string]notify.MailPart](k)(s.TakeMail(k.ctx, today,
		map[string]int{"a.example": 1, "b.example": 100}, quota))
	if got["a.example"].Messages != 0 || got["b.example"].Messages != 10 {
		k.Errorf("of two domains it took %v", got)
	}
	take(today+2, 100, 40, 2) // a day without mail does not stop the plan
	take(today+3, 7, notify.NoMailQuota, 3)
	take(today+3+notify.WarmthKept, 7, notify.NoMailQuota, 3+notify.WarmthKept)
	take(today+4+2*notify.WarmthKept, 100, 10, 0)

	// What was not sent can be taken again, on the same day, and never more than was taken.
	send := func(day, wanted, want, unused int) {
		k.Helper()
		got := value[map[string]notify.MailPart](k)(s.TakeMail(k.ctx, day, map[string]int{"e.example": wanted}, quota))
		k.equal("taken", got["e.example"].Messages, want)
		k.must(s.ReturnMail(k.ctx, day, map[string]int{"e.example": unused, "never.example": 1}))
	}
	send(today, 8, 8, 3)
	send(today, 8, 5, 0)
	send(today, 8, 0, 100)
	send(today+1, 100, 10, 10) // the day before had nothing, so this was the first
	send(today+2, 100, 10, 4)
	send(today+3, 100, 20, 20)
	k.must(s.ReturnMail(k.ctx, today+2, map[string]int{"e.example": 5})) // a day that is over
	send(today+3, 100, 20, 0)
	send(today+5, 3, notify.NoMailQuota, 0)

	// Several servers together take the quota, and no more.
	const day = 100_000
	var sum atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				got, err := s.TakeMail(k.ctx, day, map[string]int{"d.example": 3, "c.example": 3}, quota)
				if err != nil {
					k.Error(err)
				}
				sum.Add(int64(got["c.example"].Messages + got["d.example"].Messages))
			}
		})
	}
	all.Wait()
	if sum.Load() != 20 {
		k.Errorf("together they took %d, want 20", sum.Load())
	}

	// Rows of domains that begin again are purged.
	k.clock.Advance((3*notify.WarmthKept + 10) * 24 * time.Hour)
	value[int](k)(s.Purge(k.ctx, k.clock.Now()))
	take(today, 100, 10, 0)
}
