package storetest

import (
	"fmt"
	"time"

	"ingot/internal/notify"
)

// mailAt returns the number of a user's mail of a send.
func (k *kit) mailAt(s notify.Store, send int64, user string) int64 {
	k.Helper()
	for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send, -1, 1000)) {
		if m.Channel == notify.Email && m.UserID == user {
			return m.Number
		}
	}
	k.Fatalf("send %d has no mail to %s", send, user)
	return 0
}

// testWorkflowLimit sees that each delayed message counts from when it is made until it is final, however it comes
// about and ends, and that it counts for its client only.
func testWorkflowLimit(k *kit) {
	const limit = 4
	s := k.store()
	w := k.workflow(laterMail)
	accept := func(n notify.NewSend) (notify.Send, error) {
		n.DelayedLimit = limit
		send, _, err := s.Accept(k.ctx, n)
		return send, err
	}
	// left checks how many more a client may have, after a restart too.
	left := func(when, client string, want int) {
		k.Helper()
		s = k.store()
		for n := limit + 1; n > 0; n-- {
			many := k.traveling(w, names("try", n)...)
			many.ClientID = client
			send, err := accept(many)
			if err == nil {
				k.equal(when+": left to "+client, n, want)
				k.cancel(s, send.Number)
				return
			}
			k.wantErr(err, notify.ErrDelayedFull)
		}
		k.equal(when+": left to "+client, 0, want)
	}
	left("at first", "shop", 4)
	three := value[notify.Send](k)(accept(k.traveling(w, "ann", "bob", "cid")))
	left("three", "shop", 1)
	left("three", "other", 4)
	key := notify.Idempotency{Key: "key", Hash: "h", Until: k.clock.Now().Add(time.Hour)}
	two := k.traveling(w, "dan", "eve")
	two.Idempotency = key
	_, err := accept(two)
	k.wantErr(err, notify.ErrDelayedFull)
	k.accept(s, k.sending("shop", names("u", 10)...)) // without a workflow
	left("refused", "shop", 1)

	ann := k.mailAt(s, three.Number, "ann")
	k.finish(s, notify.Retry, ann)
	left("retried", "shop", 1)
	k.finish(s, notify.Failed, ann)
	k.finish(s, notify.Failed, ann)
	left("failed", "shop", 2)
	k.must(s.Replay(k.ctx, "shop", ann))
	left("replayed", "shop", 1)
	k.finish(s, notify.Skipped, ann)
	left("skipped", "shop", 2)
	again := value[notify.Send](k)(accept(two)) // the key of what was refused is free
	left("full", "shop", 0)
	k.cancel(s, again.Number)
	k.cancel(s, again.Number)
	left("canceled", "shop", 2)
	k.cancel(s, three.Number)
	left("empty", "shop", 4)

	// Members that are read later count then, those of a list at once.
	audience := k.traveling(w)
	audience.Expanded = false
	grown := value[notify.Send](k)(accept(audience))
	k.must(s.Extend(k.ctx, grown.Number, notify.Cursor{}, w.Channels().Messages(people(names("m", 6)...)),
		notify.Cursor{Audience: 1}, true))
	left("expanded", "shop", 0)
	_, err = accept(audience)
	k.wantErr(err, notify.ErrDelayedFull)
	k.cancel(s, grown.Number)
	audience.Planned = limit + 1
	_, err = accept(audience)
	k.wantErr(err, notify.ErrDelayedFull)

	// So do scheduled ones, which are refused when there is no room.
	at := k.clock.Now().Add(time.Minute)
	later := k.later("shop", "ann", at)
	later.Workflow, later.Channels, later.Planned = w, w.Channels(), limit+1
	_, err = accept(later)
	k.wantErr(err, notify.ErrDelayedFull)
	later.Planned = 1
	planned := value[notify.Send](k)(accept(later))
	left("scheduled", "shop", 4)
	k.clock.Advance(time.Minute)
	k.activate(s, 1, time.Time{})
	left("due", "shop", 3)
	k.finish(s, notify.Delivered, k.mailAt(s, planned.Number, "ann"))
	left("delivered", "shop", 4)
}

// testWorkflowFlood sees that a client that has as many delayed messages as it may neither fills the queue for others
// nor delays their messages, before and when its own are due.
func testWorkflowFlood(k *kit) {
	const queue, limit = 500, 200
	s := k.open(Options{QueueLimit: queue, Now: k.clock.Now})
	w := k.workflow(`{"steps":[{"channel":"email","after":"1h"}]}`)
	flood := func() (accepted int) {
		for i := range 2 * limit / 10 {
			n := k.traveling(w, names(fmt.Sprint("u", i), 10)...)
			n.DelayedLimit = limit
			_, _, err := s.Accept(k.ctx, n)
			if err == nil {
				accepted += 10
				continue
			}
			k.wantErr(err, notify.ErrDelayedFull)
		}
		return accepted
	}
	k.equal("accepted", flood(), limit)
	k.waits(s, limit)
	other := func(when string) {
		k.Helper()
		send := k.accept(s, k.sending("other", "ann"))
		claimed := k.claim(s, "w", 4)
		of := make([]int64, len(claimed))
		found := false
		for i, c := range claimed {
			of[i] = c.Number
			found = found || c.Send.Number == send.Number
		}
		if !found {
			k.Errorf("%s: the message of the other client is not among the first %d", when, len(claimed))
		}
		k.finish(s, notify.Delivered, of...)
	}
	other("before")
	k.clock.Advance(2 * time.Hour)
	for range 5 {
		other("when due")
	}
	k.accept(s, k.sending("other", names("large", queue-limit)...))
	k.equal("some room again", flood() > 0, true)
}
