package storetest

import (
	"fmt"
	"sync"
	"time"

	"ingot/internal/notify"
)

func (k *kit) cancel(s notify.Store, send int64) notify.Send {
	k.Helper()
	return value[notify.Send](k)(s.Cancel(k.ctx, send))
}

// testCancel sees that what waits is canceled, what is claimed may be delivered, and neither is sent later.
func testCancel(k *kit) {
	for _, size := range []int{10, 150, 4500} { // counted on demand, or kept; more than one step
		s := k.store()
		send := k.accept(s, k.sending("c", names("u", size)...))
		other := k.accept(s, k.sending("c", "other"))
		claimed := k.claim(s, "w", 6)
		var mine []int64
		for _, n := range numbersOf(claimed) {
			if notify.SendOf(n) == send.Number {
				mine = append(mine, n)
			}
		}
		k.finish(s, notify.Delivered, mine[0])
		k.finish(s, notify.Retry, mine[1])
		k.clock.Advance(time.Second)
		got := k.cancel(s, send.Number)
		held := len(mine) - 2
		k.equal("counts", got.Counts, notify.Counts{Total: size, Queued: held, Delivered: 1, Canceled: size - held - 1})
		k.equal("canceled", got.Canceled, k.clock.Now())
		k.equal("canceled again", k.cancel(s, send.Number), got)

		// One is delivered, one fails for now, and the others were held by a server that is gone.
		k.finish(s, notify.Delivered, mine[2])
		final := k.finish(s, notify.Retry, mine[3])
		k.equal("not tried again", []any{len(final), final[0].Status, final[0].Canceled}, []any{1, notify.Canceled, false})
		k.clock.Advance(time.Hour)
		s = k.store()
		for _, c := range k.claim(s, "w2", 10) {
			if notify.SendOf(c.Number) == other.Number {
				k.equal("another send", c.Canceled, false)
			} else if !c.Canceled {
				k.Errorf("message %d is to be delivered", c.Number)
			}
			k.finish(s, notify.Canceled, c.Number)
		}
		done := value[notify.Send](k)(s.Send(k.ctx, send.Number))
		k.equal("counts at the end", done.Counts, notify.Counts{Total: size, Delivered: 2, Canceled: size - 2})
		k.equal("finished", done.Finished.IsZero(), false)
		k.waits(s, 0)
		found := value[[]notify.Message](k)(s.FindMessages(k.ctx, notify.MessageQuery{ClientID: "c", Send: send.Number,
			Status: notify.Canceled, Limit: 10}))
		k.equal("found", []any{len(found) > 0, found[0].Reason != ""}, []any{true, true})
		k.wantErr(s.Replay(k.ctx, "c", found[0].Number), notify.ErrConflict)
	}
	s := k.store()
	_, err := s.Cancel(k.ctx, 1<<30)
	k.wantErr(err, notify.ErrNotFound)
}

// testCancelEarly cancels sends that are scheduled, or whose audience is being read.
func testCancelEarly(k *kit) {
	s := k.store()
	n := k.later("c", "u", start.Add(time.Hour))
	n.PlannedLimit = 1
	planned := k.accept(s, n)
	got := k.cancel(s, planned.Number)
	k.equal("scheduled", []any{got.Counts, got.Scheduled, got.Expanded, got.Canceled},
		[]any{notify.Counts{Total: 1, Canceled: 1}, false, true, start})
	k.accept(s, n) // there is room again
	k.clock.Advance(2 * time.Hour)
	k.activate(s, 1, time.Time{})
	k.equal("claimed", len(k.claim(s, "w", 10)), 1)

	wide := k.sending("c", "a", "b")
	wide.Expanded = false
	send := k.accept(s, wide)
	k.equal("to expand", len(value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, "w", 10, time.Minute))), 1)
	k.equal("expanding", k.cancel(s, send.Number).Counts, notify.Counts{Total: 2, Canceled: 2})
	k.wantErr(s.Extend(k.ctx, send.Number, wide.Cursor, people("x"), notify.Cursor{Audience: 1}, true), notify.ErrConflict)
	k.equal("claimed", len(k.claim(s, "w", 10)), 0)
}

// testCancelTogether cancels beside claims: what is claimed after the answer is marked, and nothing is counted twice.
func testCancelTogether(k *kit) {
	s := k.store()
	stores := []notify.Store{s, s}
	if s.Shared() {
		stores[1] = k.store()
	}
	const size = 700
	for range 3 {
		send := k.accept(s, k.sending("c", names("u", size)...))
		var wg sync.WaitGroup
		var mu sync.Mutex
		claimed, delivered := map[int64]bool{}, 0
		stop := make(chan struct{})
		for w := range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					list, err := stores[w].Claim(k.ctx, fmt.Sprint("w", w), 20, time.Minute)
					if err != nil {
						k.Error(err)
						return
					}
					var outcomes []notify.Outcome
					mu.Lock()
					for _, c := range list {
						claimed[c.Number] = true
						outcomes = append(outcomes, notify.Outcome{Number: c.Number, Status: notify.Delivered, At: k.clock.Now()})
					}
					delivered += len(list)
					mu.Unlock()
					if _, err := stores[w].Finish(k.ctx, outcomes, nil); err != nil {
						k.Error(err)
						return
					}
				}
			})
		}
		after := k.cancel(stores[1], send.Number)
		close(stop)
		wg.Wait()
		end := k.counts(s, send.Number)
		k.equal("all", []int{end.Total, end.Delivered + end.Canceled, end.Queued + end.Retry}, []int{size, size, 0})
		k.equal("delivered", end.Delivered, delivered)
		k.equal("canceled after the answer", end.Canceled, after.Counts.Canceled)
		for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, size)) {
			if claimed[m.Number] != (m.Status == notify.Delivered) {
				k.Errorf("message %d is %s, claimed: %v", m.Number, m.Status, claimed[m.Number])
			}
		}
		k.waits(s, 0)
	}
}
