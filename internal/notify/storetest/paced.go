package storetest

import (
	"time"

	"ingot/internal/notify"
)

// postponement is a reason for which messages are postponed and count for their client.
type postponement struct {
	name  string
	full  error
	limit func(n *notify.NewSend, limit int)
	mark  func(o *notify.Outcome)
}

var (
	quietWait = postponement{"quiet hours", notify.ErrQuietFull,
		func(n *notify.NewSend, limit int) { n.QuietLimit = limit }, func(o *notify.Outcome) { o.Quiet = true }}
	pacedWait = postponement{"pacing", notify.ErrPacedFull,
		func(n *notify.NewSend, limit int) { n.PacedLimit = limit }, func(o *notify.Outcome) { o.Paced = true }}
)

// postponing makes messages of one client wait.
type postponing struct {
	*kit
	postponement
	s      notify.Store
	client string
	until  time.Time
}

func (p *postponing) try(change func(*notify.NewSend)) (int64, error) {
	n := p.sending(p.client, "u")
	p.limit(&n, 2)
	if change != nil {
		change(&n)
	}
	send, _, err := p.s.Accept(p.ctx, n)
	return notify.MessageNumber(send.Number, 0), err
}

// made accepts a message and makes it wait.
func (p *postponing) made() int64 {
	p.Helper()
	n := value[int64](p.kit)(p.try(nil))
	p.hold(n)
	return n
}

func (p *postponing) hold(numbers ...int64) {
	p.Helper()
	outcomes := make([]notify.Outcome, len(numbers))
	for i, n := range numbers {
		outcomes[i] = notify.Outcome{Number: n, Status: notify.Retry, Due: p.until, At: p.clock.Now()}
		p.mark(&outcomes[i])
	}
	value[[]notify.Claimed](p.kit)(p.s.Finish(p.ctx, outcomes, nil))
}

// isFull checks whether the client has as many as it may, after a restart too.
func (p *postponing) isFull(when string, want bool) {
	p.Helper()
	p.s = p.store()
	n, err := p.try(nil)
	if (err != nil) != want {
		p.Errorf("%s: %s: full is %v, want %v", p.name, when, err != nil, want)
	}
	if err != nil {
		p.wantErr(err, p.full)
		return
	}
	p.finish(p.s, notify.Delivered, n)
}

// claimed claims a message that waits, when its time has come.
func (p *postponing) claimed(owner string, number int64) {
	p.Helper()
	p.clock.Advance(2 * time.Hour)
	for _, n := range numbersOf(p.claim(p.s, owner, 1000)) {
		if n == number {
			return
		}
	}
	p.Errorf("%s: message %d was not claimed", p.name, number)
}

func (p *postponing) erased(user string) {
	p.Helper()
	p.kit.erase(p.s, p.client, notify.Person{UserID: user, ClientID: p.client})
}

// endsOfWaiting are all ways by which a message stops waiting for a reason.
func endsOfWaiting(other postponement) map[string]func(p *postponing, number int64) {
	all := map[string]func(p *postponing, number int64){
		"postponed for another reason": func(p *postponing, number int64) {
			with := *p
			with.postponement = other
			with.hold(number)
		},
		"canceled": func(p *postponing, number int64) {
			p.cancel(p.s, notify.SendOf(number))
			p.cancel(p.s, notify.SendOf(number))
		},
		"canceled while it was claimed": func(p *postponing, number int64) {
			p.claimed("w", number)
			p.cancel(p.s, notify.SendOf(number))
			p.hold(number)
			p.equal("status", p.status(p.s, number).Status, notify.Canceled)
		},
		"erased": func(p *postponing, _ int64) { p.erased("u") },
		"erased while it was claimed": func(p *postponing, number int64) {
			p.claimed("w", number)
			p.erased("u")
			p.hold(number)
			p.equal("status", p.status(p.s, number).Status, notify.Canceled)
			value[int](p.kit)(p.s.ContinueErasures(p.ctx))
		},
		"sent by another server after a kill": func(p *postponing, number int64) {
			p.claimed("killed", number)
			p.s = p.store()
			p.claimed("w", number)
			p.finish(p.s, notify.Delivered, number)
			p.hold(number) // the first one was not dead
		},
		"replayed": func(p *postponing, number int64) {
			p.finish(p.s, notify.Failed, number)
			p.must(p.s.Replay(p.ctx, p.client, number))
		},
		"purged": func(p *postponing, number int64) {
			p.finish(p.s, notify.Delivered, number)
			value[int](p.kit)(p.s.Purge(p.ctx, p.clock.Advance(time.Nanosecond)))
			_, _, err := p.s.Message(p.ctx, number)
			p.wantErr(err, notify.ErrNotFound)
		},
	}
	for _, end := range []notify.Status{notify.Delivered, notify.Retry, notify.Failed, notify.Undeliverable,
		notify.Unsubscribed, notify.Skipped, notify.Throttled} {
		all[string(end)] = func(p *postponing, number int64) { p.finish(p.s, end, number) }
	}
	return all
}

