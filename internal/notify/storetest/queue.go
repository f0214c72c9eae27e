package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/notify"
)

func testClaim(k *kit) {
	s := k.store()
	n := k.sending("c", "u1")
	send := k.accept(s, n)
	k.clock.Advance(time.Second)
	second := k.accept(s, k.sending("c", "u2"))
	got := k.claim(s, "w", 10)
	k.equal("order", numbersOf(got), []int64{notify.MessageNumber(send.Number, 0), notify.MessageNumber(second.Number, 0)})
	want := notify.Message{
		Number: notify.MessageNumber(send.Number, 0), Recipient: people("u1")[0],
		Status: notify.Queued, Due: start, Updated: start,
	}
	k.equal("message", got[0].Message, want)
	k.equal("content", got[0].Send.Content, n.Content)
	k.equal("audiences", got[0].Send.Audiences, n.Audiences)
	k.equal("client", got[0].Send.ClientID, "c")
	k.equal("number of the send", got[0].Send.Number, send.Number)
	k.equal("more", numbersOf(k.claim(s, "w2", 10)), []int64(nil))
	k.equal("limit 0", numbersOf(k.claim(s, "w2", 0)), []int64(nil))
}

// testClaimPriorities sees that no priority keeps another waiting, and that a claim is
// filled when there is enough in any of them.
func testClaimPriorities(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", names("bulk", 300)...))
	first := k.claim(s, "w", 60)
	k.equal("only bulk", len(first), 60)
	k.finish(s, notify.Retry, numbersOf(first)...)
	k.clock.Advance(time.Hour)
	for i := range 60 {
		k.accept(s, k.sending("c", fmt.Sprint("single-", i)))
	}
	got := map[string]int{}
	for _, c := range k.claim(s, "w", 40) {
		priority := "bulk"
		if c.Status == notify.Retry {
			priority = "retry"
		} else if len(c.UserID) > 6 && c.UserID[:6] == "single" {
			priority = "single"
		}
		got[priority]++
	}
	k.equal("claimed", got["bulk"]+got["retry"]+got["single"], 40)
	for _, priority := range []string{"single", "bulk", "retry"} {
		if got[priority] < 5 {
			k.Errorf("%d of priority %s among %v", got[priority], priority, got)
		}
	}
	rest := 0
	for {
		n := len(k.claim(s, "w", 97))
		if n == 0 {
			break
		}
		rest += n
	}
	k.equal("all", rest+40, 360)
}

func testClaimSmallLimits(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", names("bulk", 150)...))
	for i := range 20 {
		k.accept(s, k.sending("c", fmt.Sprint("single-", i)))
	}
	bulk, single := 0, 0
	for range 20 {
		for _, c := range k.claim(s, "w", 1) {
			if c.UserID[:4] == "bulk" {
				bulk++
			} else {
				single++
			}
		}
	}
	if bulk < 3 || single < 3 {
		k.Errorf("of 20 claimed one by one, %d are bulk and %d single", bulk, single)
	}
}

// testClaimOnce sees that many claimers never get the same message, and get all
// of them, while more come in.
func testClaimOnce(k *kit) {
	s := k.store()
	stores := []notify.Store{s}
	if s.Shared() {
		stores = append(stores, k.store())
	}
	const senders, each, workers = 4, 10, 4
	total := int64(senders * each * 13)
	var got atomic.Int64
	var seen sync.Map
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for j := range each {
				users := names(fmt.Sprintf("u-%d-%d", i, j), 13)
				if _, _, err := stores[i%len(stores)].Accept(k.ctx, k.sending("c", users...)); err != nil {
					k.Error(err)
				}
			}
		})
	}
	for w := range workers {
		wg.Go(func() {
			store := stores[w%len(stores)]
			for got.Load() < total && k.ctx.Err() == nil && !k.Failed() {
				list, err := store.Claim(k.ctx, fmt.Sprint("w", w), 17, time.Minute)
				if err != nil {
					k.Error(err)
					return
				}
				for _, c := range list {
					if other, twice := seen.LoadOrStore(c.Number, w); twice {
						k.Errorf("message %d was given to %v and %d", c.Number, other, w)
					}
				}
				got.Add(int64(len(list)))
			}
		})
	}
	wg.Wait()
	k.equal("claimed", got.Load(), total)
	k.equal("more", numbersOf(k.claim(s, "late", 10)), []int64(nil))
}

