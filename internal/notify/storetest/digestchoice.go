package storetest

import (
	"fmt"
	"time"

	"ingot/internal/notify"
)

// wantsDigest returns the wish for digests.
func wantsDigest(c notify.DigestChoice) notify.Wish { return notify.Wish{Digest: &c} }

// testDigestChoice stores how a user wants a kind to be collected, beside what they do not want.
func testDigestChoice(k *kit) {
	s := k.store()
	ref := notify.KindRef{ClientID: "c", KindID: "kind"}
	k.must(s.Register(k.ctx, notify.Client{ID: "c", Description: "C"}, []notify.Kind{{ID: "kind"}}, true))
	k.must(s.SetDigestRule(k.ctx, ref, value[*notify.DigestRule](k)(notify.NewDigestRule("", 0, "", nil, "weekly",
		"daily"))))
	k.deliver(s, "c", "dora")
	of := notify.Subscription{UserID: "dora", KindRef: ref}
	yes, no := true, false
	mail := notify.UnwantedOn(notify.Email)
	for _, step := range []struct {
		name   string
		change notify.PreferenceChange
		want   notify.Choice
	}{
		{"daily", wishing(ref, wantsDigest(notify.DigestDaily)), notify.Choice{Digest: notify.DigestDaily}},
		{"a channel", wishing(ref, turning(notify.Email, false)), notify.Choice{Unwanted: mail, Digest: notify.DigestDaily}},
		{"weekly", wishing(ref, wantsDigest(notify.DigestWeekly)),
			notify.Choice{Unwanted: mail, Digest: notify.DigestWeekly}},
		{"unsubscribed", notify.PreferenceChange{Kinds: map[notify.KindRef]bool{ref: false}},
			notify.Choice{Unwanted: notify.UnwantedAll, Digest: notify.DigestWeekly}},
		{"subscribed", wishing(ref, notify.Wish{Subscribe: &yes}), notify.Choice{Digest: notify.DigestWeekly}},
		{"nothing at all", notify.PreferenceChange{Global: &yes},
			notify.Choice{Unwanted: notify.UnwantedAll, Digest: notify.DigestWeekly}},
		{"some again", notify.PreferenceChange{Global: &no}, notify.Choice{Digest: notify.DigestWeekly}},
		{"default", wishing(ref, wantsDigest(notify.DigestDefault)), notify.Choice{}},
		{"daily again", wishing(ref, wantsDigest(notify.DigestDaily)), notify.Choice{Digest: notify.DigestDaily}},
	} {
		k.must(s.ChangePreferences(k.ctx, "dora", step.change))
		s = k.store()
		found := value[map[notify.Subscription]notify.Choice](k)(s.Unsubscribed(k.ctx, []notify.Subscription{of}))
		k.equal(step.name, found[of], step.want)
		k.equal(step.name+": rows", len(found) > 0, step.want != notify.Choice{})
		_, kinds, err := s.Preferences(k.ctx, "dora")
		k.must(err)
		k.equal(step.name+": kinds", len(kinds), 1)
		k.equal(step.name+": shown", kinds[0].Digest, step.want.Digest)
		k.equal(step.name+": choices", fmt.Sprint(kinds[0].Choices()), "[default daily weekly]")
	}

	// It is shown with the person's data, and forgotten with it, while what they do not want stays.
	person := notify.Person{UserID: "dora", ClientID: "c"}
	k.equal("shown", len(value[[]notify.Objection](k)(objectionsOf(k, s, person))), 1)
	k.must(s.ChangePreferences(k.ctx, "dora", wishing(ref, turning(notify.Email, false))))
	k.erase(s, "e", person)
	found := value[map[notify.Subscription]notify.Choice](k)(s.Unsubscribed(k.ctx, []notify.Subscription{of}))
	k.equal("after an erasure", found[of], notify.Choice{Unwanted: mail})
	k.must(s.ChangePreferences(k.ctx, "dora", wishing(ref, turning(notify.Email, true))))
	k.must(s.ChangePreferences(k.ctx, "dora", wishing(ref, wantsDigest(notify.DigestDaily))))
	k.erase(s, "e2", person)
	k.equal("nothing is kept of a choice", len(value[map[notify.Subscription]notify.Choice](k)(s.Unsubscribed(k.ctx,
		[]notify.Subscription{of}))), 0)
}

