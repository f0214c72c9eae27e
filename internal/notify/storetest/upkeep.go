package storetest

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"ingot/internal/notify"
)

func testIDKey(k *kit) {
	s := k.store()
	var mu sync.Mutex
	var keys [][]byte
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			key, err := s.IDKey(k.ctx)
			if err != nil {
				k.Error(err)
			}
			mu.Lock()
			keys = append(keys, key)
			mu.Unlock()
		})
	}
	wg.Wait()
	keys = append(keys, value[[]byte](k)(k.store().IDKey(k.ctx)))
	for _, key := range keys {
		if len(key) != 32 || !bytes.Equal(key, keys[0]) {
			k.Fatalf("keys differ or have a wrong length: %x and %x", key, keys[0])
		}
	}
	if bytes.Equal(keys[0], make([]byte, 32)) {
		k.Error("the key is all zero")
	}
}

func testPurge(k *kit) {
	s := k.store()
	old := k.accept(s, k.sending("c", "u1"))
	none := k.accept(s, k.sending("c"))
	waiting := k.accept(s, k.sending("c", "u2"))
	unread := k.growing(s)
	keep := keyed(k.sending("c", "u3"), "key", "hash", k.clock.Now().Add(time.Hour))
	replayed := k.accept(s, keep)
	claimed := k.claim(s, "w", 10)
	for _, c := range claimed {
		if c.Send.Number != waiting.Number {
			k.finish(s, notify.Delivered, c.Number)
		}
	}
	k.equal("too early", value[int](k)(s.Purge(k.ctx, k.clock.Now())), 0)
	before := k.clock.Advance(time.Nanosecond)
	k.equal("purged", value[int](k)(s.Purge(k.ctx, before)), 2)
	for _, n := range []int64{old.Number, none.Number, replayed.Number} {
		_, err := s.Send(k.ctx, n)
		k.wantErr(err, notify.ErrNotFound)
		_, _, err = s.Message(k.ctx, notify.MessageNumber(n, 0))
		k.wantErr(err, notify.ErrNotFound)
	}
	for _, n := range []int64{waiting.Number, unread.Number} {
		_, err := s.Send(k.ctx, n)
		k.must(err)
	}
	k.waits(s, 1)
	// A key outlives its send, and ends by itself.
	again, was, err := s.Accept(k.ctx, keep)
	k.must(err)
	k.equal("replayed", was, true)
	k.equal("number", again.Number, replayed.Number)
	k.clock.Advance(time.Hour)
	k.equal("nothing more", value[int](k)(s.Purge(k.ctx, before)), 0)
	fresh := k.accept(s, keep)
	if fresh.Number <= unread.Number {
		k.Errorf("number %d was used before", fresh.Number)
	}
}

// testPurgeCounts sees that counts stay when a part of a send's messages goes.
func testPurgeCounts(k *kit) {
	for _, size := range []int{10, 150} {
		s := k.store()
		send := k.accept(s, k.sending("c", names("u", size)...))
		numbers := numbersOf(k.claim(s, "w", 1000))
		k.finish(s, notify.Delivered, numbers[:3]...)
		k.finish(s, notify.Failed, numbers[3:5]...)
		k.clock.Advance(time.Minute)
		k.finish(s, notify.Undeliverable, numbers[5])
		want := notify.Counts{Total: size, Queued: size - 6, Delivered: 3, Failed: 2, Undeliverable: 1}
		k.equal("purged", value[int](k)(s.Purge(k.ctx, k.clock.Now())), 5)
		k.equal("counts", k.counts(s, send.Number), want)
		k.equal("messages left", len(value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 1000))), size-5)
		k.clock.Advance(time.Minute)
		k.finish(s, notify.Delivered, numbers[6:]...)
		want.Delivered += want.Queued
		want.Queued = 0
		end := k.clock.Now()
		k.equal("purged", value[int](k)(s.Purge(k.ctx, end)), 1)
		got := value[notify.Send](k)(s.Send(k.ctx, send.Number))
		k.equal("counts", got.Counts, want)
		k.equal("finished", got.Finished, end)
		k.equal("purged", value[int](k)(s.Purge(k.ctx, k.clock.Advance(time.Minute))), size-6)
		_, err := s.Send(k.ctx, send.Number)
		k.wantErr(err, notify.ErrNotFound)
	}
}

