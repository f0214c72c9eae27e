package storetest

import (
	"time"

	"ingot/internal/notify"
)

// testQuietHours sets, changes, shows, erases and deletes quiet hours.
func testQuietHours(k *kit) {
	s := k.store()
	make := func(from string, days ...string) *notify.QuietHours {
		return value[*notify.QuietHours](k)(notify.NewQuietHours(from, "07:00", "Europe/Berlin", days, nil))
	}
	texts := func(users ...string) map[string]string {
		all := map[string]string{}
		for id, q := range value[map[string]*notify.QuietHours](k)(s.QuietHours(k.ctx, users)) {
			all[id] = q.String()
		}
		return all
	}
	everyone := []string{"ann", "dora", "mailto:dora@example.com", "o'neil", "nobody", ""}
	k.equal("none", texts(everyone...), map[string]string{})
	for _, id := range everyone[:4] {
		k.must(s.ChangePreferences(k.ctx, id, notify.PreferenceChange{Quiet: make("22:00", "mon")}))
	}
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{Quiet: make("21:30")}))
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{
		{ClientID: "c", KindID: "a"}: turning(notify.Email, false)}}))
	const monday = "22:00 to 07:00 (Europe/Berlin) on mon"
	k.equal("all", texts(everyone...), map[string]string{"ann": "21:30 to 07:00 (Europe/Berlin)", "dora": monday,
		"mailto:dora@example.com": monday, "o'neil": monday})
	k.equal("one", texts("dora"), map[string]string{"dora": monday})
	k.equal("nobody", texts(), map[string]string{})

	of := dora
	of.All = true
	const shown = "*notify.QuietHours"
	k.equal("shown", k.shown(s, of), []string{shown, shown})
	of.All, of.ClientID = false, "c"
	k.equal("shown to a client", k.shown(s, of), []string(nil))
	k.erase(s, "e1", of)
	k.equal("after a client's erasure", len(texts(everyone...)), 4)
	of.All, of.ClientID = true, ""
	k.erase(s, "e2", of)
	k.equal("after an erasure", len(texts(everyone...)), 2)

	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{NoQuiet: true}))
	k.must(s.ChangePreferences(k.ctx, "nobody", notify.PreferenceChange{NoQuiet: true}))
	k.equal("deleted", texts(everyone...), map[string]string{"o'neil": monday})
}

// hold makes messages wait until the end of quiet hours.
func (k *kit) hold(s notify.Store, until time.Time, numbers ...int64) {
	k.Helper()
	outcomes := make([]notify.Outcome, len(numbers))
	for i, n := range numbers {
		outcomes[i] = notify.Outcome{Number: n, Status: notify.Retry, Due: until, At: k.clock.Now(), Quiet: true}
	}
	value[[]notify.Claimed](k)(s.Finish(k.ctx, outcomes, nil))
}

// testQuietLimit sees that messages count while they wait for the end of quiet hours, however that ends, that a client
// of which too many do is refused what may wait, and that it counts for no other.
func testQuietLimit(k *kit) {
	const limit = 3
	s := k.store()
	try := func(client string, change func(*notify.NewSend)) (int64, error) {
		n := k.sending(client, "u")
		n.QuietLimit = limit
		if change != nil {
			change(&n)
		}
		send, _, err := s.Accept(k.ctx, n)
		return notify.MessageNumber(send.Number, 0), err
	}
	made := func() int64 {
		k.Helper()
		return value[int64](k)(try("shop", nil))
	}
	until := k.clock.Now().Add(time.Hour)
	var all []int64
	fill := func() {
		k.Helper()
		for len(all) < limit {
			n := made()
			k.hold(s, until, n)
			all = append(all, n)
		}
	}
	full := func(when string, want bool) {
		k.Helper()
		s = k.store()
		n, err := try("shop", nil)
		k.equal(when, err != nil, want)
		if err != nil {
			k.wantErr(err, notify.ErrQuietFull)
			return
		}
		k.finish(s, notify.Delivered, n)
	}
	fill()
	k.hold(s, until.Add(time.Minute), all[0]) // again
	full("held", true)
	for what, change := range map[string]func(*notify.NewSend){
		"critical": func(n *notify.NewSend) { n.Critical = true },
		"no kind":  func(n *notify.NewSend) { n.KindID = "" },
	} {
		if _, err := try("shop", change); err != nil {
			k.Errorf("%s: %v", what, err)
		}
	}
	_, err := try("other", nil)
	k.must(err)
	_, err = try("shop", func(n *notify.NewSend) { n.SendAt = until })
	k.wantErr(err, notify.ErrQuietFull)

	for _, end := range []notify.Status{notify.Delivered, notify.Retry, notify.Failed, notify.Undeliverable,
		notify.Throttled} {
		k.finish(s, end, all[0])
		all = all[1:]
		full(string(end), false)
		fill()
		full("after "+string(end), true)
	}
	k.cancel(s, notify.SendOf(all[0]))
	k.cancel(s, notify.SendOf(all[0]))
	all = all[1:]
	full("canceled", false)
	fill()
	full("after the cancellation", true)
	k.cancel(s, notify.SendOf(all[0]))
	k.cancel(s, notify.SendOf(all[1]))

	// What workflows delay counts as that, and not twice.
	w := k.workflow(laterMail)
	for range limit {
		delayed := k.accept(s, k.traveling(w, "ann"))
		k.hold(s, until, k.mailAt(s, delayed.Number, "ann"))
	}
	full("delayed", false)
}

// testQuietWake sees that messages that wait are due when quiet hours of their recipient change, and no others.
func testQuietWake(k *kit) {
	s := k.store()
	hours := value[*notify.QuietHours](k)(notify.NewQuietHours("22:00", "07:00", "Europe/Berlin", nil, nil))
	mails := k.sending("c", "ann", "bob")
	mails.Recipients = append(mails.Recipients, notify.Recipient{Email: "Dora@Example.com"},
		notify.Recipient{Email: "eve@example.com"})
	send := k.accept(s, mails)
	all := numbersOf(k.claim(s, "w", 10))
	k.equal("claimed", len(all), 4)
	until := k.clock.Now().Add(time.Hour)
	k.hold(s, until, all...)
	var other []int64
	for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, k.accept(s, k.sending("c", "ann")).Number, -1, 10)) {
		other = append(other, m.Number)
	}
	k.claim(s, "w", 10)
	k.finish(s, notify.Retry, other...) // for another reason
	due := func(when string, want ...string) {
		k.Helper()
		s = k.store()
		var got []string
		claimed := k.claim(s, "w", 10)
		for _, c := range claimed {
			got = append(got, c.UserID+c.Email)
		}
		k.equal(when, got, want)
		k.hold(s, until, numbersOf(claimed)...)
	}
	due("at first")
	yes := true
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{Global: &yes}))
	k.must(s.ChangePreferences(k.ctx, "nobody", notify.PreferenceChange{NoQuiet: true}))
	k.must(s.ChangePreferences(k.ctx, "mailto:nobody@example.com", notify.PreferenceChange{NoQuiet: true}))
	due("others changed")
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{NoQuiet: true}))
	due("removed", "annann@example.com")
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{Quiet: hours}))
	due("set", "annann@example.com")
	k.must(s.ChangePreferences(k.ctx, "mailto:dora@example.com", notify.PreferenceChange{NoQuiet: true}))
	due("an address", "Dora@Example.com")
	k.clock.Advance(time.Hour)
	k.cancel(s, send.Number)
	k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{NoQuiet: true}))
	k.equal("canceled", len(k.claim(s, "w", 10)), 1)
}
