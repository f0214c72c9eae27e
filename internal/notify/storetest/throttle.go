package storetest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

func atMost(n int) *notify.ThrottleRule {
	return &notify.ThrottleRule{Limit: n, Window: notify.Delay(time.Hour), Over: notify.OverDrop}
}

// testThrottleRule stores, keeps and removes the rule of a kind, and that of a send.
func testThrottleRule(k *kit) {
	s := k.store()
	r := value[*notify.ThrottleRule](k)(notify.NewThrottleRule(3, "90m", "digest", []string{"webhook", "email"}))
	ref := notify.KindRef{ClientID: "c", KindID: "news"}
	k.wantErr(s.SetThrottleRule(k.ctx, ref, r), notify.ErrNotFound)
	kinds := []notify.Kind{{ID: "news"}, {ID: "other"}}
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, kinds, true))
	k.must(s.SetDigestRule(k.ctx, ref, value[*notify.DigestRule](k)(notify.NewDigestRule("1h", 0, "", nil))))
	before := value[notify.Stored](k)(s.Stored(k.ctx, "c")).Definitions
	k.must(s.SetThrottleRule(k.ctx, ref, r))
	k.equal("it counts", value[notify.Stored](k)(s.Stored(k.ctx, "c")).Definitions > before, true)
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, kinds, true))
	for _, kind := range value[[]notify.Kind](k)(s.Kinds(k.ctx, "c")) {
		want := r
		if kind.ID == "other" {
			want = nil
		}
		k.equal("rule of "+kind.ID, kind.ThrottleRule, want)
	}
	n := k.sending("c", "ann")
	n.ThrottleRule = r
	later := n
	later.SendAt = k.clock.Now().Add(time.Hour)
	for _, one := range []notify.NewSend{n, later} {
		send := k.accept(s, one)
		k.equal("rule of a send", value[notify.Send](k)(s.Send(k.ctx, send.Number)).ThrottleRule, r)
	}
	k.must(s.SetThrottleRule(k.ctx, ref, nil))
	k.equal("without", value[notify.Kind](k)(s.Kind(k.ctx, ref)).ThrottleRule == nil, true)
}

// testRulesFit sets rules that do not fit each other, one after the other and at the same time.
func testRulesFit(k *kit) {
	s := k.store()
	ref := notify.KindRef{ClientID: "c", KindID: "news"}
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, []notify.Kind{{ID: "news"}}, true))
	collects := value[*notify.DigestRule](k)(notify.NewDigestRule("1h", 0, "", nil))
	over := value[*notify.ThrottleRule](k)(notify.NewThrottleRule(3, "1h", "digest", nil))
	conflict := func(err error) bool { return fault.Is(err, fault.Conflict) }
	rules := func() []bool {
		kind := value[notify.Kind](k)(s.Kind(k.ctx, ref))
		return []bool{kind.DigestRule != nil, kind.ThrottleRule != nil}
	}
	k.equal("over the limit into no digest", conflict(s.SetThrottleRule(k.ctx, ref, over)), true)
	k.must(s.SetDigestRule(k.ctx, ref, collects))
	k.equal("a limit of what is collected", conflict(s.SetThrottleRule(k.ctx, ref, atMost(3))), true)
	k.must(s.SetThrottleRule(k.ctx, ref, over))
	k.equal("without the digest", conflict(s.SetDigestRule(k.ctx, ref, nil)), true)
	k.equal("nothing was changed", rules(), []bool{true, true})
	for range 10 {
		k.must(s.SetThrottleRule(k.ctx, ref, nil))
		k.must(s.SetDigestRule(k.ctx, ref, collects))
		done := make(chan error)
		go func() { done <- s.SetDigestRule(k.ctx, ref, nil) }()
		go func() { done <- s.SetThrottleRule(k.ctx, ref, over) }()
		refused := 0
		for range 2 {
			if err := <-done; err != nil {
				if refused++; !conflict(err) {
					k.Error(err)
				}
			}
		}
		have := rules()
		k.equal("one of them was refused", []any{refused, have[0] == have[1]}, []any{1, true})
	}
}

// asking asks about messages with these numbers.
func asking(r *notify.ThrottleRule, kind, user string, numbers ...int64) []notify.Ask {
	asks := make([]notify.Ask, len(numbers))
	for i, n := range numbers {
		asks[i] = notify.Ask{Number: n, KindRef: notify.KindRef{ClientID: "c", KindID: kind},
			Recipient: notify.Recipient{UserID: user}, Rule: r}
	}
	return asks
}

