package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"ingot/internal/notify"
)

// hourly is the rule of the digests in these tests.
func hourly(most int) *notify.DigestRule {
	return &notify.DigestRule{Window: notify.Delay(time.Hour), Max: most}
}

// collecting is a send to users whose messages are collected.
func (k *kit) collecting(r *notify.DigestRule, subject string, users ...string) notify.NewSend {
	n := k.sending("shop", users...)
	n.DigestRule, n.Content.Subject, n.Content.Text = r, subject, "text of "+subject
	n.KindDescription = "News"
	return n
}

// collect claims what is due on some channels, and collects it.
func (k *kit) collect(s notify.Store, name func(notify.Claimed) string, of ...notify.ChannelID) int {
	k.Helper()
	if len(of) == 0 {
		of = []notify.ChannelID{notify.Email}
	}
	var all []notify.Outcome
	for _, channel := range of {
		for _, c := range value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 1000, time.Minute, channel)) {
			if !c.Send.Collects(c.Channel) {
				continue
			}
			e := &notify.Entry{Rule: c.Send.DigestRule}
			if name != nil {
				e.Name = name(c)
			}
			all = append(all, notify.Outcome{Number: c.Number, Status: notify.Queued, Entry: e, At: k.clock.Now()})
		}
	}
	final := value[[]notify.Claimed](k)(s.Finish(k.ctx, all, nil))
	k.equal("final when collected", len(final), 0)
	return len(all)
}

func excerptOf(c notify.Content) string { return c.Text }

// close ends digests, and checks how many and when the next is due.
func (k *kit) close(s notify.Store, want int, next time.Time) {
	k.Helper()
	got := value[notify.DigestsClosed](k)(s.CloseDigests(k.ctx, 1000, excerptOf))
	if got.Digests != want || !got.Next.Equal(next) {
		k.Errorf("%d digests ended, the next is due at %v, want %d and %v", got.Digests, got.Next, want, next)
	}
}

// digests returns what the claimed digests have: "ann: a, b +1".
func (k *kit) digests(s notify.Store, of ...notify.ChannelID) (list []string, numbers []int64) {
	k.Helper()
	for _, c := range value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 1000, time.Minute, of...)) {
		d := c.Send.Digest
		if d == nil {
			k.Errorf("message %d is no digest", c.Number)
			continue
		}
		text := c.UserID + c.Send.List() + ":"
		for i, item := range d.Items {
			text += strings.Repeat(",", min(i, 1)) + " " + item.Subject
		}
		if d.More() > 0 {
			text += fmt.Sprint(" +", d.More())
		}
		list, numbers = append(list, text), append(numbers, c.Number)
	}
	return list, numbers
}

func (k *kit) status(s notify.Store, number int64) notify.Message {
	k.Helper()
	m, _, err := s.Message(k.ctx, number)
	k.must(err)
	return m
}

// testDigestRule stores, keeps and removes the rule of a kind.
func testDigestRule(k *kit) {
	s := k.store()
	r := value[*notify.DigestRule](k)(notify.NewDigestRule("90m", 7, "thread.id", []string{"webhook", "email"}))
	ref := notify.KindRef{ClientID: "shop", KindID: "news"}
	k.wantErr(s.SetDigestRule(k.ctx, ref, r), notify.ErrNotFound)
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, []notify.Kind{{ID: "news"}, {ID: "other"}}, true))
	k.must(s.SetDigestRule(k.ctx, ref, r))
	s = k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, []notify.Kind{{ID: "news", Description: "N"}, {ID: "other"}},
		true))
	_, kind, err := s.Registration(k.ctx, ref)
	k.must(err)
	k.equal("the rule", kind.DigestRule, r)
	k.equal("in words", r.String(), "email, webhook collected by thread.id for 1h30m, at most 7")
	for _, other := range value[[]notify.Kind](k)(s.Kinds(k.ctx, "shop")) {
		k.equal("rule of "+other.ID, other.DigestRule != nil, other.ID == "news")
	}
	k.must(s.SetDigestRule(k.ctx, ref, nil))
	k.equal("without", value[notify.Kind](k)(s.Kind(k.ctx, ref)).DigestRule == nil, true)
}

