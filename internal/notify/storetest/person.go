package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingot/internal/notify"
)

// shown returns what a store shows of a person, as text, one line for each.
func (k *kit) shown(s notify.Store, p notify.Person) []string {
	k.Helper()
	var all []string
	k.must(s.ShowPerson(k.ctx, p, func(v any) error {
		switch v := v.(type) {
		case notify.Suppression:
			all = append(all, "suppressed "+v.Email)
		case notify.Objection:
			all = append(all, fmt.Sprintf("objects %s/%s%s %v", v.ClientID, v.KindID, v.Unwanted.Names(), v.Kept))
		case notify.TopicChoice:
			all = append(all, fmt.Sprintf("topic %s/%s %t %t", v.ClientID, v.Name, v.Subscribed, v.Kept))
		case notify.ListedMember:
			all = append(all, strings.TrimSpace(fmt.Sprintf("listed %s%s %s %s", v.Member.UserID, v.Member.Email, v.Member.Data,
				v.Recurring.Name)))
		case notify.Send:
			all = append(all, "scheduled "+v.Content.Subject)
		case notify.Notification:
			all = append(all, "inbox "+v.ClientID+" "+v.Title)
		case notify.PushSubscription:
			all = append(all, "browser "+v.ClientID+" "+v.Label)
		case notify.Claimed:
			all = append(all, fmt.Sprintf("message %s %s %s", v.Send.ClientID, v.Email, v.Status))
		default:
			all = append(all, fmt.Sprintf("%T", v))
		}
		return nil
	}))
	return all
}

// erase erases a person, and returns the erasure.
func (k *kit) erase(s notify.Store, id string, p notify.Person) notify.Erasure {
	k.Helper()
	e := value[notify.Erasure](k)(s.Erase(k.ctx, notify.Erasure{ID: id, Person: p}))
	k.equal("the person of a finished erasure", !e.Finished.IsZero() && e.UserID+e.Email != "", false)
	return e
}

// known stores something of every kind about the user dora and the address Dora@Example.com.
func (k *kit) known(s notify.Store, client string) {
	k.Helper()
	to := func(a notify.Audience, r notify.Recipient) notify.NewSend {
		n := k.sending(client)
		n.Audiences, n.Recipients = []notify.Audience{a}, []notify.Recipient{r}
		n.Data = json.RawMessage(`{"name":"Dora Example"}`)
		return n
	}
	dora := notify.Recipient{UserID: "dora", Email: "Dora@Example.com"}
	k.accept(s, to(notify.Audience{Type: notify.ToUser, ID: "dora"}, dora))
	k.accept(s, to(notify.Audience{Type: notify.ToEmail, ID: "dora@example.com"},
		notify.Recipient{Email: "dora@example.com"}))
	all := k.sending(client, "ann", "bob")
	all.Recipients = append(all.Recipients, dora)
	k.accept(s, all)
	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 100))...)

	list := client + "-list"
	k.must(s.CreateList(k.ctx, client, list))
	k.must(s.AddToList(k.ctx, client, list, 0, []notify.Member{{UserID: "ann"},
		{Email: "dora@EXAMPLE.com", Data: json.RawMessage(`{"secret":1}`)}, {UserID: "bob"}}))
	later := k.sending(client)
	later.Audiences, later.Recipients = []notify.Audience{{Type: notify.ToList, ID: list}}, nil
	later.SendAt, later.Planned, later.Expanded = k.clock.Now().Add(time.Hour), 3, false
	k.accept(s, later)
	alone := k.later(client, "dora", k.clock.Now().Add(time.Hour))
	alone.Content.Subject = "to dora"
	k.accept(s, alone)
	k.must(s.AddNotifications(k.ctx, client, []notify.Notification{{Title: "t",
		Number: notify.MessageNumber(1<<30+int64(len(client)), 0), Owner: notify.Owner{ClientID: client, UserID: "dora"}}}))
	k.must(s.AddPushSubscription(k.ctx, k.browser(client, "dora", "d")))
	k.must(s.AddPushSubscription(k.ctx, k.browser(client, "ann", "a")))
	for name, message := range map[string]notify.RecurringMessage{
		"r-alone":  {Audience: &notify.Audience{Type: notify.ToUser, ID: "dora"}},
		"r-others": {Members: []notify.Member{{UserID: "ann"}, {Email: "DORA@example.com"}}},
		"r-ann":    {Members: []notify.Member{{UserID: "ann", Data: json.RawMessage(`{"friend":"dora"}`)}}},
	} {
		message.KindID = "kind"
		k.must(s.SetRecurring(k.ctx, notify.Recurring{RecurringRef: notify.RecurringRef{ClientID: client, Name: name},
			Timetable: notify.Timetable{Cron: "@daily", Zone: "UTC"}, Message: message, State: notify.RecurringActive,
			Next: k.clock.Now().Add(24 * time.Hour)}))
	}
	for user, off := range map[string]notify.Wish{"dora": turning(notify.Email, false),
		"mailto:dora@example.com": {Subscribe: new(bool)}, "ann": {Subscribe: new(bool)}} {
		k.must(s.ChangePreferences(k.ctx, user, notify.PreferenceChange{
			Wishes: map[notify.KindRef]notify.Wish{{ClientID: client, KindID: "kind"}: off}}))
	}
}