// testPurgeMany sees that Purge goes on after its first step.
func testPurgeMany(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", names("large", 1100)...))
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 130 {
				if _, _, err := s.Accept(k.ctx, k.sending("c", fmt.Sprint("u-", w, "-", i))); err != nil {
					k.Error(err)
				}
			}
		})
	}
	wg.Wait()
	claimed := numbersOf(k.claim(s, "w", 10_000))
	k.equal("claimed", len(claimed), 2140)
	k.finish(s, notify.Delivered, claimed[1:]...)
	k.equal("purged", value[int](k)(s.Purge(k.ctx, k.clock.Advance(time.Minute))), 2139)
	left := value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{ClientID: "c", Limit: 10}))
	k.equal("number of sends left", len(left), 1)
	k.equal("left", left[0].Number, notify.SendOf(claimed[0]))
}

// testRetention stores, keeps and removes how long a kind's messages are kept, and sees that sends, scheduled ones and
// digests have it.
func testRetention(k *kit) {
	s := k.store()
	const kept = 90 * 24 * time.Hour
	ref := notify.KindRef{ClientID: "shop", KindID: "kind"}
	k.wantErr(s.SetKept(k.ctx, ref, kept), notify.ErrNotFound)
	kinds := []notify.Kind{{ID: "kind"}, {ID: "other"}}
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, kinds, true))
	k.must(s.SetKept(k.ctx, ref, kept))
	s = k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, kinds, true))
	for _, kind := range value[[]notify.Kind](k)(s.Kinds(k.ctx, "shop")) {
		want := time.Duration(0)
		if kind.ID == "kind" {
			want = kept
		}
		k.equal("of "+kind.ID, kind.Kept, want)
	}
	_, kind, err := s.Registration(k.ctx, ref)
	k.must(err)
	k.equal("registered", kind.Kept, kept)

	now := k.sending("shop", "ann")
	now.Kept = kept
	k.finish(s, notify.Delivered, notify.MessageNumber(k.accept(s, now).Number, 0))
	later := now
	later.SendAt = k.clock.Now().Add(time.Hour)
	later.Audiences = []notify.Audience{{Type: notify.ToUser, ID: "ann"}}
	later.Recipients, later.Planned, later.Expanded = nil, 1, false
	canceled := k.accept(s, later)
	value[notify.Send](k)(s.Cancel(k.ctx, canceled.Number))
	k.accept(s, later)
	entry := k.collecting(hourly(50), "a", "ann")
	entry.Kept = kept
	k.accept(s, entry)
	k.equal("collected", k.collect(s, nil), 1)
	k.clock.Advance(time.Hour)
	k.activate(s, 1, time.Time{})
	k.close(s, 1, time.Time{})
	for _, c := range k.claim(s, "w", 10) {
		k.equal("of a claimed message", c.Send.Kept, kept)
		k.finish(s, notify.Delivered, c.Number)
	}
	// All of them were also stored where Purge looks.
	k.clock.Advance(kept)
	sends := func() int {
		k.Helper()
		return len(value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{ClientID: "shop", Limit: 10})))
	}
	k.equal("accepted", sends(), 5)
	value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(-time.Minute)))
	k.equal("the latest are kept", sends(), 3)
	k.clock.Advance(time.Nanosecond)
	value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(-time.Minute)))
	k.equal("left", sends(), 0)

	k.must(s.SetKept(k.ctx, ref, 0))
	k.equal("removed", value[notify.Kind](k)(s.Kind(k.ctx, ref)).Kept, time.Duration(0))
}

