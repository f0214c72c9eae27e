package storetest

import (
	"fmt"
	"slices"

	"ingot/internal/notify"
)

// topic declares a topic.
func (k *kit) topic(s notify.Store, client, name string, closed bool) notify.TopicRef {
	k.Helper()
	ref := notify.TopicRef{ClientID: client, Name: name}
	value[bool](k)(s.SetTopic(k.ctx, notify.Topic{TopicRef: ref, Description: name + " of " + client, Closed: closed,
		Created: k.clock.Now(), Updated: k.clock.Now()}))
	return ref
}

// choose subscribes to topics, or leaves them.
func (k *kit) choose(s notify.Store, subscriber string, on bool, refs ...notify.TopicRef) error {
	change := notify.PreferenceChange{Topics: map[notify.TopicRef]bool{}}
	for _, ref := range refs {
		change.Topics[ref] = on
	}
	return s.ChangePreferences(k.ctx, subscriber, change)
}

// subscribers reads all subscribers, some at a time.
func (k *kit) subscribers(s notify.Store, ref notify.TopicRef, limit int) (names []string) {
	k.Helper()
	for after := ""; ; {
		page := value[[]notify.TopicMember](k)(s.TopicMembers(k.ctx, ref, after, limit))
		for _, m := range page {
			names = append(names, m.UserID+m.Email)
			after = m.ID
		}
		if len(page) < limit {
			slices.Sort(names)
			return names
		}
	}
}

// choices returns what someone sees of topics, as text.
func (k *kit) choices(s notify.Store, subscriber string) (all []string) {
	k.Helper()
	for _, c := range value[[]notify.TopicChoice](k)(s.TopicsOf(k.ctx, subscriber)) {
		all = append(all, fmt.Sprintf("%s/%s %s %t %t", c.ClientID, c.Name, c.SourceDescription, c.Subscribed, c.Left))
	}
	return all
}

func testTopics(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "shop", Description: "Shop"}, []notify.Kind{{ID: "kind"}}, true))
	news, staff := k.topic(s, "shop", "news", false), k.topic(s, "shop", "staff", true)
	other := k.topic(s, "other", "news", false)
	k.equal("changed", value[bool](k)(s.SetTopic(k.ctx, notify.Topic{TopicRef: news, Description: "N"})), false)
	got := value[notify.Topic](k)(s.Topic(k.ctx, news))
	k.equal("read", []any{got.Description, got.Closed, got.Subscribers, got.Created.Equal(k.clock.Now())},
		[]any{"N", false, 0, true})
	for _, bad := range []notify.TopicRef{{ClientID: "shop", Name: "none"}, {ClientID: "none", Name: "news"},
		{ClientID: "shop", Name: "a\x00"}} {
		_, err := s.Topic(k.ctx, bad)
		k.wantErr(err, notify.ErrNotFound)
		_, err = s.TopicMembers(k.ctx, bad, "", 10)
		k.wantErr(err, notify.ErrNotFound)
		_, err = s.Subscribe(k.ctx, bad, []string{"ann"})
		k.wantErr(err, notify.ErrNotFound)
		k.wantErr(s.DeleteTopic(k.ctx, bad), notify.ErrNotFound)
		k.wantErr(s.RemoveSubscriber(k.ctx, bad, "ann"), notify.ErrNotFound)
		k.wantErr(k.choose(s, "ann", true, bad), notify.ErrNotFound)
	}
	list := value[[]notify.Topic](k)(s.ListTopics(k.ctx, "shop", "news", 10))
	k.equal("list", []any{len(list), list[0].TopicRef}, []any{1, staff})

	dora := notify.AddressSubscriber("Dora@Example.com")
	subscribe := func(ref notify.TopicRef, want notify.Subscribing, who ...string) {
		k.Helper()
		k.equal("subscribed", value[notify.Subscribing](k)(s.Subscribe(k.ctx, ref, who)), want)
	}
	subscribe(news, notify.Subscribing{Added: 3}, "ann", "bob", dora, "ann")
	subscribe(news, notify.Subscribing{Added: 1, Already: 1}, "cid", "ann")
	subscribe(other, notify.Subscribing{Added: 1}, "ann")
	if _, err := s.Subscribe(k.ctx, news, []string{"dan", "a\x00b"}); err == nil {
		k.Error("a subscriber with NUL was stored")
	}
	s = k.store() // as after a restart
	k.equal("subscribers", k.subscribers(s, news, 2), []string{"ann", "bob", "cid", "dora@example.com"})

	// Leaving is final for the client, and the user may come back.
	k.must(k.choose(s, "ann", false, news, other))
	k.must(k.choose(s, "ann", false, news))
	k.must(k.choose(s, dora, false, news))
	k.must(k.choose(s, "nobody", false, news))
	subscribe(news, notify.Subscribing{Left: 2}, "ann", dora)
	subscribe(staff, notify.Subscribing{Added: 2}, "ann", "bob")
	k.wantErr(s.RemoveSubscriber(k.ctx, news, "ann"), notify.ErrNotFound)
	subscribe(news, notify.Subscribing{Left: 1}, "ann")
	k.equal("left", k.subscribers(s, news, 10), []string{"bob", "cid"})
	k.equal("ann's", k.choices(s, "ann"),
		[]string{"other/news  false true", "shop/news Shop false true", "shop/staff Shop true false"})
	k.must(k.choose(s, "ann", true, news))
	k.must(k.choose(s, dora, true, news)) // it was subscribed before
	k.must(s.RemoveSubscriber(k.ctx, news, "cid"))
	subscribe(news, notify.Subscribing{Added: 1}, "cid")
	k.equal("counted", value[notify.Topic](k)(s.Topic(k.ctx, news)).Subscribers, 4)

	// Who may subscribe themselves, to what; a change is applied as a whole.
	k.wantErr(k.choose(s, "eva", true, other, staff), notify.ErrNotFound)
	k.wantErr(k.choose(s, "mailto:eva@example.com", true, news), notify.ErrNotFound)
	k.equal("nothing was changed", k.choices(s, "eva"), []string(nil))
	k.must(k.choose(s, "eva", true, other))
	k.equal("joined", k.choices(s, "eva"), []string{"other/news  true false"})
	k.accept(s, k.sending("shop", "eva"))
	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 10))...)
	k.equal("open topics of a client that sent something", k.choices(s, "eva"),
		[]string{"other/news  true false", "shop/news Shop false false"})

	k.must(s.DeleteTopic(k.ctx, news))
	k.equal("deleted", k.choices(s, "ann"), []string{"other/news  false true", "shop/staff Shop true false"})
	k.topic(s, "shop", "news", false)
	k.equal("a new topic of that name", k.subscribers(s, news, 10), []string(nil))
	k.must(k.purge(s))
	k.equal("after a purge", k.subscribers(s, staff, 10), []string{"ann", "bob"})
}

