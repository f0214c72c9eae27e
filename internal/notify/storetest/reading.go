package storetest

import (
	"slices"
	"time"

	"ingot/internal/notify"
)

func testListSends(k *kit) {
	s := k.store()
	var want []int64
	for range 5 {
		want = append(want, k.accept(s, k.sending("c", "u")).Number)
		k.accept(s, k.sending("d", "u"))
	}
	slices.Reverse(want)
	list := func(client string, before int64, limit int) (got []int64) {
		k.Helper()
		for _, send := range value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{ClientID: client, Before: before,
			Limit: limit})) {
			got = append(got, send.Number)
			k.equal("counts", send.Counts, notify.Counts{Total: 1, Queued: 1})
		}
		return got
	}
	k.equal("all", list("c", 0, 10), want)
	k.equal("first page", list("c", 0, 2), want[:2])
	k.equal("second page", list("c", want[1], 2), want[2:4])
	k.equal("of no client", list("x", 0, 10), []int64(nil))
	k.equal("of all clients", len(value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{All: true, Limit: 100}))),
		10)
}

func testVolumes(k *kit) {
	s := k.store()
	const day = 24 * time.Hour
	k.clock.Advance(day - k.clock.Now().Sub(k.clock.Now().UTC().Truncate(day))) // a day begins
	first := k.clock.Now().UTC()
	news := k.sending("c", names("u", 3)...)
	news.KindID = "news"
	for _, n := range []notify.NewSend{news, news, k.sending("d", "u")} {
		n.Received = k.clock.Now()
		k.accept(s, n)
	}
	k.clock.Advance(day)
	news.Received = k.clock.Now()
	k.accept(s, news)
	volumes := func(since time.Time) map[string]notify.Volume {
		k.Helper()
		found := map[string]notify.Volume{}
		for _, v := range value[[]notify.Volume](k)(s.Volumes(k.ctx, since)) {
			found[v.ClientID+v.Day.Format(" 2006-01-02")] = v
		}
		return found
	}
	at := func(client string, day time.Time) string { return client + day.Format(" 2006-01-02") }
	all := volumes(first)
	k.equal("kinds and days", len(all), 3)
	k.equal("first day", all[at("c", first)], notify.Volume{ClientID: "c", KindID: "news", Day: first, Sends: 2,
		Messages: 6})
	k.equal("second day", all[at("c", first.Add(day))], notify.Volume{ClientID: "c", KindID: "news", Day: first.Add(day),
		Sends: 1, Messages: 3})
	k.equal("since", len(volumes(first.Add(day))), 1)
}

func testMessages(k *kit) {
	s := k.store()
	k.accept(s, k.sending("c", "before"))
	send := k.accept(s, k.sending("c", names("u", 7)...))
	k.accept(s, k.sending("c", "after"))
	var got []string
	for after := int64(-1); ; {
		page := value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, after, 3))
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			got = append(got, m.UserID)
		}
		after = page[len(page)-1].Number
	}
	k.equal("users", got, names("u", 7))
	_, client, err := s.Message(k.ctx, notify.MessageNumber(send.Number, 6))
	k.must(err)
	k.equal("client", client, "c")
	_, _, err = s.Message(k.ctx, notify.MessageNumber(send.Number, 7))
	k.wantErr(err, notify.ErrNotFound)
}

