package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

func testAccept(k *kit) {
	s := k.store()
	n := k.sending("c", "u1", "u2", "u1")
	n.Recipients = append(n.Recipients, notify.Recipient{Email: "x@y.org", Audience: 0},
		notify.Recipient{Email: "X@y.org"}, notify.Recipient{UserID: "u3"})
	n.Critical, n.KindDescription, n.SourceDescription, n.TemplateID, n.RequestID, n.Trace = true, "kd", "sd",
		"t", "r", "tp"
	n.SenderID, n.CampaignTypeID = "sender", "type"
	send := k.accept(s, n)
	if send.Number <= 0 {
		k.Fatalf("number is %d", send.Number)
	}
	want := n.Send
	want.Number = send.Number
	want.Counts = notify.Counts{Total: 4, Queued: 4}
	k.equal("answer", send, want)
	k.equal("send", value[notify.Send](k)(s.Send(k.ctx, send.Number)), want)
	k.waits(s, 4)
	messages := value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 100))
	var got []notify.Recipient
	for i, m := range messages {
		got = append(got, m.Recipient)
		k.equal("number", m.Number, notify.MessageNumber(send.Number, i))
		k.equal("status", m.Status, notify.Queued)
		k.equal("due", m.Due, k.clock.Now())
	}
	k.equal("recipients", got, []notify.Recipient{people("u1")[0], people("u2")[0], {Email: "x@y.org"}, {UserID: "u3"}})

	second := k.accept(s, k.sending("c", "u1"))
	if second.Number <= send.Number {
		k.Errorf("number %d follows %d", second.Number, send.Number)
	}
	_, err := s.Send(k.ctx, second.Number+1000)
	k.wantErr(err, notify.ErrNotFound)

	// A send without recipients is finished at once.
	k.clock.Advance(time.Hour)
	none := k.accept(s, k.sending("c"))
	k.equal("finished", none.Finished, k.clock.Now())
	k.equal("finished", value[notify.Send](k)(s.Send(k.ctx, none.Number)).Finished, k.clock.Now())
}

// testAcceptTogether sees that calls that share a commit each get their own
// send, with their own messages.
func testAcceptTogether(k *kit) {
	s := k.store()
	const callers, each = 16, 12
	var numbers sync.Map
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				n := k.sending("c", fmt.Sprintf("u-%d-%d", c, i))
				n.Content.Subject = n.Recipients[0].UserID
				send, replayed, err := s.Accept(k.ctx, n)
				if err != nil || replayed {
					k.Errorf("replayed %v, error %v", replayed, err)
					return
				}
				if other, taken := numbers.LoadOrStore(send.Number, n.Content.Subject); taken {
					k.Errorf("number %d was given to %v and %s", send.Number, other, n.Content.Subject)
				}
			}
		})
	}
	wg.Wait()
	k.waits(s, callers*each)
	got := map[string]bool{}
	for _, c := range k.claim(s, "w", 1000) {
		want, _ := numbers.Load(c.Send.Number)
		k.equal("subject", any(c.Send.Content.Subject), want)
		k.equal("user", c.UserID, c.Send.Content.Subject)
		got[c.UserID] = true
	}
	k.equal("number of messages", len(got), callers*each)
}

// testAcceptCancelled sees that a call that was given up stored its send or did
// not, as it says, and does not affect others.
func testAcceptCancelled(k *kit) {
	s := k.store()
	var stored atomic.Int64
	var wg sync.WaitGroup
	for c := range 12 {
		wg.Go(func() {
			for i := range 10 {
				ctx, cancel := context.WithCancel(k.ctx)
				if (c+i)%3 == 0 {
					if i%2 == 0 {
						cancel()
					} else {
						go cancel()
					}
				}
				_, _, err := s.Accept(ctx, k.sending("c", fmt.Sprintf("u-%d-%d", c, i)))
				cancel()
				switch {
				case err == nil:
					stored.Add(1)
				case !errors.Is(err, context.Canceled):
					k.Error(err)
				}
			}
		})
	}
	wg.Wait()
	k.waits(s, int(stored.Load()))
	k.equal("number of messages", len(k.claim(s, "w", 1000)), int(stored.Load()))
}

// testAcceptOneBad sees that a send that cannot be stored is no trouble for
// those that came with it.
func testAcceptOneBad(k *kit) {
	s := k.store()
	var wg sync.WaitGroup
	for c := range 10 {
		wg.Go(func() {
			for i := range 5 {
				n := k.sending("c", fmt.Sprintf("u-%d-%d", c, i))
				bad := c%5 == 0
				if bad {
					n.Content.Text = "a\x00b"
				}
				_, _, err := s.Accept(k.ctx, n)
				if bad != fault.Is(err, fault.Unprocessable) || !bad && err != nil {
					k.Errorf("bad is %v, error %v", bad, err)
				}
			}
		})
	}
	wg.Wait()
	k.waits(s, 8*5)
}