func objectionsOf(k *kit, s notify.Store, p notify.Person) (all []notify.Objection, err error) {
	err = s.ShowPerson(k.ctx, p, func(what any) error {
		if o, is := what.(notify.Objection); is {
			all = append(all, o)
		}
		return nil
	})
	return all, err
}

// wishing returns a change of one kind.
func wishing(ref notify.KindRef, w notify.Wish) notify.PreferenceChange {
	return notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{ref: w}}
}

// testOwnDigests collects what users want in digests of their own: it counts like what waits for the end of
// quiet hours, however that ends, and comes when its interval ends or when the user chooses another one.
func testOwnDigests(k *kit) {
	ends := map[string]func(s notify.Store, send int64, ref notify.KindRef, user string) (digested bool){
		"its time comes": func(notify.Store, int64, notify.KindRef, string) bool {
			k.clock.Advance(25 * time.Hour)
			return true
		},
		"at once instead": func(s notify.Store, _ int64, ref notify.KindRef, user string) bool {
			k.must(s.ChangePreferences(k.ctx, user, wishing(ref, wantsDigest(notify.DigestAtOnce))))
			return true
		},
		"canceled": func(s notify.Store, send int64, _ notify.KindRef, _ string) bool {
			k.cancel(s, send)
			return false
		},
		"erased": func(s notify.Store, _ int64, ref notify.KindRef, user string) bool {
			k.erase(s, ref.ClientID, notify.Person{UserID: user, ClientID: ref.ClientID})
			return false
		},
	}
	for name, end := range ends {
		for _, user := range []string{"dora", "mailto:dora@example.com"} {
			s := k.store()
			n := k.sending(name+" "+user, "dora")
			if user != "dora" {
				if name == "erased" {
					continue // it is as with a user
				}
				n.Recipients = []notify.Recipient{{Email: "Dora@example.com"}}
			}
			n.DigestRule = &notify.DigestRule{Max: 7, Choice: []notify.DigestChoice{notify.DigestAtOnce, notify.DigestDaily}}
			n.QuietLimit = 1
			ref := notify.KindRef{ClientID: n.ClientID, KindID: "kind"}
			send := k.accept(s, n)
			number := notify.MessageNumber(send.Number, 0)
			e := send.Collecting(notify.Email, notify.DigestDaily)
			k.claim(s, "w", 100)
			value[[]notify.Claimed](k)(s.Finish(k.ctx, []notify.Outcome{{Number: number, Status: notify.Queued, Entry: e,
				At: k.clock.Now()}}, nil))
			_, _, err := s.Accept(k.ctx, n)
			k.wantErr(err, notify.ErrQuietFull)

			// Neither a change to the same choice nor one of quiet hours ends it.
			k.must(s.ChangePreferences(k.ctx, user, wishing(ref, wantsDigest(notify.DigestDaily))))
			k.must(s.ChangePreferences(k.ctx, user, notify.PreferenceChange{NoQuiet: true}))
			closed := value[notify.DigestsClosed](k)(s.CloseDigests(k.ctx, 100, excerptOf))
			k.equal(name+": too early", closed.Digests, 0)
			k.equal(name+": claimed too early", len(k.claim(s, "w", 100)), 0)

			want := 0
			if end(s, send.Number, ref, user) {
				want = 1
			}
			closed = value[notify.DigestsClosed](k)(s.CloseDigests(k.ctx, 100, excerptOf))
			k.equal(name+": entries of digests", closed.Entries, want)
			again := k.accept(k.store(), n) // it counts no longer
			for _, send := range []int64{send.Number, again.Number} {
				k.cancel(s, send)
			}
			k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 100))...)
			k.clock.Advance(200 * time.Hour)
			value[notify.DigestsClosed](k)(s.CloseDigests(k.ctx, 100, excerptOf))
		}
	}
}