// testClaimBesideFinish sees that a message is not given out in the moment in
// which it is finished, be it for good or until later.
func testClaimBesideFinish(k *kit) {
	s := k.store()
	stores := []notify.Store{s}
	if s.Shared() {
		stores = append(stores, k.store())
	}
	users := names("u", 400)
	k.accept(s, k.sending("c", users...))
	var attempts sync.Map
	var done atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			store := stores[w%len(stores)]
			for done.Load() < int64(len(users)) && k.ctx.Err() == nil && !k.Failed() {
				list, err := store.Claim(k.ctx, fmt.Sprint("w", w), 7+w, time.Hour)
				if err != nil {
					k.Error(err)
					return
				}
				var outcomes []notify.Outcome
				final := 0
				for _, c := range list {
					o := notify.Outcome{Number: c.Number, Status: notify.Delivered, Attempted: true, At: start}
					if c.Attempts == 0 { // all are tried twice
						o.Status, o.Due = notify.Retry, start
					} else {
						final++
					}
					key := fmt.Sprint(c.Number, " ", c.Attempts)
					if other, twice := attempts.LoadOrStore(key, w); twice {
						k.Errorf("attempt %s was made by %v and %d", key, other, w)
					}
					outcomes = append(outcomes, o)
				}
				if _, err := store.Finish(k.ctx, outcomes, nil); err != nil {
					k.Error(err)
					return
				}
				done.Add(int64(final))
			}
		})
	}
	wg.Wait()
	k.waits(s, 0)
}

func testLeaseEnds(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", "u1", "u2"))
	first := numbersOf(k.claim(s, "w1", 10))
	k.clock.Advance(59 * time.Second)
	k.equal("before the end", numbersOf(k.claim(s, "w2", 10)), []int64(nil))
	k.clock.Advance(time.Second)
	k.equal("at the end", numbersOf(k.claim(s, "w2", 10)), first)
	// Who was late is believed all the same.
	k.equal("late", len(k.finish(s, notify.Delivered, first[0])), 1)
	k.equal("held by the second", numbersOf(k.claim(s, "w3", 10)), []int64(nil))
	k.equal("nothing new", len(k.finish(s, notify.Failed, first[0])), 0)
	k.clock.Advance(time.Hour)
	k.equal("left", numbersOf(k.claim(s, "w3", 10)), first[1:])
}

func testRenew(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", "u1"))
	k.accept(s, k.sending("c", "u2"))
	a := numbersOf(k.claim(s, "w1", 1))
	b := numbersOf(k.claim(s, "w2", 1))
	k.clock.Advance(30 * time.Second)
	k.must(s.Renew(k.ctx, "w1", time.Minute))
	k.must(s.Renew(k.ctx, "nobody", time.Minute))
	k.clock.Advance(40 * time.Second)
	k.equal("not renewed", numbersOf(k.claim(s, "w3", 10)), b)
	k.clock.Advance(20 * time.Second)
	k.equal("renewed, then ended", numbersOf(k.claim(s, "w4", 10)), a)
	// Renewing for less does not shorten.
	k.must(s.Renew(k.ctx, "w4", time.Second))
	k.clock.Advance(2 * time.Second)
	k.equal("shortened", numbersOf(k.claim(s, "w5", 10)), []int64(nil))
}

