package storetest

import (
	"sync"
	"time"

	"ingot/internal/notify"
)

// testTracking stores, keeps and removes what is counted of a kind, and sees that scheduled sends and digests have it.
func testTracking(k *kit) {
	s := k.store()
	const both = notify.TrackOpens | notify.TrackClicks
	ref := notify.KindRef{ClientID: "shop", KindID: "kind"}
	k.wantErr(s.SetTracking(k.ctx, ref, both), notify.ErrNotFound)
	kinds := []notify.Kind{{ID: "kind"}, {ID: "other"}}
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, kinds, true))
	k.must(s.SetTracking(k.ctx, ref, both))
	s = k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, kinds, true))
	for _, kind := range value[[]notify.Kind](k)(s.Kinds(k.ctx, "shop")) {
		want := notify.Tracking(0)
		if kind.ID == "kind" {
			want = both
		}
		k.equal("of "+kind.ID, kind.Tracking, want)
	}
	later := k.sending("shop", "ann")
	later.Tracking, later.SendAt = notify.TrackClicks, k.clock.Now().Add(time.Hour)
	later.Audiences = []notify.Audience{{Type: notify.ToUser, ID: "ann"}}
	later.Recipients, later.Planned, later.Expanded = nil, 1, false
	k.accept(s, later)
	entry := k.collecting(hourly(50), "a", "ann")
	entry.Tracking = notify.TrackClicks
	k.accept(s, entry)
	k.equal("collected", k.collect(s, nil), 1)
	k.clock.Advance(time.Hour)
	k.activate(s, 1, time.Time{})
	k.close(s, 1, time.Time{})
	claimed := k.claim(s, "w", 10)
	k.equal("claimed", len(claimed), 2)
	for _, c := range claimed {
		k.equal("of a claimed message", c.Send.Tracking, notify.TrackClicks)
	}
	k.must(s.SetTracking(k.ctx, ref, 0))
	k.equal("removed", value[notify.Kind](k)(s.Kind(k.ctx, ref)).Tracking, notify.Tracking(0))
}

// testConsent stores that a user allows counting, beside what else they chose, until their data is erased.
func testConsent(k *kit) {
	s := k.store()
	ref := notify.KindRef{ClientID: "shop", KindID: "kind"}
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, []notify.Kind{{ID: "kind"}}, true))
	k.must(s.SetTracking(k.ctx, ref, notify.TrackOpens))
	k.finish(s, notify.Delivered, notify.MessageNumber(k.accept(s, k.sending("shop", "ann")).Number, 0))
	this := notify.Subscription{UserID: "ann", KindRef: ref}
	choose := func(w notify.Wish) notify.Choice {
		k.Helper()
		k.must(s.ChangePreferences(k.ctx, "ann", notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{ref: w}}))
		found := value[map[notify.Subscription]notify.Choice](k)(s.Unsubscribed(k.ctx,
			[]notify.Subscription{this, {UserID: "bob", KindRef: ref}}))
		k.equal("of another user", found[notify.Subscription{UserID: "bob", KindRef: ref}], notify.Choice{})
		_, all, err := s.Preferences(k.ctx, "ann")
		k.must(err)
		k.equal("kinds", len(all), 1)
		k.equal("listed", all[0].Choice, found[this])
		k.equal("counted", all[0].Kind.Tracking, notify.TrackOpens)
		return found[this]
	}
	yes, no := true, false
	k.equal("by default", choose(notify.Wish{}), notify.Choice{})
	k.equal("allowed", choose(notify.Wish{Tracking: &yes}), notify.Choice{Tracking: true})
	off := notify.Choice{Unwanted: notify.UnwantedOn(notify.Inbox), Tracking: true}
	k.equal("another choice", choose(notify.Wish{Channels: map[notify.ChannelID]bool{notify.Inbox: false}}), off)
	k.equal("refused", choose(notify.Wish{Tracking: &no}), notify.Choice{Unwanted: off.Unwanted})
	k.equal("again", choose(notify.Wish{Tracking: &yes}), off)
	var shown []notify.Objection
	k.must(s.ShowPerson(k.ctx, notify.Person{ClientID: "shop", UserID: "ann"}, func(v any) error {
		if o, is := v.(notify.Objection); is {
			shown = append(shown, o)
		}
		return nil
	}))
	k.equal("shown", shown, []notify.Objection{{Subscription: this, Choice: off}})
	value[notify.Erasure](k)(s.Erase(k.ctx, notify.Erasure{ID: "e",
		Person: notify.Person{ClientID: "shop", UserID: "ann"}}))
	found := value[map[notify.Subscription]notify.Choice](k)(s.Unsubscribed(k.ctx, []notify.Subscription{this}))
	k.equal("after an erasure", found[this], notify.Choice{Unwanted: off.Unwanted})
}

