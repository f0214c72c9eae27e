package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"ingot/internal/notify"
)

var ann = notify.Owner{ClientID: "shop", UserID: "ann"}

// noted returns notifications of an owner with consecutive numbers.
func noted(of notify.Owner, first, n int) (all []notify.Notification) {
	for i := range n {
		all = append(all, notify.Notification{Number: int64(first + i), Owner: of, KindID: "kind",
			Title: fmt.Sprint("n", first+i), Text: "Grüße 🎉"})
	}
	return all
}

func (k *kit) note(s notify.Store, all ...notify.Notification) {
	k.Helper()
	k.must(s.AddNotifications(k.ctx, all[0].ClientID, all))
}

func (k *kit) inboxOf(s notify.Store, of notify.Owner) (state notify.InboxState, titles string) {
	k.Helper()
	state, _, err := s.Inbox(k.ctx, of, 0, 0)
	k.must(err)
	list := value[[]notify.Notification](k)(s.Notifications(k.ctx, notify.InboxQuery{Owner: of, Limit: 2000}))
	for _, n := range list {
		titles += n.Title + " "
	}
	return state, strings.TrimSpace(titles)
}

func testInbox(k *kit) {
	s := k.store()
	state, titles := k.inboxOf(s, ann)
	k.equal("an empty inbox", state, notify.InboxState{})
	k.equal("its notifications", titles, "")
	bob, other := notify.Owner{ClientID: "shop", UserID: "bob"}, notify.Owner{ClientID: "other", UserID: "ann"}
	k.note(s, noted(ann, 1, 3)...)
	k.note(s, append(noted(ann, 2, 3), noted(bob, 10, 1)...)...) // two of them are there already
	k.note(s, noted(other, 20, 1)...)
	state, titles = k.inboxOf(s, ann)
	k.equal("state", state, notify.InboxState{Change: 4, Unread: 4})
	k.equal("notifications", titles, "n4 n3 n2 n1")
	_, changed, err := s.Inbox(k.ctx, ann, 3, 10)
	k.must(err)
	k.equal("changes after the third", changed, []notify.Notification{{Number: 4, Owner: ann, KindID: "kind", Title: "n4",
		Text: "Grüße 🎉", Created: k.clock.Now(), Position: 4, Change: 4}})

	yes, no := true, false
	k.clock.Advance(time.Minute)
	n := value[notify.Notification](k)(s.ChangeNotification(k.ctx, ann, 2, notify.NotificationChange{Read: &yes}))
	k.equal("when it was read", n.Read, k.clock.Now())
	n = value[notify.Notification](k)(s.ChangeNotification(k.ctx, ann, 2, notify.NotificationChange{Read: &yes}))
	k.equal("a change without effect", n.Change, int64(5))
	value[notify.Notification](k)(s.ChangeNotification(k.ctx, ann, 1, notify.NotificationChange{Archived: &yes}))
	state, titles = k.inboxOf(s, ann)
	k.equal("state", state, notify.InboxState{Change: 6, Unread: 2})
	k.equal("those that are not archived", titles, "n4 n3 n2")
	value[notify.Notification](k)(s.ChangeNotification(k.ctx, ann, 1, notify.NotificationChange{Archived: &no}))
	k.must(s.DeleteNotification(k.ctx, ann, 3))
	state, titles = k.inboxOf(s, ann)
	k.equal("state", state, notify.InboxState{Change: 8, Reset: 8, Unread: 2})
	k.equal("after deleting one", titles, "n4 n2 n1")
	k.equal("number of those that were not read", value[int](k)(s.ReadAll(k.ctx, ann)), 2)
	none := notify.Owner{ClientID: "x", UserID: "y"}
	k.equal("number of those in an empty inbox", value[int](k)(s.ReadAll(k.ctx, none)), 0)
	state, _ = k.inboxOf(s, ann)
	k.equal("state", state, notify.InboxState{Change: 9, Reset: 9})

	for _, of := range []notify.Owner{bob, other, {ClientID: "shop", UserID: "x"}} {
		_, err := s.ChangeNotification(k.ctx, of, 2, notify.NotificationChange{Read: &no})
		k.wantErr(err, notify.ErrNotFound)
		k.wantErr(s.DeleteNotification(k.ctx, of, 2), notify.ErrNotFound)
	}
	_, titles = k.inboxOf(k.store(), bob) // another process
	k.equal("the inbox of another", titles, "n10")
	owners, more, err := s.ChangedInboxes(k.ctx, k.clock.Now(), 1)
	k.must(err)
	k.equal("inboxes that changed in the last minute", owners, []notify.Owner{ann})
	k.equal("more of them", more, false)
	_, more, err = s.ChangedInboxes(k.ctx, start, 1)
	k.must(err)
	k.equal("more of them", more, true)
	hostile := []notify.Notification{{Number: 99, Owner: ann, Text: "\x00"}}
	if err := s.AddNotifications(k.ctx, "shop", hostile); err == nil {
		k.Error("a text with a NUL was stored")
	}
}