// testPurgeKept purges sends that are kept for different times, and lie between each other.
func testPurgeKept(k *kit) {
	const usual = 24 * time.Hour
	s := k.store()
	sends := map[time.Duration][]int64{}
	accept := func(kept time.Duration, users ...string) int64 {
		k.Helper()
		n := k.sending("c", users...)
		n.Kept = kept
		number := k.accept(s, n).Number
		sends[kept] = append(sends[kept], number)
		return number
	}
	for i := range 3 {
		for _, kept := range []time.Duration{time.Hour, 0, 2 * usual} {
			accept(kept, "ann", fmt.Sprint("u", i))
			accept(kept)
		}
	}
	large := accept(2*usual, names("m", 150)...)
	brief := accept(time.Hour, names("m", 150)...)
	mixed := accept(time.Hour, "slow", "quick")
	for _, c := range k.claim(s, "w", 1000) {
		if c.UserID != "slow" {
			k.finish(s, notify.Delivered, c.Number)
		}
	}
	purge := func() int {
		k.Helper()
		s = k.store()
		return value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(-usual)))
	}
	left := func() (all []time.Duration) {
		for _, kept := range []time.Duration{time.Hour, 0, 2 * usual} {
			for _, number := range sends[kept] {
				if _, err := s.Send(k.ctx, number); err == nil && number != mixed {
					all = append(all, kept)
					break
				}
			}
		}
		return all
	}
	k.clock.Advance(time.Hour)
	k.equal("too early", purge(), 0)
	k.clock.Advance(time.Nanosecond)
	k.equal("after an hour", purge(), 3*2+150+1)
	k.equal("left", left(), []time.Duration{0, 2 * usual})
	_, err := s.Send(k.ctx, brief)
	k.wantErr(err, notify.ErrNotFound)
	k.equal("counts of a send that is partly purged", k.counts(s, mixed), notify.Counts{Total: 2, Queued: 1, Delivered: 1})
	k.clock.Advance(usual - time.Hour)
	k.equal("after a day", purge(), 3*2)
	k.equal("left", left(), []time.Duration{2 * usual})
	k.equal("counts of what is kept", k.counts(s, large), notify.Counts{Total: 150, Delivered: 150})
	k.clock.Advance(usual)
	k.equal("after two days", purge(), 3*2+150)
	k.equal("left", left(), []time.Duration(nil))
	k.finish(s, notify.Delivered, notify.MessageNumber(mixed, 0))
	k.clock.Advance(time.Hour + time.Nanosecond)
	k.equal("the last", purge(), 1)
	_, err = s.Send(k.ctx, mixed)
	k.wantErr(err, notify.ErrNotFound)
}

// testWorkflowPurge sees that what a condition may ask about is kept as long as its message waits.
func testWorkflowPurge(k *kit) {
	w := k.workflow(laterMail)
	for _, size := range []int{2, 600} { // more than one step of the purge
		s := k.store()
		users := names("u", size)
		send := k.accept(s, k.traveling(w, users...))
		plain := k.accept(s, k.sending("shop", "ann", "bob"))
		var inbox, mails, chat []int64
		waits := int64(0) // the mail that stays
		for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 5000)) {
			switch {
			case m.Channel == notify.Inbox:
				inbox = append(inbox, m.Number)
			case m.Channel == notify.Chat:
				chat = append(chat, m.Number)
			case m.UserID == users[0]:
				waits = m.Number
			default:
				mails = append(mails, m.Number)
			}
		}
		k.finish(s, notify.Delivered, append(inbox, chat...)...)
		k.finish(s, notify.Delivered, notify.MessageNumber(plain.Number, 0))
		k.clock.Advance(30 * time.Minute)
		purge := func() int {
			k.Helper()
			s = k.store()
			return value[int](k)(s.Purge(k.ctx, k.clock.Now()))
		}
		progress := func(of int64) int {
			k.Helper()
			m, _, err := s.Message(k.ctx, of)
			k.must(err)
			return len(value[map[int64]map[notify.ChannelID]notify.Progress](k)(s.Progress(k.ctx,
				[]notify.Message{m}))[of])
		}
		k.equal("purged without a workflow", purge() >= 1, true)
		for _, number := range append(mails, waits) {
			k.equal("known about the inbox", progress(number), 1)
		}
		k.finish(s, notify.Skipped, mails...)
		k.clock.Advance(time.Minute)
		purged := purge()
		k.equal("most is purged", purged >= 2*size-2-2*notify.ChannelCount, true)
		k.equal("known about the last", progress(waits), 1)
		k.finish(s, notify.Delivered, waits)
		k.clock.Advance(time.Minute)
		purge()
		_, err := s.Send(k.ctx, send.Number)
		k.wantErr(err, notify.ErrNotFound)
	}
}