var dora = notify.Person{UserID: "dora", Email: "DORA@example.com"}

// testErase shows and erases a person, for one client and for all.
func testErase(k *kit) {
	s := k.store()
	for _, client := range []string{"c", "other"} {
		k.must(s.Register(k.ctx, notify.Client{ID: client}, []notify.Kind{{ID: "kind"}}, true))
		k.known(s, client)
	}
	k.must(s.Suppress(k.ctx, notify.Suppression{Email: "dora@example.com", Reason: "5.1.1", Source: "bounce",
		Created: k.clock.Now()}, notify.Suppression{Email: "ann@example.com", Created: k.clock.Now()}))
	of := func(client string) notify.Person {
		p := dora
		p.ClientID, p.All = client, client == ""
		return p
	}
	ofClient := func(c string) []string {
		return []string{"objects " + c + "/kind[email] false", "objects " + c + "/kind[] false", `listed dora@EXAMPLE.com {"secret":1}`,
			"listed dora  r-alone", "listed DORA@example.com  r-others",
			"scheduled to dora", "inbox " + c + " t", "browser " + c + " d", "message " + c + " Dora@Example.com delivered",
			"message " + c + " dora@example.com delivered", "message " + c + " Dora@Example.com delivered"}
	}
	k.equal("shown", k.shown(s, of("c")), ofClient("c"))
	k.equal("shown of all", len(k.shown(s, of(""))), 23)
	k.equal("shown of a stranger", k.shown(s,
		notify.Person{All: true, UserID: "do", Email: "ora@example.com"}), []string(nil))

	before := value[notify.Stored](k)(s.Stored(k.ctx, "c"))
	e := k.erase(s, "e1", of("c"))
	k.equal("erased", e.Erased,
		notify.Erased{Messages: 3, Canceled: 1, Contents: 3, Listed: 3, Notifications: 1, Browsers: 1, Preferences: 2})
	k.equal("finished", e.Finished.IsZero(), false)
	k.equal("read again", value[notify.Erasure](k)(s.Erasure(k.ctx, "e1")).Erased, e.Erased)
	var names []string
	recurring := value[[]notify.Recurring](k)(s.ListRecurring(k.ctx, notify.RecurringQuery{ClientID: "c", Limit: 10}))
	for _, r := range recurring {
		names = append(names, fmt.Sprintf("%s %d", r.Name, len(r.Message.Members)))
	}
	k.equal("recurring sends to others", names, []string{"r-ann 1", "r-others 1"})
	k.equal("left", k.shown(s, of("c")), []string{"objects c/kind[email] true", "objects c/kind[] true"})
	k.equal("of another client", k.shown(s, of("other")), ofClient("other"))
	after := value[notify.Stored](k)(s.Stored(k.ctx, "c"))
	k.equal("less is stored", after.Sends < before.Sends, true)
	sends := value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{ClientID: "c", Limit: 10}))
	for _, n := range sends {
		text, err := json.Marshal(n)
		k.must(err)
		if strings.Contains(strings.ToLower(string(text)), "dora") {
			k.Errorf("a send still has %s", text)
		}
		if n.Counts.Done() != n.Counts.Total {
			k.Errorf("counts of a send are %+v", n.Counts)
		}
	}
	k.equal("content of others", sends[len(sends)-3].Content.Subject, "Hello")

	e = k.erase(s, "e2", of(""))
	k.equal("erased of all", e.Erased,
		notify.Erased{Messages: 3, Canceled: 1, Contents: 3, Listed: 3, Notifications: 1, Browsers: 1, Preferences: 2,
			Suppressions: 1})
	k.equal("left of all", k.shown(s, of("")), []string{"objects c/kind[email] true", "objects other/kind[email] true",
		"objects c/kind[] true", "objects other/kind[] true"})
	k.equal("repeated", k.erase(s, "e3", of("")).Erased, notify.Erased{})
	k.waits(s, 0)
	k.objections(s)

	// Those that were in the same list get it.
	k.clock.Advance(2 * time.Hour)
	s = k.store()
	_, _, err := s.Activate(k.ctx, 10)
	k.must(err)
	k.equal("recipients of a list", len(k.claim(s, "w", 100)), 4)
	_, err = s.Erasure(k.ctx, "e4")
	k.wantErr(err, notify.ErrNotFound)
}