func testRelease(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", "u1"))
	k.accept(s, k.sending("c", "u2"))
	a := numbersOf(k.claim(s, "w1", 1))
	k.claim(s, "w2", 1)
	k.must(s.Release(k.ctx, "w1"))
	k.equal("released", numbersOf(k.claim(s, "w3", 10)), a)
	k.must(s.Release(k.ctx, "w1"))
	k.equal("nothing more", numbersOf(k.claim(s, "w3", 10)), []int64(nil))
}

// testCrash sees that what a process held is given out again: at once when the
// same owner begins with Release, and after its lease in any case.
func testCrash(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", names("u", 150)...))
	first := numbersOf(k.claim(s, "w1", 100))
	k.finish(s, notify.Delivered, first[:40]...)
	k.finish(s, notify.Undeliverable, first[40:50]...)
	k.growing(s)
	k.equal("expansions", len(value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, "w1", 10, time.Hour))), 1)

	s = k.store()
	k.must(s.Release(k.ctx, "w1"))
	k.waits(s, 100)
	got := numbersOf(k.claim(s, "w1", 1000))
	k.equal("number after the crash", len(got), 100)
	for _, n := range first[:50] {
		if slices.Contains(got, n) {
			k.Errorf("message %d was finished and comes again", n)
		}
	}
	k.equal("expansions after the crash", len(value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, "w1", 10, time.Hour))), 1)
	k.equal("counts", k.counts(s, notify.SendOf(first[0])), notify.Counts{Total: 150, Queued: 100, Delivered: 40,
		Undeliverable: 10})

	s = k.store()
	k.clock.Advance(2 * time.Hour)
	k.equal("number after the lease", len(k.claim(s, "w2", 1000)), 100)
}

func testFinish(k *kit) {
	s := k.store()
	n := k.sending("c", "u1", "u2", "u3", "u4")
	n.Recipients = append(n.Recipients, notify.Recipient{UserID: "u5"})
	send := k.accept(s, n)
	numbers := numbersOf(k.claim(s, "w", 10))
	at := k.clock.Advance(time.Minute)
	later := at.Add(time.Minute)
	final := value[[]notify.Claimed](k)(s.Finish(k.ctx, []notify.Outcome{
		{Number: numbers[0], Status: notify.Delivered, Attempted: true, At: at},
		{Number: numbers[1], Status: notify.Failed, Attempted: true, Reason: "550 no", At: at},
		{Number: numbers[2], Status: notify.Undeliverable, Reason: "unsubscribed", At: at},
		{Number: numbers[3], Status: notify.Retry, Due: later, Reason: "451 later", Attempted: true, At: at},
		{Number: numbers[4], Status: notify.Failed, Parked: true, Reason: "template", Email: "u5@found.org", At: at},
		{Number: notify.MessageNumber(send.Number, 99), Status: notify.Delivered, At: at},
	}, nil))
	k.equal("final", numbersOf(final), []int64{numbers[0], numbers[1], numbers[2], numbers[4]})
	k.equal("send of the final", final[0].Send.Content, n.Content)
	k.equal("client of the final", final[0].Send.ClientID, "c")
	want := []notify.Message{
		{Recipient: people("u1")[0], Status: notify.Delivered, Attempts: 1},
		{Recipient: people("u2")[0], Status: notify.Failed, Attempts: 1, Reason: "550 no"},
		{Recipient: people("u3")[0], Status: notify.Undeliverable, Reason: "unsubscribed"},
		{Recipient: people("u4")[0], Status: notify.Retry, Attempts: 1, Reason: "451 later", Due: later, Postponed: true},
		{Recipient: notify.Recipient{UserID: "u5", Email: "u5@found.org"}, Status: notify.Failed, Parked: true,
			Reason: "template"},
	}
	for i := range want {
		want[i].Number, want[i].Updated = numbers[i], at
		got, client, err := s.Message(k.ctx, numbers[i])
		k.must(err)
		k.equal("message", got, want[i])
		k.equal("client", client, "c")
	}
	k.equal("final message", final[3].Message, want[4])
	k.equal("counts", k.counts(s, send.Number), notify.Counts{Total: 5, Retry: 1, Delivered: 1, Failed: 2,
		Undeliverable: 1})
	k.waits(s, 1)
	_, err := s.Finish(k.ctx, []notify.Outcome{{Number: numbers[3], Status: notify.Queued}}, nil)
	if err == nil {
		k.Error("queued is taken for an outcome")
	}
	none := value[[]notify.Claimed](k)(s.Finish(k.ctx, nil, nil))
	k.equal("nothing", len(none), 0)
	k.clock.Advance(time.Minute)
	k.finish(s, notify.Delivered, numbers[3])
	k.equal("finished", value[notify.Send](k)(s.Send(k.ctx, send.Number)).Finished, k.clock.Now())
}