// testAdmit admits messages by kind, channel and recipient, with limits that change, and after the windows have passed.
func testAdmit(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, nil, true))
	admit := func(what string, asks []notify.Ask, want ...int64) {
		k.Helper()
		got := slices.Sorted(maps.Keys(value[map[int64]notify.Permit](k)(s.Admit(k.ctx, asks))))
		k.equal(what, got, slices.Sorted(slices.Values(want)))
	}
	three := atMost(3)
	admit("nothing", nil)
	admit("some", asking(three, "a", "ann", 1, 2), 1, 2)
	admit("too many", asking(three, "a", "ann", 3, 4, 5), 3)
	admit("again", asking(three, "a", "ann", 5, 3, 2, 1), 1, 2, 3)
	admit("another kind", asking(three, "b", "ann", 6), 6)
	admit("another recipient", append(asking(three, "a", "bob", 7, 8), asking(three, "a", "ann", 9)...), 7, 8)
	other := asking(three, "a", "ann", 10)
	other[0].Channel = notify.Inbox
	admit("another channel", other, 10)
	client := asking(three, "a", "ann", 11)
	client[0].ClientID = "d"
	admit("another client", client, 11)
	address := asking(three, "a", "", 12)
	address[0].Email = "Ann@example.com"
	admit("an address", address, 12)
	address = asking(atMost(1), "a", "", 13)
	address[0].Email = "ann@EXAMPLE.com"
	admit("the address", address)
	admit("a larger limit", asking(atMost(4), "a", "ann", 14, 15), 14)
	admit("a smaller limit", asking(atMost(1), "a", "bob", 16))
	k.clock.Advance(time.Hour - 1)
	admit("before the end", asking(three, "a", "ann", 17))
	k.must(purge(k, s))
	admit("not purged too early", asking(three, "a", "ann", 17))
	k.clock.Advance(1)
	admit("the next window", asking(three, "a", "ann", 18, 19, 20, 21), 18, 19, 20)
	k.clock.Advance(30 * time.Minute)
	admit("in its middle", asking(three, "a", "ann", 22))
	short := atMost(3)
	short.Window = notify.Delay(10 * time.Minute)
	admit("a shorter window", asking(short, "a", "ann", 23), 23)
	k.clock.Advance(30 * time.Minute)
	admit("one still counts", asking(three, "a", "ann", 24, 25, 26), 24, 25)
	k.clock.Advance(2 * time.Hour)
	k.must(purge(k, s))
	admit("after the purge", asking(three, "a", "ann", 27, 28, 29, 30), 27, 28, 29)
	most := atMost(notify.MaxThrottle)
	for n := int64(100); n < 400; n += 10 {
		k.clock.Advance(time.Second)
		numbers := make([]int64, 10)
		for i := range numbers {
			numbers[i] = n + int64(i)
		}
		got := value[map[int64]notify.Permit](k)(s.Admit(k.ctx, asking(most, "many", "ann", numbers...)))
		if want := n < 200; (len(got) == 10) != want || !want && len(got) != 0 {
			k.Errorf("%d of %d and more are admitted", len(got), n)
		}
	}
}

func purge(k *kit, s notify.Store) error {
	_, err := s.Purge(k.ctx, k.clock.Now().Add(-time.Hour))
	return err
}