func keyed(n notify.NewSend, key, hash string, until time.Time) notify.NewSend {
	n.Idempotency = notify.Idempotency{Key: key, Hash: hash, Until: until}
	return n
}

func testIdempotency(k *kit) {
	s := k.store()
	until := k.clock.Now().Add(24 * time.Hour)
	first := k.accept(s, keyed(k.sending("c", "u"), "key", "hash", until))
	again, replayed, err := s.Accept(k.ctx, keyed(k.sending("c", "u"), "key", "hash", until))
	k.must(err)
	k.equal("replayed", replayed, true)
	k.equal("repeated answer", again, value[notify.Send](k)(s.Send(k.ctx, first.Number)))
	_, _, err = s.Accept(k.ctx, keyed(k.sending("c", "u"), "key", "other", until))
	k.wantErr(err, notify.ErrKeyReused)
	repeated := func(client, hash string) (found notify.Send, ok bool) {
		found, ok, err := s.Repeated(k.ctx, client, notify.Idempotency{Key: "key", Hash: hash})
		k.must(err)
		return found, ok
	}
	known, ok := repeated("c", "hash")
	k.equal("found", ok, true)
	k.equal("found before it is accepted", known, again)
	_, ok = repeated("nobody", "hash")
	k.equal("found for another client", ok, false)
	_, _, err = s.Repeated(k.ctx, "c", notify.Idempotency{Key: "key", Hash: "other"})
	k.wantErr(err, notify.ErrKeyReused)
	k.accept(s, keyed(k.sending("d", "u"), "key", "other", until)) // keys are each client's own
	k.waits(s, 2)

	s = k.store()
	_, replayed, err = s.Accept(k.ctx, keyed(k.sending("c", "u"), "key", "hash", until))
	k.must(err)
	k.equal("replayed by another process", replayed, true)

	k.clock.Advance(24 * time.Hour)
	_, ok = repeated("c", "hash")
	k.equal("an ended key is found", ok, false)
	later := k.accept(s, keyed(k.sending("c", "u"), "key", "other", until.Add(24*time.Hour)))
	if later.Number == first.Number {
		k.Error("an ended key is still kept")
	}
	k.waits(s, 3)
}

func testIdempotencyTogether(k *kit) {
	s := k.store()
	until := k.clock.Now().Add(time.Hour)
	var first, made atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			send, replayed, err := s.Accept(k.ctx, keyed(k.sending("c", "u"), "key", "hash", until))
			if err != nil {
				k.Error(err)
				return
			}
			if !replayed {
				made.Add(1)
			}
			if n := first.Swap(send.Number); n != 0 && n != send.Number {
				k.Errorf("one key made sends %d and %d", n, send.Number)
			}
			k.equal("total", send.Counts.Total, 1)
		})
	}
	wg.Wait()
	k.equal("sends made", made.Load(), int64(1))
	k.waits(s, 1)
}

func testQueueFull(k *kit) {
	s := k.open(Options{QueueLimit: 3, Now: k.clock.Now})
	until := k.clock.Now().Add(time.Hour)
	k.accept(s, keyed(k.sending("c", "u1", "u2"), "key", "hash", until))
	_, _, err := s.Accept(k.ctx, k.sending("c", "u3", "u4"))
	k.wantErr(err, notify.ErrQueueFull)
	_, _, err = s.Accept(k.ctx, keyed(k.sending("c", "u3", "u4"), "refused", "hash", until))
	k.wantErr(err, notify.ErrQueueFull)
	k.accept(s, k.sending("c", "u3"))
	waiting := k.sending("c")
	waiting.Expanded = false
	_, _, err = s.Accept(k.ctx, waiting)
	k.wantErr(err, notify.ErrQueueFull)
	// What was accepted before is answered all the same.
	_, replayed, err := s.Accept(k.ctx, keyed(k.sending("c", "u1", "u2"), "key", "hash", until))
	k.must(err)
	k.equal("replayed", replayed, true)
	k.waits(s, 3)

	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 10))...)
	k.waits(s, 0)
	// The key of a send that was refused is not used up.
	k.accept(s, keyed(k.sending("c", "u5"), "refused", "other", until))
	s = k.open(Options{QueueLimit: 1, Now: k.clock.Now})
	_, _, err = s.Accept(k.ctx, k.sending("c", "u6"))
	k.wantErr(err, notify.ErrQueueFull)
}