// testWaitEnds walks all ways by which a message stops waiting for the end of quiet hours or because of pacing: none
// leaves a wrong number behind.
func testWaitEnds(k *kit) {
	for reason, other := range map[*postponement]postponement{&quietWait: pacedWait, &pacedWait: quietWait} {
		for name, end := range endsOfWaiting(other) {
			p := &postponing{kit: k, postponement: *reason, s: k.store(), client: reason.name + ", " + name}
			again := func() { p.until = k.clock.Now().Add(time.Hour) }
			again()
			first, second := p.made(), p.made()
			p.hold(first, second) // again
			p.isFull(name+": two wait", true)
			if name == "erased" || name == "erased while it was claimed" { // both are to the same user
				p.cancel(p.s, notify.SendOf(second))
				end(p, first)
				again()
				second = p.made()
			} else {
				end(p, first)
				again()
			}
			for _, owner := range []string{"w", "killed"} { // the others that were claimed
				k.must(p.s.Release(k.ctx, owner))
			}
			p.isFull(name, false)
			third := p.made()
			p.isFull(name+": two wait again", true)
			p.cancel(p.s, notify.SendOf(second))
			p.cancel(p.s, notify.SendOf(third))
			p.made()
			p.isFull(name+": one waits", false)
		}
	}
}

// testPacedLimit sees which sends are refused to a client that has as many messages as it may that wait because of
// pacing: all by mail, and no others.
func testPacedLimit(k *kit) {
	p := &postponing{kit: k, postponement: pacedWait, s: k.store(), client: "shop", until: k.clock.Now().Add(time.Hour)}
	key := notify.Idempotency{Key: "key", Hash: "h", Until: p.until}
	p.hold(value[int64](k)(p.try(func(n *notify.NewSend) { n.Idempotency = key })))
	p.made()
	w := k.workflow(laterMail)
	for name, c := range map[string]struct {
		change func(*notify.NewSend)
		full   bool
	}{
		"mail":              {nil, true},
		"mail and inbox":    {func(n *notify.NewSend) { n.Channels = notify.ChannelsOf(notify.Email, notify.Inbox) }, true},
		"critical":          {func(n *notify.NewSend) { n.Critical = true }, true},
		"without a kind":    {func(n *notify.NewSend) { n.KindID = "" }, true},
		"scheduled":         {func(n *notify.NewSend) { n.SendAt = p.until }, true},
		"an audience":       {func(n *notify.NewSend) { n.Expanded, n.Recipients = false, nil }, true},
		"inbox":             {func(n *notify.NewSend) { n.Channels = notify.ChannelsOf(notify.Inbox) }, false},
		"text and push":     {func(n *notify.NewSend) { n.Channels = notify.ChannelsOf(notify.SMS, notify.Push) }, false},
		"another client":    {func(n *notify.NewSend) { n.ClientID = "other" }, false},
		"a repeated send":   {func(n *notify.NewSend) { n.Idempotency = key }, false},
		"without the limit": {func(n *notify.NewSend) { n.PacedLimit = 0 }, false},
	} {
		if _, err := p.try(c.change); (err != nil) != c.full {
			k.Errorf("%s: the error is %v, want one: %v", name, err, c.full)
		} else if err != nil {
			k.wantErr(err, notify.ErrPacedFull)
		}
	}

	// What workflows delay counts as that, and not twice.
	p.client = "later"
	for range 3 {
		delayed := k.traveling(w, "ann")
		delayed.ClientID = p.client
		p.hold(k.mailAt(p.s, k.accept(p.s, delayed).Number, "ann"))
	}
	p.isFull("delayed", false)
}
