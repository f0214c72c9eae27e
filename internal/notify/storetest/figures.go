package storetest

import (
	"fmt"
	"sync"
	"time"

	"ingot/internal/notify"
)

// figuresOf asks for the figures of a client by the hour, the last of which is now.
func (k *kit) figuresOf(s notify.Store, client string, by notify.FigureDimension) notify.FigureReport {
	k.Helper()
	return k.figures(s, notify.FigureQuery{ClientID: client, By: by, Points: notify.FigureHours, Groups: 10})
}

// figures completes a question whose last point is now.
func (k *kit) figures(s notify.Store, q notify.FigureQuery) notify.FigureReport {
	k.Helper()
	step := time.Hour
	if q.Daily {
		step = 24 * time.Hour
	}
	q.From = k.clock.Now().UTC().Truncate(step).Add(-time.Duration(q.Points-1) * step)
	r, err := s.Figures(k.ctx, q)
	k.must(err)
	return r
}

// groups are the sums of the groups of a report, by a name.
func groups(r notify.FigureReport) map[string]notify.Figures {
	all := map[string]notify.Figures{}
	for _, g := range r.Groups {
		s := g.Series
		all[fmt.Sprint(s.ClientID, "/", s.KindID, "/", s.Channel, "/", s.Domain, "/", s.TemplateID, "/",
			s.TemplateVersion)] = notify.SumFigures(g.Points)
	}
	return all
}

// results are outcomes with all that figures are counted by.
func (k *kit) results(claimed []notify.Claimed, template string, version int64, all ...notify.Status) []notify.Outcome {
	var out []notify.Outcome
	for i, status := range all {
		o := notify.Outcome{Number: claimed[i].Number, Status: status, At: k.clock.Now(), TemplateID: template,
			TemplateVersion: version}
		switch status {
		case notify.Delivered, notify.Failed:
			o.Attempted = true
		case notify.Retry:
			o.Attempted, o.Due = true, k.clock.Now().Add(time.Minute)
		}
		out = append(out, o)
	}
	return out
}

func (k *kit) record(s notify.Store, outcomes []notify.Outcome) {
	k.Helper()
	value[[]notify.Claimed](k)(s.Finish(k.ctx, outcomes, nil))
}

// testFigures counts each outcome once, by each dimension.
func testFigures(k *kit) {
	s := k.store()
	n := k.sending("shop", "a", "b", "c", "d", "e", "f")
	for i, address := range []string{"a@One.example", "b@one.example", "c@two.example", "d@two.example", "",
		"f@two.example"} {
		n.Recipients[i].Email = address
	}
	k.accept(s, n)
	k.equal("figures of what waits", k.figuresOf(s, "shop", notify.FiguresByKind).Total,
		make([]notify.Figures, notify.FigureHours))
	claimed := k.claim(s, "w", 10)
	first := k.results(claimed, "t1", 3, notify.Delivered, notify.Retry, notify.Failed, notify.Unsubscribed,
		notify.Undeliverable, notify.Skipped)
	k.record(s, first)
	k.record(s, first) // what is final is not counted twice; the retry is another attempt
	// Postponing is no attempt.
	postponed := k.results(claimed[1:], "", 0, notify.Retry)
	postponed[0].Attempted = false
	k.record(s, postponed)

	k.clock.Advance(time.Hour)
	again := k.claim(s, "w", 10)
	k.record(s, k.results(again, "t1", 4, notify.Delivered))

	r := k.figuresOf(s, "shop", notify.FiguresByKind)
	total := notify.Figures{Accepted: 6, Delivered: 2, Failed: 1, Undeliverable: 1, Unsubscribed: 1, Skipped: 1,
		Retried: 2}
	k.equal("total", notify.SumFigures(r.Total), total)
	k.equal("by kind", groups(r), map[string]notify.Figures{"shop/kind/email///0": total})
	k.equal("rest", r.Rest, make([]notify.Figures, notify.FigureHours))
	last := len(r.Total) - 1
	k.equal("this hour", r.Total[last], notify.Figures{Delivered: 1})
	k.equal("the hour before", r.Total[last-1].Accepted, int64(6))
	k.equal("by channel", groups(k.figuresOf(s, "shop", notify.FiguresByChannel)),
		map[string]notify.Figures{"//email///0": total})
	k.equal("by domain", groups(k.figuresOf(s, "shop", notify.FiguresByDomain)), map[string]notify.Figures{
		"//email/one.example//0": {Accepted: 2, Delivered: 2, Retried: 2},
		"//email/two.example//0": {Accepted: 3, Failed: 1, Unsubscribed: 1, Skipped: 1},
		"//email///0":            {Accepted: 1, Undeliverable: 1},
	})
	k.equal("by template", groups(k.figuresOf(s, "shop", notify.FiguresByTemplate)), map[string]notify.Figures{
		"//email//t1/3": {Accepted: 6, Delivered: 1, Failed: 1, Unsubscribed: 1, Undeliverable: 1, Skipped: 1, Retried: 2},
		"//email//t1/4": {Delivered: 1},
	})
	k.equal("of another client", groups(k.figuresOf(s, "other", notify.FiguresByKind)), map[string]notify.Figures{})
	domain, kind, template, inbox := "one.example", "kind", "t1", notify.Inbox
	for want, q := range map[int64]notify.FigureQuery{
		2: {Domain: &domain}, 6: {KindID: &kind, TemplateID: &template}, 0: {Channel: &inbox},
	} {
		q.ClientID, q.By, q.Points, q.Groups = "shop", notify.FiguresByDomain, 2, 1
		r := k.figures(s, q)
		k.equal("filtered", notify.SumFigures(r.Total).Accepted, want)
		if len(r.Groups) > 1 {
			k.Errorf("%d groups, at most one was asked for", len(r.Groups))
		}
	}
	all := k.figures(s, notify.FigureQuery{All: true, By: notify.FiguresByKind, Points: 2, Groups: 1})
	k.equal("of all clients", groups(all), map[string]notify.Figures{"shop/kind/email///0": total})
}