func testQueueFullTogether(k *kit) {
	const limit = 25
	s := k.open(Options{QueueLimit: limit, Now: k.clock.Now})
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for c := range 10 {
		wg.Go(func() {
			for i := range 5 {
				_, _, err := s.Accept(k.ctx, k.sending("c", fmt.Sprint(c, "-", i)))
				if err == nil {
					accepted.Add(1)
				} else if !errors.Is(err, notify.ErrQueueFull) {
					k.Error(err)
				}
			}
		})
	}
	wg.Wait()
	k.equal("accepted", accepted.Load(), int64(limit))
	k.waits(s, limit)
}

// growing is a send whose audience is still to be read.
func (k *kit) growing(s notify.Store, users ...string) notify.Send {
	k.Helper()
	n := k.sending("c", users...)
	n.Expanded = false
	return k.accept(s, n)
}

func testExtend(k *kit) {
	s := k.store()
	send := k.growing(s, "u0")
	k.equal("finished", send.Finished, time.Time{})
	page := notify.Cursor{Page: "2"}
	k.must(s.Extend(k.ctx, send.Number, notify.Cursor{}, people("u1", "u2"), page, false))
	k.wantErr(s.Extend(k.ctx, send.Number, notify.Cursor{}, people("u3"), page, false), notify.ErrConflict)
	k.wantErr(s.Extend(k.ctx, send.Number+100, notify.Cursor{}, people("u3"), page, false), notify.ErrNotFound)
	got := value[notify.Send](k)(s.Send(k.ctx, send.Number))
	k.equal("cursor", got.Cursor, page)
	k.equal("expanded", got.Expanded, false)
	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 10))...)
	k.equal("finished", value[notify.Send](k)(s.Send(k.ctx, send.Number)).Finished, time.Time{})
	last := notify.Cursor{Audience: 1}
	k.clock.Advance(time.Minute)
	k.must(s.Extend(k.ctx, send.Number, page, people("u3"), last, true))
	got = value[notify.Send](k)(s.Send(k.ctx, send.Number))
	k.equal("cursor", got.Cursor, last)
	k.equal("expanded", got.Expanded, true)
	k.equal("counts", got.Counts, notify.Counts{Total: 4, Queued: 1, Delivered: 3})
	k.wantErr(s.Extend(k.ctx, send.Number, last, people("u4"), last, true), notify.ErrConflict)
	k.waits(s, 1)
	k.clock.Advance(time.Minute)
	k.finish(s, notify.Failed, numbersOf(k.claim(s, "w", 10))...)
	got = value[notify.Send](k)(s.Send(k.ctx, send.Number))
	k.equal("counts", got.Counts, notify.Counts{Total: 4, Failed: 1, Delivered: 3})
	k.equal("finished", got.Finished, k.clock.Now())
}

// recipients are the members that a send has.
func (k *kit) recipients(s notify.Store, send int64) []string {
	k.Helper()
	var list []string
	for after := int64(-1); ; {
		page := value[[]notify.Message](k)(s.MessagesOf(k.ctx, send, after, 700))
		if len(page) == 0 {
			return list
		}
		for i, m := range page {
			if m.Number <= after {
				k.Fatalf("message %d comes after %d", m.Number, after)
			}
			after = page[i].Number
			if m.UserID != "" {
				list = append(list, m.UserID)
			} else {
				list = append(list, m.Email)
			}
		}
	}
}

// testExtendDuplicates checks that a repeated recipient, in the same chunk,
// the next or much later, is left out.
func testExtendDuplicates(k *kit) {
	s := k.store()
	send := k.growing(s, "u-000000")
	users := names("u", 3000)
	at := func(i int) notify.Cursor { return notify.Cursor{Page: fmt.Sprint(i)} }
	cursor := notify.Cursor{}
	step := func(i int, more []notify.Recipient, expanded bool) {
		k.Helper()
		k.must(s.Extend(k.ctx, send.Number, cursor, more, at(i), expanded))
		cursor = at(i)
	}
	step(1, people(append(users[:1000:1000], users[:10]...)...), false)
	step(2, people(users[999:2000]...), false)
	step(3, people(append(users[2000:3000:3000], users[5], users[1500])...), false)
	step(4, []notify.Recipient{{UserID: users[7], Email: "new@address.org"}, {Email: "Only@x.org"},
		{Email: users[3] + "@example.com"}}, false)
	step(5, []notify.Recipient{{Email: "only@X.org"}, {UserID: "last"}}, true)
	want := slices.Concat(users, []string{"Only@x.org", users[3] + "@example.com", "last"})
	k.equal("recipients", k.recipients(s, send.Number), want)
	k.equal("counts", k.counts(s, send.Number), notify.Counts{Total: len(want), Queued: len(want)})
	k.waits(s, len(want))
}

