package storetest

import (
	"time"

	"ingot/internal/notify"
)

// deliver sends a user something of a client.
func (k *kit) deliver(s notify.Store, client string, users ...string) {
	k.Helper()
	k.accept(s, k.sending(client, users...))
	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 1000))...)
}

func testPreferences(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c", Description: "C"}, []notify.Kind{{ID: "a", Description: "A"},
		{ID: "b", Critical: true}, {ID: "z"}}, true))
	k.must(s.Register(k.ctx, notify.Client{ID: "d", Description: "D"}, []notify.Kind{{ID: "a"}}, true))
	look := func(user string) (bool, []notify.Preference) {
		k.Helper()
		global, kinds, err := s.Preferences(k.ctx, user)
		k.must(err)
		return global, kinds
	}
	global, kinds := look("u")
	k.equal("global of an unknown user", global, false)
	k.equal("kinds of an unknown user", kinds, []notify.Preference{})

	k.deliver(s, "c", "u", "other")
	k.deliver(s, "c", "u")
	a := notify.Preference{Kind: notify.Kind{ClientID: "c", ID: "a", Description: "A", TemplateID: notify.DefaultTemplate},
		SourceDescription: "C"}
	z := notify.Preference{Kind: notify.Kind{ClientID: "c", ID: "z", TemplateID: notify.DefaultTemplate},
		SourceDescription: "C"}
	_, kinds = look("u")
	k.equal("kinds", kinds, []notify.Preference{a, z})

	yes, no := true, false
	k.must(s.ChangePreferences(k.ctx, "u", notify.PreferenceChange{Global: &yes, Kinds: map[notify.KindRef]bool{
		{ClientID: "c", KindID: "a"}: false, {ClientID: "c", KindID: "z"}: true,
	}}))
	a.Unsubscribed = true
	global, kinds = look("u")
	k.equal("global", global, true)
	k.equal("kinds", kinds, []notify.Preference{a, z})
	global, _ = look("other")
	k.equal("global of another", global, false)

	// Nothing said about everything leaves it; both ways may be said twice.
	for range 2 {
		k.must(s.ChangePreferences(k.ctx, "u",
			notify.PreferenceChange{Kinds: map[notify.KindRef]bool{{ClientID: "c", KindID: "a"}: true}}))
		global, _ = look("u")
		k.equal("global", global, true)
	}
	for range 2 {
		k.must(s.ChangePreferences(k.ctx, "u", notify.PreferenceChange{Global: &no}))
	}
	a.Unsubscribed = false
	global, kinds = look("u")
	k.equal("global", global, false)
	k.equal("kinds", kinds, []notify.Preference{a, z})
}

func testUnsubscribed(k *kit) {
	s := k.store()
	kind, campaign := notify.KindRef{ClientID: "c", KindID: "a"}, notify.KindRef{KindID: "type"}
	yes := true
	k.must(s.ChangePreferences(k.ctx, "u1", notify.PreferenceChange{Kinds: map[notify.KindRef]bool{kind: false}}))
	k.must(s.ChangePreferences(k.ctx, "u2", notify.PreferenceChange{Global: &yes}))
	k.must(s.ChangePreferences(k.ctx, "u3", notify.PreferenceChange{Kinds: map[notify.KindRef]bool{campaign: false}}))
	var all []notify.Subscription
	want := map[notify.Subscription]bool{}
	for ref, users := range map[notify.KindRef][]string{
		kind:                             {"u1", "u2"},
		campaign:                         {"u2", "u3"},
		{ClientID: "c", KindID: "other"}: {"u2"},
		{ClientID: "other", KindID: "a"}: {"u2"},
	} {
		for _, user := range []string{"u1", "u2", "u3", "u4"} {
			all = append(all, notify.Subscription{UserID: user, KindRef: ref})
		}
		for _, user := range users {
			want[notify.Subscription{UserID: user, KindRef: ref}] = true
		}
	}
	look := value[map[notify.Subscription]bool](k)
	k.equal("unsubscribed", look(s.Unsubscribed(k.ctx, all)), want)
	k.equal("of no users", look(s.Unsubscribed(k.ctx, nil)), map[notify.Subscription]bool{})
}

func testSuppressions(k *kit) {
	s := k.store()
	a := notify.Suppression{Email: "a@x.org", Reason: "550 no", Source: "smtp", Created: start}
	b := notify.Suppression{Email: "b@x.org", Reason: "bounce", Source: "bounce", Created: start.Add(time.Hour)}
	k.must(s.Suppress(k.ctx, b))
	k.must(s.Suppress(k.ctx, notify.Suppression{Email: "A@X.org", Reason: "old", Source: "manual", Created: start}))
	k.must(s.Suppress(k.ctx, a, a))
	k.must(s.Suppress(k.ctx))
	k.equal("all", value[[]notify.Suppression](k)(s.Suppressions(k.ctx, "", 10)), []notify.Suppression{a, b})
	k.equal("first", value[[]notify.Suppression](k)(s.Suppressions(k.ctx, "", 1)), []notify.Suppression{a})
	k.equal("second", value[[]notify.Suppression](k)(s.Suppressions(k.ctx, "a@x.org", 1)), []notify.Suppression{b})
	k.equal("suppressed", value[map[string]bool](k)(s.Suppressed(k.ctx, []string{"A@x.org", "c@x.org", "b@x.org"})),
		map[string]bool{"A@x.org": true, "b@x.org": true})
	k.must(s.Unsuppress(k.ctx, "A@x.org"))
	k.wantErr(s.Unsuppress(k.ctx, "a@x.org"), notify.ErrNotFound)
	k.equal("suppressed", value[map[string]bool](k)(s.Suppressed(k.ctx, []string{"a@x.org"})), map[string]bool{})
}