// testReactions counts opens and clicks once for each message and in all, until the message is erased or purged.
func testReactions(k *kit) {
	s := k.store()
	number := k.accept(s, k.sending("shop", "ann", "bob")).Number
	ann, bob := notify.MessageNumber(number, 0), notify.MessageNumber(number, 1)
	k.finish(s, notify.Delivered, ann, bob)
	of := notify.FigureSeries{ClientID: "shop", KindID: "kind", Channel: notify.Email, TemplateID: "t", TemplateVersion: 3,
		Domain: "example.com"}
	react := func(number int64, what notify.ReactionType) {
		k.Helper()
		k.must(s.React(k.ctx, notify.Reaction{Number: number, Type: what, Last: k.clock.Now()}, of))
	}
	figures := func() notify.Figures {
		k.Helper()
		for _, g := range k.figuresOf(s, "shop", notify.FiguresByTemplate).Groups {
			if g.Series.TemplateID == "t" && g.Series.TemplateVersion == 3 {
				return notify.SumFigures(g.Points)
			}
		}
		return notify.Figures{}
	}
	first := k.clock.Now()
	react(ann, notify.Opened)
	react(ann, notify.Clicked)
	k.clock.Advance(time.Minute)
	react(ann, notify.Clicked)
	react(bob, notify.Opened)
	k.equal("figures", figures(), notify.Figures{Opened: 2, Clicked: 1, Opens: 2, Clicks: 2})
	shown := func(user string) (all []notify.Reaction) {
		k.Helper()
		k.must(s.ShowPerson(k.ctx, notify.Person{ClientID: "shop", UserID: user}, func(v any) error {
			if c, is := v.(notify.Claimed); is {
				all = append(all, c.Reactions...)
			}
			return nil
		}))
		for i := range all {
			all[i].First, all[i].Last = all[i].First.UTC(), all[i].Last.UTC()
		}
		return all
	}
	last := k.clock.Now().UTC()
	k.equal("shown", shown("ann"), []notify.Reaction{{Number: ann, Type: notify.Opened, First: first.UTC(),
		Last: first.UTC(), Total: 1}, {Number: ann, Type: notify.Clicked, First: first.UTC(), Last: last, Total: 2}})

	// Concurrent ones are all counted, and only one of them is the first; there is an end.
	number = k.accept(s, k.sending("shop", "eve")).Number
	eve := notify.MessageNumber(number, 0)
	k.finish(s, notify.Delivered, eve)
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		all.Go(func() {
			errs <- s.React(k.ctx, notify.Reaction{Number: eve, Type: notify.Opened, Last: k.clock.Now()}, of)
		})
	}
	all.Wait()
	for range 8 {
		k.must(<-errs)
	}
	k.equal("concurrent", figures(), notify.Figures{Opened: 3, Clicked: 1, Opens: 10, Clicks: 2})
	for range notify.MaxReactions {
		react(eve, notify.Opened)
	}
	k.equal("limited", figures().Opens, int64(2+notify.MaxReactions))

	// The figures stay, what is about the recipient does not.
	value[notify.Erasure](k)(s.Erase(k.ctx, notify.Erasure{ID: "e",
		Person: notify.Person{ClientID: "shop", UserID: "ann"}}))
	react(ann, notify.Opened)
	react(notify.MessageNumber(number, 7), notify.Opened)
	k.equal("after an erasure", figures().Opened, int64(3))
	k.equal("shown of an erased recipient", len(shown("ann")), 0)
	k.equal("shown of another", len(shown("bob")), 1)
	k.clock.Advance(time.Hour)
	value[int](k)(s.Purge(k.ctx, k.clock.Now()))
	react(bob, notify.Clicked)
	k.equal("after a purge", figures().Clicked, int64(1))
	err := s.React(k.ctx, notify.Reaction{Number: bob, Type: notify.Opened}, notify.FigureSeries{ClientID: "a\x00"})
	k.equal("a text that cannot be stored is refused", err != nil, true)
}
