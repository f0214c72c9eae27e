package storetest

import (
	"sync"
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
	a.Unwanted = notify.UnwantedAll
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
	a.Unwanted = 0
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
	want := map[notify.Subscription]notify.Unwanted{}
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
			want[notify.Subscription{UserID: user, KindRef: ref}] = notify.UnwantedAll
		}
	}
	k.must(s.ChangePreferences(k.ctx, "u4", notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{
		kind: turning(notify.Inbox, false)}}))
	want[notify.Subscription{UserID: "u4", KindRef: kind}] = notify.UnwantedOn(notify.Inbox)
	k.equal("unsubscribed", k.unwanted(s, all...), want)
	k.equal("of no users", k.unwanted(s), map[notify.Subscription]notify.Unwanted{})
}

// unwanted returns on which channels users do not want kinds.
func (k *kit) unwanted(s notify.Store, of ...notify.Subscription) map[notify.Subscription]notify.Unwanted {
	k.Helper()
	all := map[notify.Subscription]notify.Unwanted{}
	for of, c := range value[map[notify.Subscription]notify.Choice](k)(s.Unsubscribed(k.ctx, of)) {
		all[of] = c.Unwanted
	}
	return all
}

// turning returns the wish to turn a channel on or off.
func turning(id notify.ChannelID, on bool) notify.Wish {
	return notify.Wish{Channels: map[notify.ChannelID]bool{id: on}}
}

// testWishes changes channels of a kind and of a campaign type, one after the other.
func testWishes(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c", Description: "C"}, []notify.Kind{{ID: "a"}}, true))
	k.must(s.SetChannels(k.ctx, notify.KindRef{ClientID: "c", KindID: "a"}, notify.ChannelsOf(notify.Email, notify.Inbox)))
	_, err := s.CreateSender(k.ctx, notify.Sender{ID: "sender", ClientID: "c", Name: "S"})
	k.must(err)
	for _, t := range []notify.CampaignType{{ID: "type", Description: "T"}, {ID: "alarm", Critical: true}} {
		t.SenderID, t.ClientID, t.Name = "sender", "c", t.ID
		_, err = s.CreateCampaignType(k.ctx, t)
		k.must(err)
	}
	types := value[[]notify.Preference](k)
	k.equal("types without a receipt", types(s.CampaignPreferences(k.ctx, "u")), []notify.Preference{})
	k.equal("types by id", len(types(s.CampaignPreferences(k.ctx, "u", "type", "alarm", "unknown"))), 1)
	k.deliver(s, "c", "u")

	yes, no := true, false
	both := map[notify.ChannelID]bool{notify.Email: true, notify.Inbox: true}
	mail := notify.UnwantedOn(notify.Email)
	for _, step := range []struct {
		name string
		wish notify.Wish
		want notify.Unwanted
	}{
		{"nothing", notify.Wish{}, 0},
		{"subscribe without need", notify.Wish{Subscribe: &yes}, 0},
		{"mail off", turning(notify.Email, false), mail},
		{"mail off again", notify.Wish{Mail: &no}, mail},
		{"subscribe changes no channel", notify.Wish{Subscribe: &yes}, mail},
		{"inbox off", turning(notify.Inbox, false), notify.UnwantedOn(notify.Email, notify.Inbox)},
		{"mail on in version 1", notify.Wish{Mail: &yes}, notify.UnwantedOn(notify.Inbox)},
		{"unsubscribe", notify.Wish{Subscribe: &no}, notify.UnwantedAll},
		{"mail off of all", notify.Wish{Mail: &no}, notify.UnwantedAll},
		{"inbox on of all", turning(notify.Inbox, true), notify.UnwantedAll &^ notify.UnwantedOn(notify.Inbox)},
		{"inbox off, so all", turning(notify.Inbox, false), notify.UnwantedAll},
		{"subscribe in version 1", notify.Wish{Mail: &yes}, 0},
		{"unsubscribe but", notify.Wish{Subscribe: &no, Channels: both}, notify.UnwantedAll &^
			notify.UnwantedOn(notify.Email, notify.Inbox)},
		{"unsubscribe again", notify.Wish{Subscribe: &no}, notify.UnwantedAll},
		{"subscribe but", notify.Wish{Subscribe: &yes, Channels: map[notify.ChannelID]bool{notify.Email: false}}, mail},
	} {
		for _, ref := range []notify.KindRef{{ClientID: "c", KindID: "a"}, {KindID: "type"}} {
			k.must(s.ChangePreferences(k.ctx, "u", notify.PreferenceChange{
				Wishes: map[notify.KindRef]notify.Wish{ref: step.wish}}))
		}
		_, kinds, err := s.Preferences(k.ctx, "u")
		k.must(err)
		k.equal(step.name, kinds, []notify.Preference{{SourceDescription: "C", Choice: notify.Choice{Unwanted: step.want},
			Kind: notify.Kind{ClientID: "c", ID: "a", TemplateID: notify.DefaultTemplate,
				Channels: notify.ChannelsOf(notify.Email, notify.Inbox)}}})
		k.equal(step.name, types(s.CampaignPreferences(k.ctx, "u")), []notify.Preference{{CampaignType: true,
			SourceDescription: "S", Choice: notify.Choice{Unwanted: step.want},
			Kind: notify.Kind{ClientID: "c", ID: "type", Description: "T"}}})
	}
}

// testWishesTogether changes one kind's channels concurrently: no change is lost.
func testWishesTogether(k *kit) {
	s := k.store()
	ref := notify.KindRef{ClientID: "c", KindID: "a"}
	var all sync.WaitGroup
	for _, id := range []notify.ChannelID{notify.Email, notify.Inbox, notify.Hook} {
		all.Go(func() {
			if err := s.ChangePreferences(k.ctx, "u", notify.PreferenceChange{Wishes: map[notify.KindRef]notify.Wish{
				ref: turning(id, false)}}); err != nil {
				k.Error(err)
			}
		})
	}
	all.Wait()
	of := notify.Subscription{UserID: "u", KindRef: ref}
	k.equal("unwanted", k.unwanted(s, of),
		map[notify.Subscription]notify.Unwanted{of: notify.UnwantedOn(notify.Email, notify.Inbox, notify.Hook)})
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