// testDigests collects messages of some users, channels, names, kinds and clients, and follows them to their end.
func testDigests(k *kit) {
	s := k.store()
	k.close(s, 0, time.Time{})
	first := k.collecting(hourly(50), "a", "ann", "bob")
	first.Channels = notify.ChannelsOf(notify.Email, notify.Inbox)
	first.Recipients = first.Channels.Messages(first.Recipients)
	a := k.accept(s, first)
	b := k.accept(s, k.collecting(hourly(50), "b", "ann"))
	other := k.collecting(hourly(50), "c", "ann")
	other.KindID = "other"
	k.accept(s, other)
	other.ClientID = "bank"
	k.accept(s, other)
	k.equal("collected", k.collect(s, nil, notify.Email, notify.Inbox), 7)
	k.waits(s, 7)
	due := start.Add(time.Hour)
	ann := k.mailAt(s, a.Number, "ann")
	for range 2 { // a second time after a restart, and a clock that was set back
		k.close(s, 0, due)
		k.nothingDue(s)
		m := k.status(s, ann)
		k.equal("an entry", []any{m.Status, m.Collected, m.Due, m.Channel, m.Digest},
			[]any{notify.Queued, true, due, notify.Email, int64(0)})
		k.equal("found by its channel", len(value[[]notify.Message](k)(s.FindMessages(k.ctx, notify.MessageQuery{
			ClientID: "shop", Channel: notify.Inbox, OnChannel: true, Limit: 10}))), 2)
		value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(time.Hour)))
		s = k.store()
	}
	k.clock.Advance(30 * time.Minute)
	d := k.accept(s, k.collecting(hourly(50), "d", "ann"))
	k.collect(s, func(c notify.Claimed) string { return "thread" })
	e := k.accept(s, k.collecting(hourly(50), "e", "ann"))
	k.collect(s, nil)
	k.clock.Advance(30 * time.Minute)
	k.close(s, 6, due.Add(30*time.Minute))
	k.close(s, 0, due.Add(30*time.Minute))
	mails, numbers := k.digests(s)
	k.equal("by mail", mails, []string{"ann: a, b, e", "bob: a", "ann: c", "ann: c"}, anyOrder)
	inbox, _ := k.digests(s, notify.Inbox)
	k.equal("in the inbox", inbox, []string{"ann: a", "bob: a"}, anyOrder)
	k.waits(s, 7)

	// The entries say which digest it was, and it goes as any other message.
	m := k.status(s, ann)
	k.equal("became", []any{m.Status, m.Collected, m.Due}, []any{notify.Digested, false, time.Time{}})
	k.equal("e too", k.status(s, notify.MessageNumber(e.Number, 0)).Digest, m.Digest)
	k.equal("d waits", k.status(s, notify.MessageNumber(d.Number, 0)).Collected, true)
	k.equal("counts", []notify.Counts{k.counts(s, a.Number), k.counts(s, b.Number)},
		[]notify.Counts{{Total: 4, Digested: 4}, {Total: 1, Digested: 1}})
	k.equal("followed", value[notify.Message](k)(notify.Followed(k.ctx, s, m)).Status, notify.Queued)
	k.finish(s, notify.Failed, numbers...)
	k.equal("followed to the end", value[notify.Message](k)(notify.Followed(k.ctx, s, m)).Status, notify.Failed)
	k.must(s.Replay(k.ctx, "shop", m.Digest))
	mails, _ = k.digests(s)
	k.equal("replayed", mails, []string{"ann: a, b, e"})
	k.clock.Advance(time.Second)
	k.finish(s, notify.Delivered, m.Digest)
	send := value[notify.Send](k)(s.Send(k.ctx, notify.SendOf(m.Digest)))
	k.equal("its send", []any{send.ClientID, send.KindID, send.Audiences, send.Content.Subject, send.Expanded,
		send.Counts},
		[]any{"shop", "kind", []notify.Audience{{Type: notify.ToUser, ID: "ann"}}, "3 notifications: News", true,
			notify.Counts{Total: 1, Delivered: 1}})
	k.equal("an item", send.Digest.Items[1], notify.DigestItem{At: start, Subject: "b", Text: "text of b"})

	t := value[notify.Timeline](k)(s.Timeline(k.ctx, ann))
	var events []string
	for _, ev := range t.Events() {
		events = append(events, string(ev.Name)+" "+ev.Channel.String())
	}
	k.equal("timeline", strings.Join(events, ", "),
		"accepted email, digested email, digested inbox, waiting inbox, delivered email")
	p := value[map[int64]map[notify.ChannelID]notify.Progress](k)(s.Progress(k.ctx, []notify.Message{k.status(s,
		notify.MessageNumber(a.Number, 1))}))
	for _, of := range p {
		k.equal("progress of mail", of[notify.Email].Status, notify.Delivered)
	}
	k.clock.Advance(time.Hour)
	k.equal("purged", value[int](k)(s.Purge(k.ctx, k.clock.Now())) > 0, true)
	k.equal("d is kept", k.status(s, notify.MessageNumber(d.Number, 0)).Collected, true)
}