func testExtendAudiences(k *kit) {
	s := k.store()
	n := k.sending("c", "u-000001")
	n.Expanded = false
	n.Audiences = []notify.Audience{{Type: notify.ToSpace, ID: "1"}, {Type: notify.ToOrg, ID: "2"}}
	send := k.accept(s, n)
	users := names("u", 1500)
	second := people(users[500:]...)
	for i := range second {
		second[i].Audience = 1
	}
	k.must(s.Extend(k.ctx, send.Number, notify.Cursor{}, people(users[:1000]...), notify.Cursor{Audience: 1}, false))
	s = k.store()
	k.must(s.Extend(k.ctx, send.Number, notify.Cursor{Audience: 1}, second, notify.Cursor{Audience: 2}, true))
	got := map[string]int{}
	for _, u := range k.recipients(s, send.Number) {
		got[u]++
	}
	k.equal("number of recipients", len(got), len(users))
	k.equal("total", k.counts(s, send.Number).Total, len(users))
	last := value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, notify.MessageNumber(send.Number, len(users)-2),
		10))
	k.equal("number of messages", len(last), 1)
	k.equal("audience", last[0].Audience, 1)
}

// testExtendTogether sees that of processes that extend from the same cursor
// one wins, and no recipient is added twice.
func testExtendTogether(k *kit) {
	s := k.store()
	send := k.growing(s)
	stores := []notify.Store{s, s}
	if s.Shared() {
		stores[1] = k.store()
	}
	users := names("u", 800)
	var won atomic.Int64
	var wg sync.WaitGroup
	for _, s := range stores {
		for range 3 {
			wg.Go(func() {
				for i := range 8 {
					from, to := notify.Cursor{Page: fmt.Sprint(i)}, notify.Cursor{Page: fmt.Sprint(i + 1)}
					if i == 0 {
						from = notify.Cursor{}
					}
					err := s.Extend(k.ctx, send.Number, from, people(users[max(0, i*100-1):(i+1)*100]...), to, i == 7)
					if err == nil {
						won.Add(1)
					} else if !errors.Is(err, notify.ErrConflict) {
						k.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	k.equal("steps", won.Load(), int64(8))
	k.equal("recipients", k.recipients(s, send.Number), users)
}

// testExtendReopened sees that a new process knows whom the send has.
func testExtendReopened(k *kit) {
	s := k.store()
	send := k.growing(s)
	users := names("u", 1200)
	one, two := notify.Cursor{Page: "1"}, notify.Cursor{Page: "2"}
	k.must(s.Extend(k.ctx, send.Number, notify.Cursor{}, people(users[:1000]...), one, false))
	s = k.store()
	k.must(s.Extend(k.ctx, send.Number, one, people(users[1:]...), two, true))
	k.equal("recipients", k.recipients(s, send.Number), users)
}

func testClaimExpansions(k *kit) {
	s := k.store()
	a, b := k.growing(s, "u1"), k.growing(s)
	k.accept(s, k.sending("c", "u"))
	claim := func(owner string, limit int) []int64 {
		k.Helper()
		var list []int64
		for _, send := range value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, owner, limit, time.Minute)) {
			list = append(list, send.Number)
		}
		return list
	}
	k.equal("first", claim("w1", 1), []int64{a.Number})
	k.equal("second", claim("w2", 10), []int64{b.Number})
	k.equal("none left", claim("w3", 10), []int64(nil))
	k.clock.Advance(50 * time.Second)
	k.must(s.Renew(k.ctx, "w1", time.Minute))
	k.clock.Advance(20 * time.Second)
	k.equal("after the lease", claim("w3", 10), []int64{b.Number})
	k.must(s.Release(k.ctx, "w1"))
	got := value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, "w4", 10, time.Minute))
	k.equal("number released", len(got), 1)
	k.equal("released", got[0], value[notify.Send](k)(s.Send(k.ctx, a.Number)))
	k.must(s.Extend(k.ctx, a.Number, notify.Cursor{}, nil, notify.Cursor{Audience: 1}, true))
	k.clock.Advance(time.Hour)
	k.equal("not expanded", claim("w5", 10), []int64{b.Number})
}