// objections sees that what the erased person did not want stays unwanted, until they say otherwise.
func (k *kit) objections(s notify.Store) {
	k.Helper()
	ref := notify.KindRef{ClientID: "c", KindID: "kind"}
	var all []notify.Subscription
	for _, user := range []string{"dora", "mailto:dora@example.com", "bob"} {
		all = append(all, notify.Subscription{UserID: user, KindRef: ref})
	}
	look := func() []notify.Unwanted {
		set := k.unwanted(s, all...)
		return []notify.Unwanted{set[all[0]], set[all[1]], set[all[2]]}
	}
	mail, both := notify.UnwantedOn(notify.Email), notify.UnwantedOn(notify.Email, notify.Inbox)
	k.equal("unsubscribed", look(), []notify.Unwanted{mail, notify.UnwantedAll, 0})
	change := func(w notify.Wish) {
		k.Helper()
		k.must(s.ChangePreferences(k.ctx, "dora", notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{ref: w}}))
	}
	change(turning(notify.Inbox, false))
	k.equal("another channel", look(), []notify.Unwanted{both, notify.UnwantedAll, 0})
	change(notify.Wish{Channels: map[notify.ChannelID]bool{notify.Email: true, notify.Inbox: true}})
	k.equal("subscribed again", look(), []notify.Unwanted{0, notify.UnwantedAll, 0})

	there := value[map[string]bool](k)(s.Suppressed(k.ctx, []string{"Dora@example.com", "bob@example.com",
		"ann@example.com"}))
	k.equal("suppressed", there, map[string]bool{"Dora@example.com": true, "ann@example.com": true})
	k.equal("suppressions", len(value[[]notify.Suppression](k)(s.Suppressions(k.ctx, "", 10))), 1)
	k.must(s.Unsuppress(k.ctx, "dora@example.com"))
	k.wantErr(s.Unsuppress(k.ctx, "dora@example.com"), notify.ErrNotFound)
	there = value[map[string]bool](k)(s.Suppressed(k.ctx, []string{"dora@example.com"}))
	k.equal("cleared", there, map[string]bool{})
}

// testEraseThenSend erases a person who gets something again: it is theirs to see and to turn off, like the first time.
func testEraseThenSend(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, []notify.Kind{{ID: "kind"}}, true))
	_, err := s.SetTopic(k.ctx, notify.Topic{TopicRef: notify.TopicRef{ClientID: "c", Name: "news"}})
	k.must(err)
	shown := func(s notify.Store) []int {
		k.Helper()
		_, kinds, err := s.Preferences(k.ctx, "dora")
		k.must(err)
		return []int{len(kinds), len(value[[]notify.TopicChoice](k)(s.TopicsOf(k.ctx, "dora")))}
	}
	send := func(s notify.Store) {
		k.Helper()
		k.accept(s, k.sending("c", "dora"))
		k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 10))...)
	}
	for i, p := range []notify.Person{{ClientID: "c", UserID: "dora"}, {All: true, UserID: "dora"}} {
		send(s)
		k.equal("after a notification", shown(s), []int{1, 1})
		k.erase(s, fmt.Sprint("e", i), p)
		k.equal("erased", shown(s), []int{0, 0})
		send(s)
		k.equal("after another", shown(s), []int{1, 1})
	}
	if !s.Shared() {
		return
	}
	other := k.store()
	send(other)
	k.erase(s, "e2", notify.Person{ClientID: "c", UserID: "dora"})
	k.clock.Advance(time.Minute)
	send(other)
	k.equal("by another server", shown(other), []int{1, 1})
}