// nothingDue sees that nothing can be claimed.
func (k *kit) nothingDue(s notify.Store) {
	k.Helper()
	for c := range notify.ChannelID(notify.ChannelCount) {
		k.equal("claimed", len(value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 10, time.Minute, c))), 0)
		if at, some, err := s.NextDue(k.ctx, c); err != nil || some {
			k.Errorf("the next message is due at %v, %v", at, err)
		}
	}
}

// testDigestFull sees that a digest has no more entries than it may, and is due when it has them.
func testDigestFull(k *kit) {
	s := k.store()
	var sends []notify.Send
	for i := range 8 {
		sends = append(sends, k.accept(s, k.collecting(hourly(3), fmt.Sprint(i), "ann")))
		if i == 1 {
			k.collect(s, nil)
			k.close(s, 0, start.Add(time.Hour))
			k.clock.Advance(time.Minute)
			// One that is canceled leaves its digest.
			k.cancel(s, sends[0].Number)
			k.equal("canceled", k.status(s, notify.MessageNumber(sends[0].Number, 0)).Status, notify.Canceled)
		}
		if i == 2 {
			k.collect(s, nil)
			k.close(s, 0, start.Add(time.Hour))
		}
	}
	k.collect(s, nil)
	k.close(s, 2, start.Add(time.Hour+time.Minute))
	got, numbers := k.digests(s)
	k.equal("digests", got, []string{"ann: 1, 2, 3", "ann: 4, 5, 6"}, anyOrder)
	k.finish(s, notify.Delivered, numbers...)
	k.clock.Advance(time.Hour)
	k.close(s, 1, time.Time{})
	got, _ = k.digests(s)
	k.equal("the rest", got, []string{"ann: 7"})

	// What a rule allows may become less.
	for i := range 3 {
		k.accept(s, k.collecting(hourly(5), fmt.Sprint("x", i), "bob"))
	}
	k.collect(s, nil)
	k.accept(s, k.collecting(hourly(2), "y", "bob"))
	k.collect(s, nil)
	k.close(s, 1, k.clock.Now().Add(time.Hour))
}