// testPermits takes back permits of messages that were not attempted, and lets the others count from when they are
// sent.
func testPermits(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, nil, true))
	made := numbersOf(k.claimed(s, 2))
	rule, user, serial := atMost(1), "", 0
	begin := func() { // each part has its own recipient
		serial++
		user = fmt.Sprint("user-", serial)
	}
	admit := func(n int64) notify.Permit {
		k.Helper()
		return value[map[int64]notify.Permit](k)(s.Admit(k.ctx, asking(rule, "a", user, n)))[n]
	}
	admits := func(what string, n int64, want bool) {
		k.Helper()
		k.equal(what, admit(n).Limit != "", want)
	}
	outcome := func(n int64, p notify.Permit, status notify.Status, attempted bool) {
		k.Helper()
		k.record(s, []notify.Outcome{{Number: n, Status: status, Attempted: attempted, Permit: p, At: k.clock.Now(),
			Due: k.clock.Now().Add(time.Minute)}})
	}

	begin()
	first := admit(made[0])
	admits("over the limit", 1, false)
	outcome(made[0], first, notify.Retry, false)
	admits("after a message that was not attempted", 1, true)
	admits("the first is over the limit now", made[0], false)
	outcome(made[0], first, notify.Retry, false) // recorded twice
	admits("still", 2, false)

	begin()
	outcome(made[0], admit(made[0]), notify.Retry, true)
	admits("after an attempt", 1, false)

	begin()
	outcome(made[1], admit(made[1]), notify.Canceled, false)
	admits("after a message that was canceled", 1, true)

	begin()
	gone := admit(404)
	outcome(404, gone, notify.Retry, false)
	admits("after a message that was purged", 1, true)

	// A process that hung, and whose lease is over, does not take back what another one has admitted since.
	begin()
	first = admit(made[0])
	k.clock.Advance(time.Second)
	second := admit(made[0])
	outcome(made[0], first, notify.Retry, false)
	admits("while another process sends it", 1, false)
	outcome(made[0], second, notify.Retry, false)
	admits("after that", 1, true)

	// A killed process leaves its permits. A message counts from when it is sent, and is like any other after the window.
	begin()
	admits("before a kill", 1, true)
	k.clock.Advance(50 * time.Minute)
	admits("after it", 1, true)
	k.clock.Advance(11 * time.Minute)
	admits("an hour after the kill", 2, false)
	k.clock.Advance(50 * time.Minute)
	admits("an hour after it was sent", 3, true)
	admits("in a later window", 1, false)
}

// claimed accepts and claims messages.
func (k *kit) claimed(s notify.Store, n int) []notify.Claimed {
	k.Helper()
	k.accept(s, k.sending("c", names("u", n)...))
	return k.claim(s, "w", n)
}

// testAdmitTogether asks several stores at once, about recipients in different orders: all together admit as many as
// the limit.
func testAdmitTogether(k *kit) {
	stores := []notify.Store{k.store()}
	if stores[0].Shared() {
		stores = append(stores, k.store(), k.store())
	}
	const users, each, rounds = 20, 3, 15
	var mu sync.Mutex
	admitted := map[string]int{}
	var all sync.WaitGroup
	for i, s := range stores {
		for worker := range 2 {
			all.Go(func() {
				for round := range rounds {
					var asks []notify.Ask
					for j := range users {
						user := (j*(2*worker+1) + 7*i + round) % users
						asks = append(asks, asking(atMost(each), "a", fmt.Sprint(user),
							int64(1000*(i*2+worker)+users*round+user))...)
					}
					got, err := s.Admit(k.ctx, asks)
					if err != nil {
						k.Error(err)
						return
					}
					mu.Lock()
					for _, a := range asks {
						if got[a.Number].Limit != "" {
							admitted[a.UserID]++
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for user, n := range admitted {
		if n != each {
			k.Errorf("%d messages for %s, want %d", n, user, each)
		}
	}
	k.equal("users", len(admitted), users)
}

// testThrottled counts messages over a limit, in sends and in figures.
func testThrottled(k *kit) {
	s := k.store()
	send := k.accept(s, k.sending("shop", "ann", "bob", "dora"))
	numbers := numbersOf(k.claim(s, "w", 10))
	k.record(s, []notify.Outcome{{Number: numbers[0], Status: notify.Throttled, At: k.clock.Now()},
		{Number: numbers[1], Status: notify.Delivered, Attempted: true, At: k.clock.Now()}})
	k.equal("counts", k.counts(s, send.Number), notify.Counts{Total: 3, Queued: 1, Delivered: 1, Throttled: 1})
	k.equal("found", len(value[[]notify.Message](k)(s.FindMessages(k.ctx, notify.MessageQuery{ClientID: "shop",
		Status: notify.Throttled, Limit: 10}))), 1)
	k.waits(s, 1)
	k.equal("figures", groups(k.figuresOf(s, "shop", notify.FiguresByKind)), map[string]notify.Figures{
		"shop/kind/email///0": {Accepted: 2, Delivered: 1, Throttled: 1}})
	k.finish(s, notify.Throttled, numbers[2])
	k.waits(s, 0)
	k.clock.Advance(10 * 24 * time.Hour)
	k.must(purge(k, s))
	k.equal("purged", len(value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 10))), 0)
}
