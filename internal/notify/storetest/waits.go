package storetest

import (
	"errors"
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
	attemptWait = postponement{"another attempt", errPostponed,
		func(n *notify.NewSend, limit int) { n.PostponedLimit = limit }, func(*notify.Outcome) {}}
)

// errPostponed stands for a notify.PostponedError.
var errPostponed = errors.New("postponed")

// refused checks why a send was refused.
func (p *postponing) refused(err error) {
	p.Helper()
	var postponed *notify.PostponedError
	if errors.Is(p.full, errPostponed) && errors.As(err, &postponed) && len(postponed.By) > 0 {
		return
	}
	p.wantErr(err, p.full)
}

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
		p.refused(err)
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
	for reason, other := range map[*postponement]postponement{&quietWait: attemptWait, &attemptWait: quietWait} {
		for name, end := range endsOfWaiting(other) {
			if name == string(notify.Retry) && reason == &attemptWait {
				continue // that is how it waits
			}
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

// testPostponedLimit sees which sends are refused to a client that has as many messages as it may that wait for another
// attempt: those by the channels that have many of them, whatever the channel, and no others.
func testPostponedLimit(k *kit) {
	for id := range notify.ChannelID(notify.ChannelCount) {
		other := notify.Inbox
		if id == other {
			other = notify.Email
		}
		by := func(all ...notify.ChannelID) func(*notify.NewSend) {
			return func(n *notify.NewSend) {
				n.Channels = notify.ChannelsOf(all...)
				for i := range n.Recipients {
					n.Recipients[i].Channel = all[0]
				}
			}
		}
		s := k.store()
		p := &postponing{kit: k, postponement: attemptWait, s: s, client: "by " + id.String(),
			until: k.clock.Now().Add(time.Hour)}
		before := value[[notify.ChannelCount]int](k)(s.Postponed(k.ctx))
		key := notify.Idempotency{Key: "key " + id.String(), Hash: "h", Until: p.until}
		for i := range 2 {
			p.hold(value[int64](k)(p.try(func(n *notify.NewSend) {
				by(id)(n)
				if i == 0 {
					n.Idempotency = key
				}
			})))
		}
		after := value[[notify.ChannelCount]int](k)(s.Postponed(k.ctx))
		before[id] += 2
		k.equal("all that wait", after, before)
		for name, c := range map[string]struct {
			change func(*notify.NewSend)
			full   bool
		}{
			"the channel":     {func(*notify.NewSend) {}, true},
			"with another":    {by(id, other), true},
			"critical":        {func(n *notify.NewSend) { n.Critical = true }, true},
			"without a kind":  {func(n *notify.NewSend) { n.KindID = "" }, true},
			"scheduled":       {func(n *notify.NewSend) { n.SendAt = p.until }, true},
			"an audience":     {func(n *notify.NewSend) { n.Expanded, n.Recipients = false, nil }, true},
			"another channel": {by(other), false},
			"another client":  {func(n *notify.NewSend) { n.ClientID = "other" }, false},
			"a repeated send": {func(n *notify.NewSend) { n.Idempotency = key }, false},
			"no limit":        {func(n *notify.NewSend) { n.PostponedLimit = 0 }, false},
		} {
			_, err := p.try(func(n *notify.NewSend) { by(id)(n); c.change(n) })
			var full *notify.PostponedError
			if (err != nil) != c.full || err != nil && (!errors.As(err, &full) || len(full.By) != 1 || full.By[0] != id) {
				k.Errorf("%s: %s: the error is %v, want one: %v", id, name, err, c.full)
			}
		}
	}

	// What workflows delay counts as that, and not twice.
	p := &postponing{kit: k, postponement: attemptWait, s: k.store(), client: "later", until: k.clock.Now().Add(time.Hour)}
	w := k.workflow(laterMail)
	for range 3 {
		delayed := k.traveling(w, "ann")
		delayed.ClientID = p.client
		p.hold(k.mailAt(p.s, k.accept(p.s, delayed).Number, "ann"))
	}
	p.isFull("delayed", false)
}

// testPostponedShare sees that a client whose channels postpone much keeps those that do not, and that all channels
// together have a bound.
func testPostponedShare(k *kit) {
	const limit = 20
	s := k.store()
	until := k.clock.Now().Add(time.Hour)
	send := func(by notify.ChannelID) error {
		n := k.sending("shop", "u")
		n.Channels, n.Recipients[0].Channel, n.PostponedLimit = notify.ChannelsOf(by), by, limit
		made, _, err := s.Accept(k.ctx, n)
		if err != nil {
			return err
		}
		value[[]notify.Claimed](k)(s.Finish(k.ctx, []notify.Outcome{{Number: notify.MessageNumber(made.Number, 0),
			Status: notify.Retry, Due: until, At: k.clock.Now()}}, nil))
		return nil
	}
	fill := func(by notify.ChannelID) (n int) {
		for n < 2*limit && send(by) == nil {
			n++
		}
		return n
	}
	all := fill(notify.Chat)
	k.equal("one channel", all, limit)
	for id := range notify.ChannelID(notify.ChannelCount) {
		if id != notify.Chat {
			n := fill(id)
			k.equal("a further channel", n, limit/10)
			all += n
		}
	}
	if all > limit*3/2 {
		k.Errorf("%d wait, at most %d may", all, limit*3/2)
	}
}