// testDigestLife walks through what can happen to an entry before its digest ends.
func testDigestLife(k *kit) {
	const number = 0
	for _, tc := range []struct {
		name string
		// change may change the send, happen what happens after it was collected.
		change func(n *notify.NewSend)
		happen func(s notify.Store, send notify.Send)
		status notify.Status
		digest string // "" for none
	}{
		{name: "nothing", status: notify.Digested, digest: "ann: x"},
		{name: "canceled", status: notify.Canceled,
			happen: func(s notify.Store, send notify.Send) { k.cancel(s, send.Number) }},
		{name: "canceled twice", status: notify.Canceled,
			happen: func(s notify.Store, send notify.Send) { k.cancel(s, send.Number); k.cancel(s, send.Number) }},
		{name: "expired", status: notify.Undeliverable,
			change: func(n *notify.NewSend) { n.ExpiresAt = k.clock.Now().Add(time.Minute) }},
		{name: "expires later", status: notify.Digested, digest: "ann: x",
			change: func(n *notify.NewSend) { n.ExpiresAt = k.clock.Now().Add(2 * time.Hour) }},
		{name: "a server that was slow", status: notify.Digested, digest: "ann: x",
			happen: func(s notify.Store, send notify.Send) {
				k.finish(s, notify.Retry, notify.MessageNumber(send.Number, number))
				k.finish(s, notify.Delivered, notify.MessageNumber(send.Number, number))
			}},
		{name: "a large send", status: notify.Digested, digest: "ann: x",
			change: func(n *notify.NewSend) { n.Recipients = append(n.Recipients, people(names("many", 150)...)...) }},
		{name: "purged", status: notify.Digested, digest: "ann: x",
			happen: func(s notify.Store, _ notify.Send) {
				value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(time.Minute)))
			}},
		{name: "restarted", status: notify.Digested, digest: "ann: x",
			happen: func(notify.Store, notify.Send) { k.store() }},
		{name: "released", status: notify.Digested, digest: "ann: x",
			happen: func(s notify.Store, _ notify.Send) { k.must(s.Release(k.ctx, "w")) }},
		{name: "the client deleted the kind", status: notify.Digested, digest: "ann: x",
			happen: func(s notify.Store, _ notify.Send) {
				k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, nil, true))
			}},
	} {
		s := k.store()
		n := k.collecting(hourly(500), "x", "ann")
		if tc.change != nil {
			tc.change(&n)
		}
		total := len(n.Recipients)
		send := k.accept(s, n)
		k.equal(tc.name+": collected", k.collect(s, nil), total)
		if tc.happen != nil {
			tc.happen(s, send)
		}
		s = k.store()
		k.clock.Advance(time.Hour)
		k.close(s, total, time.Time{})
		m := k.status(s, notify.MessageNumber(send.Number, number))
		k.equal(tc.name, m.Status, tc.status)
		k.equal(tc.name+": has a digest", m.Digest != 0, tc.digest != "")
		got, numbers := k.digests(s)
		k.equal(tc.name+": digests", strings.Contains(strings.Join(got, ""), tc.digest), true)
		k.equal(tc.name+": number", len(got) > 0, tc.digest != "")
		k.finish(s, notify.Delivered, numbers...)
		k.waits(s, 0)
		c := k.counts(s, send.Number)
		k.equal(tc.name+": done", c.Done(), total)
		k.must(s.Release(k.ctx, "w"))
		k.clock.Advance(time.Hour)
		value[int](k)(s.Purge(k.ctx, k.clock.Now()))
	}

	// One that is claimed when its send is canceled is not collected; one whose rule is of a critical kind never is.
	s := k.store()
	send := k.accept(s, k.collecting(hourly(50), "x", "ann"))
	claimed := k.claim(s, "w", 1)
	k.cancel(s, send.Number)
	final := value[[]notify.Claimed](k)(s.Finish(k.ctx, []notify.Outcome{{Number: claimed[0].Number, Status: notify.Queued,
		Entry: &notify.Entry{Rule: hourly(50)}, At: k.clock.Now()}}, nil))
	k.equal("claimed", []any{len(final), final[0].Status}, []any{1, notify.Canceled})
	k.waits(s, 0)
	critical := k.collecting(hourly(50), "x", "ann")
	critical.Critical = true
	k.accept(s, critical)
	k.equal("critical", k.collect(s, nil), 0)
	for _, o := range []notify.Outcome{{Status: notify.Queued}, {Status: notify.Digested},
		{Status: notify.Delivered, Entry: &notify.Entry{Rule: hourly(5)}}} {
		if _, err := s.Finish(k.ctx, []notify.Outcome{o}, nil); err == nil {
			k.Errorf("%+v is taken", o)
		}
	}
}

// testDigestLimit sees that entries count as messages that are delayed, until they are final.
func testDigestLimit(k *kit) {
	s := k.store()
	accept := func(client string, users ...string) error {
		n := k.collecting(hourly(50), "x", users...)
		n.ClientID, n.DelayedLimit = client, 3
		_, _, err := s.Accept(k.ctx, n)
		return err
	}
	k.must(accept("shop", "a", "b", "c"))
	k.wantErr(accept("shop", "d"), notify.ErrDelayedFull)
	k.must(accept("bank", "d"))
	k.collect(s, nil)
	k.wantErr(accept("shop", "d"), notify.ErrDelayedFull)
	k.clock.Advance(time.Hour)
	k.close(s, 4, time.Time{})
	k.must(accept("shop", "d", "e", "f"))
	k.wantErr(accept("shop", "g"), notify.ErrDelayedFull)
}