func testWebhooks(k *kit) {
	s := k.store()
	a := notify.Webhook{ID: "1", ClientID: "c", URL: "https://x.org/a", Secret: "s3cret",
		Events: []notify.Status{notify.Failed}, Created: start}
	b := notify.Webhook{ID: "0", ClientID: "c", URL: "https://x.org/b", Secret: "", Created: start.Add(time.Second)}
	k.must(s.CreateWebhook(k.ctx, a))
	k.must(s.CreateWebhook(k.ctx, b))
	k.wantErr(s.CreateWebhook(k.ctx, a), notify.ErrConflict)
	k.equal("webhooks", value[[]notify.Webhook](k)(s.Webhooks(k.ctx, "c")), []notify.Webhook{a, b})
	k.equal("of another", value[[]notify.Webhook](k)(s.Webhooks(k.ctx, "d")), []notify.Webhook{})
	k.wantErr(s.DeleteWebhook(k.ctx, "d", "1"), notify.ErrNotFound)
	k.must(s.DeleteWebhook(k.ctx, "c", "1"))
	k.equal("left", value[[]notify.Webhook](k)(s.Webhooks(k.ctx, "c")), []notify.Webhook{b})
}

func testCallbacks(k *kit) {
	s := k.store()
	k.must(s.CreateWebhook(k.ctx, notify.Webhook{ID: "h", ClientID: "c", URL: "https://x.org", Secret: "s3cret",
		Created: start}))
	k.must(s.CreateWebhook(k.ctx, notify.Webhook{ID: "gone", ClientID: "c", URL: "https://y.org", Created: start}))
	first := notify.Callback{ID: "1", WebhookID: "h", Payload: []byte(`{"ü":1}`)}
	k.tell(s, map[string][]notify.Callback{"h": {first, {ID: "2", WebhookID: "h", Payload: []byte("{}")}},
		"gone": {{ID: "3", WebhookID: "gone"}}})
	k.tell(s, map[string][]notify.Callback{"h": {first}}) // once is enough
	k.tell(s, nil)
	k.must(s.DeleteWebhook(k.ctx, "c", "gone"))
	claim := func(owner string, limit int) []notify.Callback {
		k.Helper()
		return value[[]notify.Callback](k)(s.Callbacks(k.ctx, owner, limit, time.Minute))
	}
	first.URL, first.Secret = "https://x.org", "s3cret"
	k.equal("first", claim("w1", 1), []notify.Callback{first})
	k.equal("second", len(claim("w2", 10)), 1)
	k.equal("none left", claim("w3", 10), []notify.Callback{})
	k.clock.Advance(30 * time.Second)
	k.must(s.Renew(k.ctx, "w2", time.Hour))
	k.clock.Advance(30 * time.Second)
	k.equal("after the lease", claim("w3", 10), []notify.Callback{first})
	k.must(s.FinishCallback(k.ctx, "1", 1, k.clock.Now().Add(time.Minute)))
	k.must(s.Release(k.ctx, "w2"))
	second := claim("w4", 10)
	k.equal("released", len(second), 1)
	k.equal("released", second[0].ID, "2")
	k.must(s.FinishCallback(k.ctx, "2", 1, time.Time{}))
	k.must(s.FinishCallback(k.ctx, "2", 1, time.Time{}))
	k.equal("put off", claim("w4", 10), []notify.Callback{})
	k.clock.Advance(time.Minute)
	first.Attempts = 1
	k.equal("again", claim("w4", 10), []notify.Callback{first})
	s = k.store()
	k.must(s.Release(k.ctx, "w4"))
	k.equal("after a crash", claim("w4", 10), []notify.Callback{first})
	k.must(s.FinishCallback(k.ctx, "1", 1, k.clock.Now()))
	k.equal("a call that was not made", claim("w4", 10), []notify.Callback{first})
	k.must(s.FinishCallback(k.ctx, "1", 1, time.Time{}))
	k.clock.Advance(time.Hour)
	k.equal("done", claim("w4", 10), []notify.Callback{})
}