// testFiguresChanged replays and cancels messages.
func testFiguresChanged(k *kit) {
	s := k.store()
	send := k.accept(s, k.sending("shop", names("u", 10)...))
	claimed := k.claim(s, "w", 4)
	k.record(s, k.results(claimed, "t", 1, notify.Failed, notify.Delivered, notify.Retry))
	k.must(s.Replay(k.ctx, "shop", claimed[0].Number))
	value[notify.Send](k)(s.Cancel(k.ctx, send.Number))
	// One is still claimed, and then delivered.
	k.record(s, k.results(claimed[3:], "t", 1, notify.Delivered))
	k.equal("figures", notify.SumFigures(k.figuresOf(s, "shop", notify.FiguresByKind).Total), notify.Figures{
		Accepted: 11, Delivered: 2, Failed: 1, Retried: 1, Canceled: 8})
	k.equal("counts", k.counts(s, send.Number).Canceled, 8)
}

// testFiguresBounds counts more domains and templates than a client may have series.
func testFiguresBounds(k *kit) {
	s := k.store()
	const domains = notify.MaxFigureDomains + 20
	for _, client := range []string{"shop", "other"} {
		n := k.sending(client, names("u", domains)...)
		for i := range n.Recipients {
			n.Recipients[i].Email = fmt.Sprintf("u@domain-%03d.example", i)
		}
		k.accept(s, n)
	}
	for claimed := k.claim(s, "w", 100); len(claimed) > 0; claimed = k.claim(s, "w", 100) {
		for i := range claimed {
			k.record(s, k.results(claimed[i:i+1], "t", 1, notify.Delivered))
		}
		s = k.store() // which knows nothing of the series
	}
	for _, client := range []string{"shop", "other"} {
		r := k.figures(s, notify.FigureQuery{ClientID: client, By: notify.FiguresByDomain, Points: 1, Groups: domains})
		k.equal("domains", len(r.Groups), notify.MaxFigureDomains)
		k.equal("total", r.Total[0].Delivered, int64(domains))
		k.equal("rest", r.Rest[0].Delivered, int64(20))
		for _, g := range r.Groups {
			if g.Points[0].Delivered != 1 || g.Series.Domain == notify.OtherFigures {
				k.Errorf("group %+v", g)
			}
		}
		few := k.figures(s, notify.FigureQuery{ClientID: client, By: notify.FiguresByDomain, Points: 1, Groups: 5})
		k.equal("rest of few", few.Rest[0].Delivered, int64(domains-5))
	}

	// Each version of a template is a series, until there are too many.
	send := k.sending("many", names("u", notify.MaxFigureSeries+50)...)
	k.accept(s, send)
	var outcomes []notify.Outcome
	for claimed := k.claim(s, "w", 2000); len(claimed) > 0; claimed = k.claim(s, "w", 2000) {
		for i := range claimed {
			outcomes = append(outcomes, k.results(claimed[i:i+1], "t", int64(len(outcomes)+1), notify.Delivered)...)
		}
	}
	k.record(s, outcomes)
	r := k.figures(s, notify.FigureQuery{ClientID: "many", By: notify.FiguresByTemplate, Points: 1, Groups: 5000})
	k.equal("versions", len(r.Groups), notify.MaxFigureSeries)
	k.equal("messages of the rest", r.Rest[0].Delivered, int64(50))
	of := k.figures(s, notify.FigureQuery{ClientID: "many", By: notify.FiguresByKind, Points: 1, Groups: 9})
	n := int64(len(outcomes))
	k.equal("kinds", groups(of), map[string]notify.Figures{"many/kind/email///0": {Accepted: n, Delivered: n}})
}