// testDigestList collects messages of lists, with what each member has of its own.
func testDigestList(k *kit) {
	s := k.store()
	for _, list := range []string{"l1", "l2"} {
		k.must(s.CreateList(k.ctx, "shop", list))
		k.must(s.AddToList(k.ctx, "shop", list, 0, []notify.Member{{UserID: "ann", Data: json.RawMessage(`{"n":1}`)},
			{UserID: "bob", Locale: "de", Data: json.RawMessage(`{"n":2}`)}}))
		n := k.collecting(hourly(50), list, "ann", "bob")
		n.Recipients[1].Audience = 1
		n.Audiences = []notify.Audience{{Type: notify.ToList, ID: list}}
		n.Data, n.Locale = json.RawMessage(`{"n":0,"of":"all"}`), "fr"
		k.accept(s, n)
	}
	k.collect(s, nil)
	k.clock.Advance(time.Hour)
	k.close(s, 2, time.Time{})
	var got []string
	for _, c := range k.claim(s, "w", 10) {
		got = append(got, fmt.Sprintf("%s %s %s %d", c.UserID, c.Send.Locale, c.Send.Digest.Items[1].Data,
			c.Send.Digest.Count))
	}
	k.equal("digests", got, []string{`ann fr {"n":1,"of":"all"} 2`, `bob de {"n":2,"of":"all"} 2`}, anyOrder)
}

// testDigestErase shows and erases a person with entries in a digest that collects, and one that was sent.
func testDigestErase(k *kit) {
	s := k.store()
	to := func(subject, user, email string) {
		n := k.collecting(hourly(50), subject)
		n.Data = json.RawMessage(`{"thread":"about dora"}`)
		n.Recipients = []notify.Recipient{{UserID: user, Email: email}}
		n.Audiences = []notify.Audience{{Type: notify.ToUser, ID: user}}
		if user == "" {
			n.Audiences = []notify.Audience{{Type: notify.ToEmail, ID: email}}
		}
		k.accept(s, n)
	}
	all := func() {
		for i := range 2 {
			to(fmt.Sprint("d", i), "dora", "")
			to(fmt.Sprint("m", i), "", "Dora@Example.com")
			to(fmt.Sprint("a", i), "ann", "")
		}
		k.collect(s, func(notify.Claimed) string { return "about dora" })
	}
	all()
	k.clock.Advance(time.Hour)
	k.close(s, 3, time.Time{})
	all()
	k.must(s.Release(k.ctx, "w")) // the digests that were sent wait too
	p := dora
	p.All = true
	k.equal("shown", len(k.shown(s, p)), 10)
	e := k.erase(s, "e1", p)
	k.equal("erased", []int{e.Messages, e.Canceled}, []int{10, 6})
	k.equal("finished", e.Finished.IsZero(), false)
	k.equal("left", k.shown(s, p), []string(nil))
	for _, n := range value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{All: true, Limit: 100})) {
		text, err := json.Marshal(n)
		k.must(err)
		if strings.Contains(strings.ToLower(string(text)), "dora") && !strings.Contains(string(text), `"ID":"ann"`) &&
			!strings.Contains(string(text), `"id":"ann"`) {
			k.Errorf("left: %s", text)
		}
	}
	k.clock.Advance(time.Hour)
	k.close(s, 1, time.Time{})
	got, _ := k.digests(s)
	k.equal("to others", got, []string{"ann: a0, a1", "ann: a0, a1"})
}

// testDigestTurns sees that one client with many digests that are due does not delay those of another.
func testDigestTurns(k *kit) {
	s := k.store()
	k.accept(s, k.collecting(hourly(50), "x", names("u", 300)...))
	k.collect(s, nil)
	k.clock.Advance(time.Second)
	for _, client := range []string{"aaa", "zzz"} {
		n := k.collecting(hourly(50), "x", "ann")
		n.ClientID = client
		k.accept(s, n)
	}
	k.collect(s, nil)
	k.clock.Advance(2 * time.Hour)
	closed := value[notify.DigestsClosed](k)(s.CloseDigests(k.ctx, 10, excerptOf))
	k.equal("ended", []int{closed.Digests, closed.Entries}, []int{10, 10})
	others := 0
	for _, c := range k.claim(s, "w", 100) {
		if c.Send.ClientID != "shop" {
			others++
		}
	}
	k.equal("of others", others, 2)
	total := closed.Digests
	for closed.Digests > 0 {
		closed = value[notify.DigestsClosed](k)(s.CloseDigests(k.ctx, 100, excerptOf))
		total += closed.Digests
	}
	k.equal("all", total, 302)
}