func testFinishTwice(k *kit) {
	for _, size := range []int{3, 150} { // counted when asked, and all the time
		s := k.store()
		send := k.accept(s, k.sending("c", names("u", size)...))
		numbers := numbersOf(k.claim(s, "w", 1000))
		k.equal("first", len(k.finish(s, notify.Delivered, append(numbers, numbers...)...)), size)
		before, _, err := s.Message(k.ctx, numbers[0])
		k.must(err)
		k.clock.Advance(time.Second)
		for _, status := range []notify.Status{notify.Delivered, notify.Failed, notify.Retry} {
			k.equal("again", len(k.finish(s, status, numbers...)), 0)
		}
		s = k.store()
		k.equal("again", len(k.finish(s, notify.Failed, numbers...)), 0)
		after, _, err := s.Message(k.ctx, numbers[0])
		k.must(err)
		k.equal("message", after, before)
		k.equal("counts", k.counts(s, send.Number), notify.Counts{Total: size, Delivered: size})
		k.waits(s, 0)
	}
}

// testFinishTogether sees that counts are right when many finish messages of
// one send at once, some of them twice.
func testFinishTogether(k *kit) {
	s := k.store()
	stores := []notify.Store{s}
	if s.Shared() {
		stores = append(stores, k.store())
	}
	const size = 600
	send := k.accept(s, k.sending("c", names("u", size)...))
	numbers := numbersOf(k.claim(s, "w", size))
	var final atomic.Int64
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			store := stores[w%len(stores)]
			for step := range slices.Chunk(numbers[w/2*200:(w/2+1)*200], 40) {
				var outcomes []notify.Outcome
				for _, n := range step {
					outcomes = append(outcomes, notify.Outcome{Number: n, Status: notify.Delivered, At: start})
				}
				list, err := store.Finish(k.ctx, outcomes, nil)
				if err != nil {
					k.Error(err)
				}
				final.Add(int64(len(list)))
			}
		})
	}
	wg.Wait()
	k.equal("final", final.Load(), int64(size))
	k.equal("counts", k.counts(s, send.Number), notify.Counts{Total: size, Delivered: size})
	k.waits(s, 0)
}

func testRetry(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", "u1", "u2"))
	numbers := numbersOf(k.claim(s, "w", 10))
	k.finish(s, notify.Retry, numbers[0])
	k.waits(s, 2)
	k.equal("not due", numbersOf(k.claim(s, "w", 10)), []int64(nil))
	k.clock.Advance(time.Minute - time.Nanosecond)
	k.equal("not yet due", numbersOf(k.claim(s, "other", 10)), []int64(nil))
	k.must(s.Renew(k.ctx, "w", time.Hour))
	k.clock.Advance(time.Nanosecond)
	got := k.claim(s, "other", 10)
	k.equal("due", numbersOf(got), numbers[:1])
	k.equal("attempts", got[0].Attempts, 1)
	k.equal("status", got[0].Status, notify.Retry)
	k.finish(s, notify.Retry, numbers[0])
	s = k.store()
	k.must(s.Release(k.ctx, "w"))
	k.clock.Advance(time.Minute)
	got = k.claim(s, "other", 10)
	slices.SortFunc(got, func(a, b notify.Claimed) int { return int(a.Number - b.Number) })
	k.equal("after a restart", numbersOf(got), numbers)
	k.equal("attempts", got[0].Attempts, 2)
}