// testInboxesRead reads many inboxes at once, and each of them has what reading it alone returns.
func testInboxesRead(k *kit) {
	s := k.store()
	yes := true
	owner := func(client, user string) notify.Owner { return notify.Owner{ClientID: client, UserID: user} }
	number := 1
	for i, of := range []notify.Owner{ann, owner("shop", "bob"), owner("shop", "carol"), owner("other", "ann"),
		owner("other", "dora")} {
		k.note(s, noted(of, number, 3+4*i)...)
		value[notify.Notification](k)(s.ChangeNotification(k.ctx, of, int64(number), notify.NotificationChange{Read: &yes}))
		number += 3 + 4*i
	}
	for range 6 { // more changes than notifications
		yes = !yes
		value[notify.Notification](k)(s.ChangeNotification(k.ctx, owner("shop", "bob"), 5,
			notify.NotificationChange{Read: &yes}))
	}
	k.must(s.DeleteNotification(k.ctx, owner("other", "dora"), int64(number-1)))
	var reads []notify.InboxRead
	for _, after := range []int64{0, 3, 5, 9, 1 << 40} {
		for _, of := range []notify.Owner{owner("other", "dora"), ann, owner("none", "ann"), owner("shop", "bob"),
			owner("shop", "nobody"), owner("shop", "carol"), owner("other", "ann"), owner("shop", "\x00"), owner("\x00", "ann"),
			owner("shop", "a\xff")} {
			reads = append(reads, notify.InboxRead{Owner: of, After: after})
		}
	}
	for _, limit := range []int{0, 1, 4, 100} {
		all := value[[]notify.InboxChanges](k)(s.ReadInboxes(k.ctx, reads, limit))
		k.equal("number of inboxes", len(all), len(reads))
		for i, r := range reads {
			state, changed, err := s.Inbox(k.ctx, r.Owner, r.After, limit)
			k.must(err)
			what := fmt.Sprintf("%q after %d, at most %d", r.Owner, r.After, limit)
			k.equal(what, all[i].InboxState, state)
			k.equal("changes of "+what, all[i].Changed, changed)
			if len(changed) > limit || state.Change > r.After && limit > 0 && len(changed) == 0 && state.Reset <= r.After {
				k.Errorf("%s: %d changes", what, len(changed))
			}
			for j, n := range changed {
				if n.Change <= r.After || n.Owner != r.Owner || j > 0 && n.Change <= changed[j-1].Change {
					k.Errorf("%s: change %d is %+v", what, j, n)
				}
			}
		}
	}
	k.equal("inboxes of none", len(value[[]notify.InboxChanges](k)(s.ReadInboxes(k.ctx, nil, 10))), 0)
}

// testInboxPruned keeps the newest of an inbox, and of those what was not read.
func testInboxPruned(k *kit) {
	s := k.store()
	yes := true
	for i := 0; i < notify.InboxLimit; i += 100 {
		k.note(s, noted(ann, i+1, 100)...)
	}
	for _, number := range []int64{1090, 1091} {
		value[notify.Notification](k)(s.ChangeNotification(k.ctx, ann, number, notify.NotificationChange{Archived: &yes}))
	}
	value[notify.Notification](k)(s.ChangeNotification(k.ctx, ann, 1080, notify.NotificationChange{Read: &yes}))
	before := k.stored(s, "shop").Sends
	k.note(s, noted(ann, 5000, 1)...)
	state, titles := k.inboxOf(s, ann)
	list := strings.Fields(titles)
	if len(list) != notify.InboxKept || state.Reset == 0 || state.Unread != notify.InboxKept {
		k.Errorf("%d are kept of %d, state %+v", len(list), notify.InboxLimit+1, state)
	}
	if list[0] != "n5000" || list[len(list)-1] != "n99" || strings.Contains(titles, "n1080") {
		k.Errorf("%s to %s are kept", list[0], list[len(list)-1])
	}
	if after := k.stored(s, "shop").Sends; after >= before {
		k.Errorf("%d bytes are counted after deleting, %d before", after, before)
	}
}

// testInboxBounds stores more than a client may, and deletes what is old.
func testInboxBounds(k *kit) {
	s := k.open(Options{Bounds: notify.Bounds{Sends: 100_000}, Now: k.clock.Now})
	long := noted(ann, 1, 3)
	for i := range long {
		long[i].Text = strings.Repeat("x", 40_000)
	}
	k.note(s, long[:2]...)
	k.wantFull("the third", s.AddNotifications(k.ctx, "shop", long[2:]))
	k.note(s, noted(notify.Owner{ClientID: "other", UserID: "ann"}, 9, 1)...)
	k.must(s.DeleteNotification(k.ctx, ann, 1))
	k.note(s, long[2:]...)
	k.clock.Advance(notify.InboxAge + time.Hour)
	k.note(s, noted(notify.Owner{ClientID: "shop", UserID: "bob"}, 50, 1)...)
	_, err := s.Purge(k.ctx, k.clock.Now())
	k.must(err)
	_, titles := k.inboxOf(s, ann)
	k.equal("old notifications", titles, "")
	_, titles = k.inboxOf(s, notify.Owner{ClientID: "shop", UserID: "bob"})
	k.equal("new notifications", titles, "n50")
	if n := k.stored(s, "shop").Sends; n > 2000 {
		k.Errorf("%d bytes are counted", n)
	}
	k.clock.Advance(notify.InboxAge + time.Hour)
	for range 2 {
		_, err = s.Purge(k.ctx, k.clock.Now())
		k.must(err)
	}
}