// testDigestBytes sees that a digest is bounded, and counts as stored.
func testDigestBytes(k *kit) {
	s := k.store()
	for i := range 200 {
		n := k.collecting(hourly(500), fmt.Sprint("s", i, strings.Repeat("x", 1500)), "ann")
		n.Content.Text = strings.Repeat("ä", 5000)
		n.Data = json.RawMessage(`{"x":"` + strings.Repeat("y", 20_000) + `"}`)
		k.accept(s, n)
	}
	one := k.collecting(hourly(500), "one", "bob")
	one.Content.Text, one.Content.HTML = strings.Repeat("t", 9000), "<p>h</p>"
	one.Data = json.RawMessage(`{"x":1}`)
	k.accept(s, one)
	before := k.stored(s, "shop")
	k.collect(s, nil)
	k.clock.Advance(time.Hour)
	k.close(s, 2, time.Time{})
	for _, c := range k.claim(s, "w", 10) {
		d := c.Send.Digest
		if c.UserID == "bob" {
			k.equal("of one entry", []any{c.Send.Content, string(c.Send.Data), d.Count}, []any{one.Content, `{"x":1}`, 1})
			continue
		}
		text, err := json.Marshal(d)
		k.must(err)
		if len(text) > 300<<10 || len(text) < 200<<10 || d.Count != 200 || d.More() < 50 || len(d.Items[0].Text) > 2010 ||
			d.Items[0].Data != nil {
			k.Errorf("the digest has %d bytes, %d items of %d", len(text), len(d.Items), d.Count)
		}
	}
	after := k.stored(s, "shop")
	if more := after.Sends - before.Sends; more < 200<<10 {
		k.Errorf("%d bytes more are stored", more)
	}
}

// testDigestsTogether collects and ends digests in several processes at once: each entry is in one digest, once.
func testDigestsTogether(k *kit) {
	const sends, users = 40, 10
	stores := []notify.Store{k.store()}
	if stores[0].Shared() {
		stores = append(stores, k.store())
	}
	for i := range sends {
		n := k.collecting(&notify.DigestRule{Window: notify.Delay(time.Nanosecond), Max: 7}, fmt.Sprint(i),
			names("u", users)...)
		k.accept(stores[i%len(stores)], n)
	}
	var all sync.WaitGroup
	for _, s := range stores {
		for i := range 3 {
			all.Go(func() {
				for k.waiting(s, fmt.Sprint("w", i)) {
					k.clock.Advance(time.Nanosecond)
					if _, err := s.CloseDigests(k.ctx, 5, excerptOf); err != nil {
						k.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	k.clock.Advance(time.Second)
	for value[notify.DigestsClosed](k)(stores[0].CloseDigests(k.ctx, 100, excerptOf)).Digests > 0 {
	}
	seen := map[string]int{}
	for _, c := range k.claim(stores[0], "last", 1000) {
		if c.Send.Digest.Count > 7 {
			k.Errorf("a digest has %d entries", c.Send.Digest.Count)
		}
		for _, item := range c.Send.Digest.Items {
			seen[c.UserID+" "+item.Subject]++
		}
	}
	k.equal("entries", len(seen), sends*users)
	for entry, n := range seen {
		if n != 1 {
			k.Errorf("%s is in %d digests", entry, n)
		}
	}
}

// waiting collects some messages, and reports whether there were any.
func (k *kit) waiting(s notify.Store, owner string) bool {
	claimed, err := s.Claim(k.ctx, owner, 13, time.Hour)
	if err != nil {
		k.Error(err)
		return false
	}
	var outcomes []notify.Outcome
	found := false
	for _, c := range claimed {
		if c.Send.Digest != nil {
			outcomes = append(outcomes, notify.Outcome{Number: c.Number, Status: notify.Retry, Due: k.clock.Now(),
				At: k.clock.Now()})
			continue
		}
		found = true
		outcomes = append(outcomes, notify.Outcome{Number: c.Number, Status: notify.Queued, At: k.clock.Now(),
			Entry: &notify.Entry{Rule: c.Send.DigestRule}})
	}
	if _, err := s.Finish(k.ctx, outcomes, nil); err != nil {
		k.Error(err)
		return false
	}
	return found
}