// tell ends a message of the client c, of which its webhooks are told this.
func (k *kit) tell(s notify.Store, calls map[string][]notify.Callback) {
	k.Helper()
	k.accept(s, notify.NewSend{Send: notify.Send{ClientID: "c", Expanded: true},
		Recipients: []notify.Recipient{{Email: "a@x.org"}}})
	claimed := value[[]notify.Claimed](k)(s.Claim(k.ctx, "teller", 10, time.Minute))
	var outcomes []notify.Outcome
	for _, c := range claimed {
		outcomes = append(outcomes, notify.Outcome{Number: c.Number, Status: notify.Delivered, Attempted: true,
			At: k.clock.Now()})
	}
	final, err := s.Finish(k.ctx, outcomes,
		func(w notify.Webhook, _ []*notify.Claimed) []notify.Callback { return calls[w.ID] })
	k.must(err)
	k.equal("finished", len(final), 1)
}

// testTelling: what webhooks are told is stored with the end of the messages,
// or neither is.
func testTelling(k *kit) {
	s := k.store()
	for _, w := range []notify.Webhook{
		{ID: "h", ClientID: "c", URL: "https://x.org", Events: []notify.Status{notify.Failed}, Created: start},
		{ID: "other", ClientID: "d", URL: "https://y.org", Created: start},
	} {
		k.must(s.CreateWebhook(k.ctx, w))
	}
	k.accept(s, notify.NewSend{Send: notify.Send{ClientID: "c", Expanded: true}, Recipients: []notify.Recipient{
		{Email: "a@x.org"}, {Email: "b@x.org"}, {Email: "c@x.org"},
	}})
	claimed := value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 10, time.Minute))
	k.equal("claimed", len(claimed), 3)
	outcomes := []notify.Outcome{
		{Number: claimed[0].Number, Status: notify.Delivered, Attempted: true, At: start},
		{Number: claimed[1].Number, Status: notify.Retry, Due: start.Add(time.Hour), Attempted: true, At: start},
		{Number: claimed[2].Number, Status: notify.Failed, Reason: "no", Attempted: true, At: start},
	}
	// A call that cannot be stored: nothing has ended.
	_, err := s.Finish(k.ctx, outcomes, func(notify.Webhook, []*notify.Claimed) []notify.Callback {
		return []notify.Callback{{ID: "bad\x00"}}
	})
	if err == nil {
		k.Fatal("a call that cannot be stored was stored")
	}
	for _, c := range claimed {
		m, _, err := s.Message(k.ctx, c.Number)
		k.must(err)
		k.equal("status after a failure", m.Status, notify.Queued)
	}
	k.equal("calls after a failure", value[[]notify.Callback](k)(s.Callbacks(k.ctx, "w", 10, time.Minute)),
		[]notify.Callback{})

	var asked []string
	final, err := s.Finish(k.ctx, outcomes, func(w notify.Webhook, about []*notify.Claimed) []notify.Callback {
		asked = []string{w.ID, w.ClientID, string(w.Events[0])}
		var text string
		for _, m := range about {
			text += string(m.Status) + " "
		}
		return []notify.Callback{{ID: "1", WebhookID: w.ID, Payload: []byte(text)}}
	})
	k.must(err)
	k.equal("final", len(final), 2)
	k.equal("asked for", asked, []string{"h", "c", "failed"})
	// Killed here, the next process makes the call.
	s = k.store()
	calls := value[[]notify.Callback](k)(s.Callbacks(k.ctx, "w", 10, time.Minute))
	k.equal("calls", len(calls), 1)
	k.equal("about", string(calls[0].Payload), "delivered failed ")
	// Final messages are not reported again.
	_, err = s.Finish(k.ctx, outcomes[:1], func(notify.Webhook, []*notify.Claimed) []notify.Callback {
		k.Error("told twice")
		return nil
	})
	k.must(err)
}