// testEraseHolder erases a user who set recurring sends to others: they no longer name the user, and have no rights.
func testEraseHolder(k *kit) {
	s := k.store()
	of := func(client string) notify.Recurring {
		k.Helper()
		return value[notify.Recurring](k)(s.Recurring(k.ctx, notify.RecurringRef{ClientID: client, Name: "r"}))
	}
	for _, client := range []string{"c", "other"} {
		ref := notify.RecurringRef{ClientID: client, Name: "r"}
		at := k.clock.Now().Add(time.Hour)
		k.must(s.SetRecurring(k.ctx, notify.Recurring{RecurringRef: ref, Timetable: notify.Timetable{Cron: "@daily",
			Zone: "UTC"}, State: notify.RecurringActive, Next: at, Message: notify.RecurringMessage{KindID: "kind",
			Holder: &notify.Holder{UserID: "dora"}, Members: []notify.Member{{UserID: "ann"}}}}))
		k.must(s.PostponeOccurrence(k.ctx, notify.Occurrence{RecurringRef: ref, At: at, Updated: of(client).Updated},
			at.Add(time.Minute), `The user "dora" is not active`))
		k.equal("the problem", of(client).Problem, `The user "dora" is not active`)
	}
	k.erase(s, "e1", notify.Person{ClientID: "c", UserID: "dora", Email: "dora@example.com"})
	r := of("c")
	k.equal("erased", []any{r.Message.Holder, r.Problem, len(r.Message.Members)},
		[]any{&notify.Holder{Erased: true}, "", 1})
	r = of("other")
	k.equal("of another client", []any{r.Message.Holder, r.Problem == ""}, []any{&notify.Holder{UserID: "dora"}, false})
}

// testEraseWaiting erases a person whose messages are queued, and being delivered.
func testEraseWaiting(k *kit) {
	s := k.store()
	first := k.accept(s, k.sending("c", "dora"))
	held := k.claim(s, "w", 10)
	k.equal("claimed", len(held), 1)
	second := k.accept(s, k.sending("c", append(names("u", 150), "dora")...))
	p := notify.Person{ClientID: "c", UserID: "dora"}
	e := k.erase(s, "e", p)
	k.equal("finished", e.Finished.IsZero(), true)
	k.equal("erased", e.Erased, notify.Erased{Messages: 1, Canceled: 1})
	k.equal("the person", e.UserID, "dora")
	k.equal("open", value[int](k)(s.ContinueErasures(k.ctx)), 1)
	c := k.counts(s, second.Number)
	k.equal("counts", []int{c.Total, c.Queued, c.Canceled}, []int{151, 150, 1})

	// The server that held the message is gone: it is not delivered by another one.
	k.clock.Advance(time.Hour)
	s = k.store()
	for _, m := range k.claim(s, "w2", 10) {
		if notify.SendOf(m.Number) == first.Number {
			k.equal("canceled", m.Canceled, true)
			k.finish(s, notify.Canceled, m.Number)
		}
	}
	k.equal("still open", value[int](k)(s.ContinueErasures(k.ctx)), 0)
	e = value[notify.Erasure](k)(s.Erasure(k.ctx, "e"))
	k.equal("erased at the end", []any{e.Messages, e.Finished.IsZero(), e.UserID}, []any{2, false, ""})
	k.equal("shown", k.shown(s, p), []string(nil))

	// One that had failed can be replayed, and has no recipient.
	third := k.accept(s, k.sending("d", "dora"))
	k.finish(s, notify.Failed, notify.MessageNumber(third.Number, 0))
	k.erase(s, "e2", notify.Person{ClientID: "d", UserID: "dora"})
	k.must(s.Replay(k.ctx, "d", notify.MessageNumber(third.Number, 0)))
}

// testEraseTogether erases persons while messages to them are accepted, delivered and retried.
func testEraseTogether(k *kit) {
	s := k.store()
	done := make(chan error)
	for i := range 4 {
		go func() {
			for j := range 10 {
				if _, err := s.Erase(k.ctx, notify.Erasure{ID: fmt.Sprint(i, "-", j), Person: notify.Person{All: true,
					UserID: fmt.Sprint("u", i)}}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	total := 0
	for range 20 {
		send := k.accept(s, k.sending("c", "u0", "u1", "u2", "u3"))
		total += 4
		for _, m := range k.claim(s, "w", 10) {
			if m.Canceled {
				k.finish(s, notify.Canceled, m.Number)
			} else {
				k.finish(s, notify.Delivered, m.Number)
			}
		}
		c := k.counts(s, send.Number)
		k.equal("done", c.Done(), 4)
	}
	for range 4 {
		k.must(<-done)
	}
	for open := 1; open > 0; {
		open = value[int](k)(s.ContinueErasures(k.ctx))
	}
	k.waits(s, 0)
}
