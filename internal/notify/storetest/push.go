package storetest

import (
	"bytes"
	"fmt"
	"time"

	"ingot/internal/notify"
)

// browser returns a subscription of a user.
func (k *kit) browser(client, user, name string) notify.PushSubscription {
	endpoint := "https://push.example.com/" + name
	return notify.PushSubscription{ID: notify.PushSubscriptionID(client, endpoint), Endpoint: endpoint, Label: name,
		Owner: notify.Owner{ClientID: client, UserID: user}, P256dh: bytes.Repeat([]byte{4}, 65), Auth: make([]byte, 16),
		Created: k.clock.Now(), Updated: k.clock.Now()}
}

func testPush(k *kit) {
	s := k.store()
	of := func(client string, users ...string) map[string][]notify.PushSubscription {
		k.Helper()
		return value[map[string][]notify.PushSubscription](k)(s.PushSubscriptions(k.ctx, client, users))
	}
	none := map[string][]notify.PushSubscription{}
	k.equal("none", of("shop", "ann"), none)
	phone := k.browser("shop", "ann", "phone")
	k.must(s.AddPushSubscription(k.ctx, phone))
	k.clock.Advance(time.Minute)
	laptop, bob, other := k.browser("shop", "ann", "laptop"), k.browser("shop", "bob", "bob's"),
		k.browser("other", "ann", "phone")
	for _, b := range []notify.PushSubscription{laptop, bob, other} {
		k.must(s.AddPushSubscription(k.ctx, b))
	}
	s = k.store() // as after a restart
	k.equal("of two users", of("shop", "ann", "bob", "cid", "b\x00"),
		map[string][]notify.PushSubscription{"ann": {laptop, phone}, "bob": {bob}})
	k.equal("of a user", len(value[[]notify.PushSubscription](k)(s.PushSubscriptionsOf(k.ctx, "ann"))), 3)

	k.must(s.PushAccepted(k.ctx, 7, []string{phone.ID, laptop.ID, "none"}))
	for i := range notify.MaxPushHas {
		k.must(s.PushAccepted(k.ctx, int64(100+i), []string{phone.ID}))
	}
	got := of("shop", "ann")["ann"]
	k.equal("has", []any{got[0].Has, len(got[1].Has), got[1].Accepted(7), got[1].Accepted(100)},
		[]any{[]int64{7}, notify.MaxPushHas, false, true})

	done := make(chan error)
	for i := range notify.MaxPushHas {
		go func() { done <- s.PushAccepted(k.ctx, int64(200+i), []string{phone.ID, laptop.ID}) }()
	}
	for range notify.MaxPushHas {
		k.must(<-done)
	}
	got = of("shop", "ann")["ann"]
	for i := range notify.MaxPushHas {
		k.equal(fmt.Sprintf("has %d of messages at the same time", i), []any{got[0].Accepted(int64(200 + i)),
			got[1].Accepted(int64(200 + i))}, []any{true, true})
	}

	k.clock.Advance(time.Minute)
	again := phone
	again.Auth, again.Label = bytes.Repeat([]byte{1}, 16), "new"
	again.Updated, again.Created = k.clock.Now(), k.clock.Now()
	k.must(s.AddPushSubscription(k.ctx, again))
	got = of("shop", "ann")["ann"]
	again.Created, again.Has = phone.Created, got[0].Has
	k.equal("registered again", []any{got[0], got[0].Accepted(200)}, []any{again, true})
	again.UserID, again.Has = "bob", nil
	k.must(s.AddPushSubscription(k.ctx, again))
	k.equal("another user of the browser", of("shop", "ann", "bob"),
		map[string][]notify.PushSubscription{"ann": {withHas(laptop, got[1].Has...)}, "bob": {again, bob}})

	device := notify.PushSubscription{ID: notify.PushDeviceID("shop", "fcm", "tok-1"), Token: "tok-1", TokenOf: "fcm",
		Owner: notify.Owner{ClientID: "shop", UserID: "dora"}, Created: k.clock.Now(), Updated: k.clock.Now()}
	k.must(s.AddPushSubscription(k.ctx, device))
	k.equal("a device", of("shop", "dora"), map[string][]notify.PushSubscription{"dora": {device}})
	device.UserID = "emil"
	k.must(s.AddPushSubscription(k.ctx, device))
	k.equal("another user of the device", of("shop", "dora", "emil"),
		map[string][]notify.PushSubscription{"emil": {device}})

	k.wantErr(s.DeletePushSubscription(k.ctx, phone.Owner, phone.ID), notify.ErrNotFound)
	k.wantErr(s.DeletePushSubscription(k.ctx, laptop.Owner, other.ID), notify.ErrNotFound)
	k.must(s.DeletePushSubscription(k.ctx, laptop.Owner, laptop.ID))
	k.equal("deleted", of("shop", "ann"), none)
	k.equal("another client's", of("other", "ann"), map[string][]notify.PushSubscription{"ann": {other}})
	bad := bob
	bad.UserID = "a\x00b"
	if err := s.AddPushSubscription(k.ctx, bad); err == nil {
		k.Error("a user's id with NUL was stored")
	}
}

func withHas(s notify.PushSubscription, all ...int64) notify.PushSubscription {
	s.Has = all
	return s
}

// testPushBounds sees how many subscriptions a user and a client may have.
func testPushBounds(k *kit) {
	const all = notify.MaxPushSubscriptions * notify.PushSubscriptionBytes
	s := k.open(Options{Now: k.clock.Now, Bounds: notify.Bounds{Sends: all + notify.PushSubscriptionBytes}})
	var first notify.PushSubscription
	for i := range notify.MaxPushSubscriptions + 3 {
		k.clock.Advance(time.Second)
		b := k.browser("shop", "ann", fmt.Sprint(i))
		if i == 0 {
			first = b
		}
		k.must(s.AddPushSubscription(k.ctx, b))
		first.Updated = k.clock.Now()
		k.must(s.AddPushSubscription(k.ctx, first)) // one that is registered again stays
	}
	var labels []string
	for _, b := range value[map[string][]notify.PushSubscription](k)(s.PushSubscriptions(k.ctx, "shop",
		[]string{"ann"}))["ann"] {
		labels = append(labels, b.Label)
	}
	k.equal("how many", len(labels), notify.MaxPushSubscriptions)
	k.equal("the ends", []string{labels[0], labels[1], labels[len(labels)-1]}, []string{"0", "22", "4"})
	k.equal("counted", k.stored(s, "shop").Sends, int64(all))
	k.must(s.AddPushSubscription(k.ctx, k.browser("shop", "bob", "b")))
	k.wantFull("more than a client may have", s.AddPushSubscription(k.ctx, k.browser("shop", "cid", "c")))
	k.must(s.AddPushSubscription(k.ctx, k.browser("shop", "cid", "b"))) // it is there
	k.must(s.DeletePushSubscription(k.ctx, notify.Owner{ClientID: "shop", UserID: "cid"},
		notify.PushSubscriptionID("shop", "https://push.example.com/b")))
	k.must(s.AddPushSubscription(k.ctx, k.browser("shop", "cid", "c")))
}