// testInboxTogether adds, reads and deletes at the same time.
func testInboxTogether(k *kit) {
	stores := []notify.Store{k.store()}
	if stores[0].Shared() {
		stores = append(stores, k.store())
	}
	var all sync.WaitGroup
	for w := range 4 {
		s := stores[w%len(stores)]
		all.Go(func() {
			for i := range 10 {
				first := 1000*w + 10*i + 1
				other := notify.Owner{ClientID: "shop", UserID: fmt.Sprint("u", i)}
				k.note(s, append(noted(ann, first, 5), noted(other, first+5, 1)...)...)
				if _, err := s.ReadAll(k.ctx, ann); err != nil {
					k.Error(err)
				}
				if err := s.DeleteNotification(k.ctx, ann, int64(first)); err != nil {
					k.Error(err)
				}
			}
		})
	}
	all.Wait()
	state, titles := k.inboxOf(stores[0], ann)
	k.equal("number of notifications", len(strings.Fields(titles)), 160)
	k.equal("number of changes", state.Change, int64(200+40+40))
}

func testOrigins(k *kit) {
	s := k.store()
	k.must(s.SetOrigins(k.ctx, "shop", []string{"https://b.example.com", "https://a.example.com",
		"https://a.example.com"}))
	k.must(s.SetOrigins(k.ctx, "other", []string{"https://c.example.com"}))
	k.equal("origins", value[[]string](k)(s.Origins(k.ctx, "shop")), []string{"https://a.example.com",
		"https://b.example.com"})
	k.must(s.SetOrigins(k.ctx, "shop", nil))
	k.equal("origins", value[[]string](k)(s.Origins(k.ctx, "shop")), []string{})
	k.equal("origins", value[[]string](k)(s.Origins(k.ctx, "other")), []string{"https://c.example.com"})
}

// testChannels keeps the messages of channels apart from their acceptance to a retry and a replay.
func testChannels(k *kit) {
	s := k.store()
	both := notify.ChannelsOf(notify.Email, notify.Inbox)
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, []notify.Kind{{ID: "kind"}}, false))
	ref := notify.KindRef{ClientID: "shop", KindID: "kind"}
	k.must(s.SetChannels(k.ctx, ref, both))
	k.equal("channels", value[notify.Kind](k)(s.Kind(k.ctx, ref)).Channels, both)
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, []notify.Kind{{ID: "kind"}}, true))
	k.equal("channels after registering again", value[notify.Kind](k)(s.Kind(k.ctx, ref)).Channels, both)
	k.wantErr(s.SetChannels(k.ctx, notify.KindRef{ClientID: "shop", KindID: "x"}, both), notify.ErrNotFound)
	k.wantErr(s.SetChannels(k.ctx, notify.KindRef{KindID: "x"}, both), notify.ErrNotFound)

	n := k.sending("shop", "ann", "bob")
	n.Channels = both
	n.Recipients = both.Messages(n.Recipients)
	send := k.accept(s, n)
	k.equal("messages", send.Counts.Total, 4)
	k.equal("channels of the send", value[notify.Send](k)(s.Send(k.ctx, send.Number)).Channels, both)
	claim := func(of notify.ChannelID) []notify.Claimed {
		return value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 10, time.Minute, of))
	}
	stored := claim(notify.Inbox)
	k.equal("messages to inboxes", len(stored), 2)
	k.equal("again", len(claim(notify.Inbox)), 0)
	k.finish(s, notify.Retry, stored[0].Number)
	k.finish(s, notify.Failed, stored[1].Number)
	due, some, err := s.NextDue(k.ctx, notify.Inbox)
	k.must(err)
	k.equal("whether one is due", some, true)
	k.equal("when", due.Before(k.clock.Now().Add(2*time.Minute)), true)
	k.must(s.Replay(k.ctx, "shop", stored[1].Number))
	k.clock.Advance(2 * time.Minute)
	mail := claim(notify.Email)
	again := claim(notify.Inbox)
	k.equal("messages by mail", len(mail), 2)
	k.equal("messages to inboxes, again", len(again), 2)
	for _, m := range again {
		k.equal("channel", m.Channel, notify.Inbox)
	}
	s = k.store() // another process, after a crash
	k.must(s.Release(k.ctx, "w"))
	left := value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 10, time.Minute, notify.Inbox))
	k.equal("messages to inboxes after a crash", len(left), 2)
}