// purge purges what is older than an hour.
func (k *kit) purge(s notify.Store) error {
	_, err := s.Purge(k.ctx, k.clock.Now())
	return err
}

func testTopicsErased(k *kit) {
	s := k.store()
	news, staff := k.topic(s, "c", "news", false), k.topic(s, "c", "staff", true)
	other := k.topic(s, "other", "news", false)
	email := notify.AddressSubscriber(dora.Email)
	for _, ref := range []notify.TopicRef{news, staff, other} {
		value[notify.Subscribing](k)(s.Subscribe(k.ctx, ref, []string{"dora", email, "ann"}))
	}
	k.must(k.choose(s, "dora", false, news, other))
	of := func(client string) notify.Person {
		p := dora
		p.ClientID, p.All = client, client == ""
		return p
	}
	theirs := []string{"topic c/news false false", "topic c/staff true false", "topic c/news true false",
		"topic c/staff true false"}
	k.equal("shown", k.shown(s, of("c")), theirs)
	k.equal("shown of all", len(k.shown(s, of(""))), 6)
	e := k.erase(s, "e1", of("c"))
	k.equal("erased", e.Erased, notify.Erased{Topics: 3, Preferences: 1})
	k.equal("left", k.shown(s, of("c")), []string{"topic c/news false true"})
	k.equal("of the other client", len(k.shown(s, of("other"))), 2)
	k.equal("subscribers", []any{k.subscribers(s, news, 10), k.subscribers(s, staff, 10), k.subscribers(s, other, 10)},
		[]any{[]string{"ann"}, []string{"ann"}, []string{"ann", "dora@example.com"}})
	k.equal("repeated", k.erase(s, "e2", of("c")).Erased, notify.Erased{})
	k.equal("who left stays away", value[notify.Subscribing](k)(s.Subscribe(k.ctx, news, []string{"dora", email})),
		notify.Subscribing{Added: 1, Left: 1})
	e = k.erase(s, "e3", of(""))
	k.equal("erased of all", e.Erased, notify.Erased{Topics: 2, Preferences: 1})
	k.must(k.choose(s, "dora", true, news))
	k.equal("back again", k.shown(s, of("c")), []string{"topic c/news true false"})
	k.equal("counted", value[notify.Topic](k)(s.Topic(k.ctx, news)).Subscribers, 2)
}

func testTopicBounds(k *kit) {
	s := k.store()
	for i := range notify.MaxTopics {
		k.topic(s, "c", fmt.Sprint("t", i), false)
	}
	_, err := s.SetTopic(k.ctx, notify.Topic{TopicRef: notify.TopicRef{ClientID: "c", Name: "more"}})
	k.wantErr(err, notify.ErrTooMany)
	k.topic(s, "c", "t1", true)
	k.topic(s, "other", "more", false)
	k.equal("page", len(value[[]notify.Topic](k)(s.ListTopics(k.ctx, "c", "t1", 50))), 50)

	// What is deleted in more than one step.
	many := k.topic(s, "c", "t7", false)
	for i := range 3 {
		value[notify.Subscribing](k)(s.Subscribe(k.ctx, many, names(fmt.Sprint("u", i, "-"), 900)))
	}
	k.equal("many", value[notify.Topic](k)(s.Topic(k.ctx, many)).Subscribers, 2700)
	k.equal("read", len(k.subscribers(s, many, 250)), 2700)
	k.must(s.DeleteTopic(k.ctx, many))
	k.topic(s, "c", "t7", false)
	k.equal("of a new topic", len(k.subscribers(s, many, 250)), 0)
}

// testTopicsTogether lets several subscribe, leave and remove at the same time.
func testTopicsTogether(k *kit) {
	s := k.store()
	news := k.topic(s, "c", "news", false)
	done := make(chan error)
	for i := range 6 {
		go func() {
			user := fmt.Sprint("u", i%3)
			for range 10 {
				var err error
				switch i {
				case 0, 1, 2:
					_, err = s.Subscribe(k.ctx, news, []string{"u0", "u1", "u2"})
				default:
					err = k.choose(s, user, i == 5, news)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 6 {
		k.must(<-done)
	}
	k.must(k.choose(s, "u0", false, news))
	k.must(k.choose(s, "u1", false, news))
	k.equal("subscribers", k.subscribers(s, news, 10), []string{"u2"})
	k.equal("counted", value[notify.Topic](k)(s.Topic(k.ctx, news)).Subscribers, 1)
}