func testReplay(k *kit) {
	for _, size := range []int{2, 150} {
		s := k.store()
		send := k.accept(s, k.sending("c", names("u", size)...))
		numbers := numbersOf(k.claim(s, "w", 1000))
		k.finish(s, notify.Failed, numbers[0])
		k.finish(s, notify.Delivered, numbers[1:]...)
		k.clock.Advance(time.Minute)
		k.wantErr(s.Replay(k.ctx, "other", numbers[0]), notify.ErrNotFound)
		k.wantErr(s.Replay(k.ctx, "c", numbers[0]+int64(size)), notify.ErrNotFound)
		k.wantErr(s.Replay(k.ctx, "c", numbers[1]), notify.ErrConflict)
		k.must(s.Replay(k.ctx, "c", numbers[0]))
		k.wantErr(s.Replay(k.ctx, "c", numbers[0]), notify.ErrConflict)
		k.equal("counts", k.counts(s, send.Number), notify.Counts{Total: size, Queued: 1, Delivered: size - 1})
		k.waits(s, 1)
		got := k.claim(s, "w", 10)
		k.equal("replayed", numbersOf(got), numbers[:1])
		k.equal("status", got[0].Status, notify.Queued)
		k.finish(s, notify.Delivered, numbers[0])
		k.equal("counts", k.counts(s, send.Number), notify.Counts{Total: size, Delivered: size})
	}
}

// A message that waits again is claimable at once, although the lease it was claimed with still
// holds others.
func testWaitsAgain(k *kit) {
	for _, again := range []struct {
		name string
		wait func(s notify.Store, n int64)
	}{
		{"retried", func(s notify.Store, n int64) {
			value[[]notify.Claimed](k)(s.Finish(k.ctx, []notify.Outcome{
				{Number: n, Status: notify.Retry, At: k.clock.Now(), Due: k.clock.Now()},
			}, nil))
		}},
		{"replayed", func(s notify.Store, n int64) {
			k.finish(s, notify.Failed, n)
			k.must(s.Replay(k.ctx, "c", n))
		}},
	} {
		s := k.store()
		k.accept(s, k.sending("c", names("u", 4)...))
		numbers := numbersOf(k.claim(s, "w", 10))
		k.finish(s, notify.Delivered, numbers[3])
		again.wait(s, numbers[1])
		k.equal(again.name, numbersOf(k.claim(s, "other", 10)), numbers[1:2])
		again.wait(s, numbers[0])
		k.equal(again.name+", another of the same lease", numbersOf(k.claim(s, "other", 10)), numbers[:1])
		k.equal(again.name+": the rest stays leased", len(k.claim(s, "other", 10)), 0)
		k.finish(s, notify.Delivered, numbers...)
	}
}

func testNextDue(k *kit) {
	s := k.store()
	next := func(what string, want time.Time, some bool) {
		k.Helper()
		got, ok, err := s.NextDue(k.ctx)
		k.must(err)
		k.equal(what+": any", ok, some)
		k.equal(what, got, want)
	}
	next("empty", time.Time{}, false)
	k.accept(s, k.sending("c", "u1"))
	k.clock.Advance(time.Second)
	k.accept(s, k.sending("c", names("u", 120)...))
	next("single", start, true)
	numbers := numbersOf(k.claim(s, "w", 1000))
	next("held", k.clock.Now().Add(time.Minute), true)
	k.finish(s, notify.Delivered, numbers[1:]...)
	k.finish(s, notify.Retry, numbers[0])
	next("retry", k.clock.Now().Add(time.Minute), true)
	k.clock.Advance(time.Hour)
	k.finish(s, notify.Delivered, numbers[0])
	next("all done", time.Time{}, false)
	if _, _, err := s.Message(k.ctx, 1); !errors.Is(err, notify.ErrNotFound) {
		k.Error(err)
	}
}