// testFiguresPurge makes days of hours, and forgets old ones.
func testFiguresPurge(k *kit) {
	s := k.store()
	deliver := func(client string) {
		k.Helper()
		k.accept(s, k.sending(client, "u"))
		k.record(s, k.results(k.claim(s, "w", 10), "t", 1, notify.Delivered))
	}
	purge := func() {
		k.Helper()
		value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(-24*time.Hour)))
	}
	total := func(daily bool, points int) (sum int64) {
		k.Helper()
		r := k.figures(s, notify.FigureQuery{ClientID: "shop", By: notify.FiguresByKind, Daily: daily, Points: points,
			Groups: 9})
		return notify.SumFigures(r.Total).Delivered
	}
	for range 30 { // two messages every six hours
		deliver("shop")
		deliver("shop")
		k.clock.Advance(6 * time.Hour)
	}
	k.equal("before, by day", total(true, 30), int64(60))
	purge()
	purge()
	k.equal("after, by day", total(true, 30), int64(60))
	k.equal("after, by hour", total(false, notify.FigureHours), int64(14))
	days := k.figures(s, notify.FigureQuery{ClientID: "shop", By: notify.FiguresByKind, Daily: true, Points: 8, Groups: 9})
	k.equal("days", []int64{days.Total[1].Delivered, days.Total[6].Delivered}, []int64{8, 8})

	k.clock.Advance(88 * 24 * time.Hour)
	purge()
	if n := total(true, notify.FigureDays); n == 0 || n == 60 {
		k.Errorf("%d are left, want those of the last days", n)
	}
	// Another server knows the series, and uses it when it is retired.
	k.clock.Advance(10 * 24 * time.Hour)
	deliver("other") // no figures of shop any more
	purge()
	deliver("shop")
	purge()
	k.clock.Advance(30 * time.Hour)
	purge()
	k.equal("used again", total(true, 3), int64(1))
	k.clock.Advance(100 * 24 * time.Hour)
	purge()
	k.clock.Advance(30 * time.Hour)
	purge()
	deliver("shop")
	k.equal("new again", total(true, notify.FigureDays), int64(1))
}

// testFiguresTogether finishes messages at the same time, by several servers if the store is shared.
func testFiguresTogether(k *kit) {
	stores := []notify.Store{k.store()}
	if stores[0].Shared() {
		stores = append(stores, k.store(), k.store())
	}
	const users, workers = 300, 4
	for i := range workers {
		k.accept(stores[0], k.sending(fmt.Sprint("client-", i%2), names(fmt.Sprint("u", i), users)...))
	}
	var done sync.WaitGroup
	for i := range workers {
		done.Go(func() {
			s := stores[i%len(stores)]
			for {
				claimed, err := s.Claim(k.ctx, fmt.Sprint("w", i), 20, time.Minute)
				if err != nil || len(claimed) == 0 {
					if err != nil {
						k.Error(err)
					}
					return
				}
				var outcomes []notify.Outcome
				for j := range claimed {
					outcomes = append(outcomes, k.results(claimed[j:], fmt.Sprint("t", j%7), 1, notify.Delivered)...)
				}
				if _, err := s.Finish(k.ctx, outcomes, nil); err != nil {
					k.Error(err)
				}
			}
		})
	}
	done.Wait()
	r := k.figures(stores[0], notify.FigureQuery{All: true, By: notify.FiguresByKind, Points: 1, Groups: 9})
	each := notify.Figures{Accepted: 2 * users, Delivered: 2 * users}
	k.equal("figures", groups(r), map[string]notify.Figures{"client-0/kind/email///0": each,
		"client-1/kind/email///0": each})
}