func testFindMessages(k *kit) {
	s := k.store()
	// Small and large sends of two clients, and two kinds, among each other.
	var all []notify.Message
	kinds := map[int64]string{}
	for i, size := range []int{1, 3, 110, 1, 2, 101, 4} {
		n := k.sending("c", names("u", size)...)
		if i%2 == 1 {
			n.KindID = "odd"
		}
		send := k.accept(s, n)
		kinds[send.Number] = n.KindID
		other := k.sending("d", "u-000000")
		k.accept(s, other)
		k.clock.Advance(time.Minute)
	}
	var outcomes []notify.Outcome
	for _, c := range k.claim(s, "w", 1000) {
		k.clock.Advance(time.Millisecond)
		o := notify.Outcome{Number: c.Number, Status: notify.Delivered, At: k.clock.Now()}
		switch c.Number % 5 {
		case 0:
			continue
		case 1:
			o.Status = notify.Failed
		case 2:
			o.Status, o.Parked = notify.Failed, true
		}
		outcomes = append(outcomes, o)
	}
	value[[]notify.Claimed](k)(s.Finish(k.ctx, outcomes, nil))
	for send := range kinds {
		all = append(all, value[[]notify.Message](k)(s.MessagesOf(k.ctx, send, -1, 1000))...)
	}
	slices.SortFunc(all, func(a, b notify.Message) int { return int(b.Number - a.Number) })
	middle := all[len(all)/2]
	large := notify.SendOf(all[slices.IndexFunc(all,
		func(m notify.Message) bool { return m.UserID == "u-000109" })].Number)
	for name, test := range map[string]struct {
		q    notify.MessageQuery
		want func(m notify.Message) bool
	}{
		"All": {notify.MessageQuery{}, func(notify.Message) bool { return true }},
		"Status": {notify.MessageQuery{Status: notify.Queued},
			func(m notify.Message) bool { return m.Status == notify.Queued }},
		"Failed": {notify.MessageQuery{Status: notify.Failed},
			func(m notify.Message) bool { return m.Status == notify.Failed }},
		"Parked": {notify.MessageQuery{Parked: true}, func(m notify.Message) bool { return m.Parked }},
		"User":   {notify.MessageQuery{UserID: "u-000002"}, func(m notify.Message) bool { return m.UserID == "u-000002" }},
		"Email": {notify.MessageQuery{Email: "u-000000@example.com"},
			func(m notify.Message) bool { return m.UserID == "u-000000" }},
		"Send": {notify.MessageQuery{Send: large},
			func(m notify.Message) bool { return notify.SendOf(m.Number) == large }},
		"SendSome": {notify.MessageQuery{Send: large, Status: notify.Failed},
			func(m notify.Message) bool { return notify.SendOf(m.Number) == large && m.Status == notify.Failed }},
		"Kind": {notify.MessageQuery{KindID: "odd"},
			func(m notify.Message) bool { return kinds[notify.SendOf(m.Number)] == "odd" }},
		"Since": {notify.MessageQuery{Since: middle.Updated},
			func(m notify.Message) bool { return !m.Updated.Before(middle.Updated) }},
		"Before": {notify.MessageQuery{Before: middle.Updated},
			func(m notify.Message) bool { return m.Updated.Before(middle.Updated) }},
		"Unknown":   {notify.MessageQuery{Status: "odd"}, func(notify.Message) bool { return false }},
		"OtherSend": {notify.MessageQuery{Send: large + 1}, func(notify.Message) bool { return false }},
	} {
		var want []notify.Message
		for _, m := range all {
			if test.want(m) {
				want = append(want, m)
			}
		}
		for _, limit := range []int{1000, 37} {
			test.q.ClientID, test.q.Limit, test.q.After = "c", limit, 0
			var got []notify.Message
			for {
				page := value[[]notify.Message](k)(s.FindMessages(k.ctx, test.q))
				if len(page) > limit {
					k.Fatalf("%s: %d messages, limit %d", name, len(page), limit)
				}
				got = append(got, page...)
				if len(page) < limit {
					break
				}
				test.q.After = page[len(page)-1].Number
			}
			k.equal(name, got, want)
		}
	}
	k.equal("of all clients", len(value[[]notify.Message](k)(s.FindMessages(k.ctx,
		notify.MessageQuery{All: true, Limit: 1000}))), len(all)+7)
	k.equal("of no client", len(value[[]notify.Message](k)(s.FindMessages(k.ctx, notify.MessageQuery{Limit: 1000}))), 0)
}