// testFiguresErased erases a person alone in a domain, and one whose domain others have.
func testFiguresErased(k *kit) {
	s := k.store()
	for _, client := range []string{"shop", "other"} {
		n := k.sending(client, "dora", "ann", "bob")
		n.Recipients[0].Email, n.Recipients[1].Email, n.Recipients[2].Email = "Me@Dora.example", "ann@dora.example.com",
			"bob@example.com"
		k.accept(s, n)
	}
	claimed := k.claim(s, "w", 10)
	k.record(s, k.results(claimed, "t", 1, notify.Delivered, notify.Delivered, notify.Delivered, notify.Delivered,
		notify.Retry, notify.Delivered))
	domains := func(client string) (all []string, rest notify.Figures) {
		k.Helper()
		r := k.figuresOf(s, client, notify.FiguresByDomain)
		for _, g := range r.Groups {
			all = append(all, g.Series.Domain)
		}
		return all, notify.SumFigures(r.Rest)
	}
	both := []string{"dora.example", "dora.example.com", "example.com"}
	all, _ := domains("shop")
	k.equal("domains", all, both)
	k.erase(s, "e1", notify.Person{UserID: "dora", ClientID: "shop"})
	all, rest := domains("shop")
	k.equal("domains after it", all, both[1:])
	k.equal("figures of the domain", rest, notify.Figures{Accepted: 1, Delivered: 1})
	all, _ = domains("other")
	k.equal("domains of another client", all, both)
	k.erase(s, "e2", notify.Person{Email: "me@dora.example", All: true})
	all, rest = domains("other")
	k.equal("domains of another client after it", all, both[1:])
	k.equal("figures of the domain there", rest.Accepted, int64(1))

	// Both are at example.com, so it names no person.
	n := k.sending("shop", "eve")
	n.Recipients[0].Email = "eve@example.com"
	k.accept(s, n)
	k.record(s, k.results(k.claim(s, "w", 10), "t", 1, notify.Delivered))
	k.erase(s, "e3", notify.Person{Email: "EVE@example.com", All: true})
	all, _ = domains("shop")
	k.equal("domains with others", all, []string{"example.com", "dora.example.com"})
	k.equal("total", notify.SumFigures(k.figuresOf(s, "shop", notify.FiguresByKind).Total).Delivered, int64(4))

	// Canceled messages of the person count, but not for the domain.
	n = k.sending("shop", "dora")
	n.Recipients[0].Email = "me@dora.example"
	k.accept(s, n)
	k.erase(s, "e4", notify.Person{Email: "me@dora.example", All: true})
	all, rest = domains("shop")
	k.equal("domains in the end", all, []string{"example.com", "", "dora.example.com"})
	k.equal("those of others", rest, notify.Figures{Accepted: 1, Delivered: 1})
}

// testFiguresDigested counts messages that are collected, and the digest, which is a message as well.
func testFiguresDigested(k *kit) {
	s := k.store()
	for _, subject := range []string{"a", "b"} {
		k.accept(s, k.collecting(hourly(50), subject, "ann", "bob"))
	}
	k.equal("collected", k.collect(s, nil), 4)
	k.equal("figures of what is collected", groups(k.figuresOf(s, "shop", notify.FiguresByKind)),
		map[string]notify.Figures{})
	k.clock.Advance(time.Hour)
	k.close(s, 2, time.Time{})
	k.record(s, k.results(k.claim(s, "w", 10), "t", 1, notify.Delivered, notify.Delivered))
	k.equal("figures", groups(k.figuresOf(s, "shop", notify.FiguresByKind)), map[string]notify.Figures{
		"shop/kind/email///0": {Accepted: 6, Digested: 4, Delivered: 2}})
}
