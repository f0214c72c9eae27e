package storetest

import (
	"encoding/json"
	"strings"
	"time"

	"ingot/internal/notify"
)

func (k *kit) workflow(text string) *notify.Workflow {
	k.Helper()
	return value[*notify.Workflow](k)(notify.ParseWorkflow(json.RawMessage(text)))
}

const laterMail = `{"steps":[{"channel":"inbox"},{"channel":"email","after":"1h",
	"if":{"all":[{"unread":"inbox"},{"data":"a.b","in":["x",7,true]}]}},{"channel":"chat","if":{"critical":true}}]}`

// testWorkflow stores, keeps and removes the workflow of a kind.
func testWorkflow(k *kit) {
	s := k.store()
	w := k.workflow(laterMail)
	ref := notify.KindRef{ClientID: "shop", KindID: "news"}
	k.wantErr(s.SetWorkflow(k.ctx, ref, w), notify.ErrNotFound)
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, []notify.Kind{{ID: "news"}, {ID: "other"}}, true))
	k.must(s.SetChannels(k.ctx, ref, notify.ChannelsOf(notify.Inbox)))
	k.must(s.SetWorkflow(k.ctx, ref, w))
	s = k.store() // as after a restart
	k.must(s.Register(k.ctx, notify.Client{ID: "shop"}, []notify.Kind{{ID: "news", Description: "News"}, {ID: "other"}},
		true))
	kind := value[notify.Kind](k)(s.Kind(k.ctx, ref))
	k.equal("the workflow", kind.Workflow, w)
	k.equal("channels", []notify.Channels{kind.Channels, kind.Travels()}, []notify.Channels{
		notify.ChannelsOf(notify.Inbox), notify.ChannelsOf(notify.Email, notify.Inbox, notify.Chat)})
	_, registered, err := s.Registration(k.ctx, ref)
	k.must(err)
	k.equal("registered", registered, kind)
	for _, other := range value[[]notify.Kind](k)(s.Kinds(k.ctx, "shop")) {
		k.equal("workflow of "+other.ID, other.Workflow != nil, other.ID == "news")
	}
	k.must(s.SetWorkflow(k.ctx, ref, nil))
	kind = value[notify.Kind](k)(s.Kind(k.ctx, ref))
	k.equal("without", []any{kind.Workflow == nil, kind.Travels()}, []any{true, notify.ChannelsOf(notify.Inbox)})
	k.wantErr(s.SetWorkflow(k.ctx, notify.KindRef{ClientID: "shop", KindID: "a\x00"}, nil), notify.ErrNotFound)

	small := k.open(Options{Now: k.clock.Now, Bounds: notify.Bounds{Definitions: 2000}})
	big := k.workflow(`{"steps":[{"channel":"email","if":{"data":"x","equals":"` + strings.Repeat("x", 5000) + `"}}]}`)
	k.wantFull("more than a client may have", small.SetWorkflow(k.ctx, ref, big))
}

// traveling is a send with a workflow to users, which may have to be expanded.
func (k *kit) traveling(w *notify.Workflow, users ...string) notify.NewSend {
	n := k.sending("shop", users...)
	n.Workflow, n.Channels = w, w.Channels()
	n.Recipients = n.Channels.Messages(n.Recipients)
	return n
}

// testWorkflowDelays sees that steps are due after their delays, however their messages come about, and that neither a
// restart nor a clock that is set back hurries them.
func testWorkflowDelays(k *kit) {
	w := k.workflow(laterMail)
	for _, how := range []string{"accepted", "extended", "scheduled"} {
		s := k.store()
		var send notify.Send
		switch n := k.traveling(w, "ann", "bob"); how {
		case "accepted":
			send = k.accept(s, n)
		case "extended":
			all := n.Recipients
			n.Recipients, n.Expanded = nil, false
			send = k.accept(s, n)
			k.must(s.Extend(k.ctx, send.Number, n.Cursor, all, notify.Cursor{Audience: 1}, true))
		case "scheduled":
			n.Recipients, n.Expanded, n.SendAt, n.Planned = nil, false, k.clock.Now().Add(time.Minute), 1
			n.Audiences = []notify.Audience{{Type: notify.ToUser, ID: "ann"}}
			send = k.accept(s, n)
			k.clock.Advance(time.Minute)
			k.activate(s, 1, time.Time{})
		}
		want := 2
		if how == "scheduled" {
			want = 1
		}
		k.equal("workflow of the send", value[notify.Send](k)(s.Send(k.ctx, send.Number)).Workflow, w)
		claims := func(of notify.ChannelID, want int, when string) {
			k.Helper()
			claimed := value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 10, time.Minute, of))
			k.equal(how+" by "+of.String()+" "+when, len(claimed), want)
			for _, c := range claimed {
				k.equal("its workflow", c.Send.Workflow, w)
				k.finish(s, notify.Delivered, c.Number)
			}
		}
		made := k.clock.Now()
		claims(notify.Inbox, want, "at once")
		claims(notify.Chat, 1, "at once")
		claims(notify.Email, 0, "at once")
		due, some, err := s.NextDue(k.ctx, notify.Email)
		k.must(err)
		k.equal("next", []any{due, some}, []any{made.Add(time.Hour), true})
		k.clock.Advance(59 * time.Minute)
		s = k.store() // as after a restart
		claims(notify.Email, 0, "too early")
		for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 10)) {
			if m.Channel == notify.Email {
				k.equal("changed", m.Updated, made)
				k.equal("state", m.Status, notify.Queued)
			}
		}
		k.clock.Advance(2 * time.Minute)
		claims(notify.Email, want, "when due")
		k.waits(s, 0)
	}

	s := k.store()
	send := k.accept(s, k.traveling(w, "ann", "bob"))
	got := k.cancel(s, send.Number)
	k.equal("canceled with the send", got.Counts, notify.Counts{Total: 5, Canceled: 5})
	k.clock.Advance(2 * time.Hour)
	k.equal("claimed after that", len(k.claim(s, "w", 10)), 0)
}

// testProgress asks what became of the recipients of messages on other channels.
func testProgress(k *kit) {
	s := k.store()
	w := k.workflow(laterMail)
	n := k.traveling(w)
	members := append(people("ann", "bob", "cid"), notify.Recipient{Email: "a@example.com"},
		notify.Recipient{Email: "b@example.com"})
	n.Recipients = n.Channels.Messages(members)
	for i := range n.Recipients { // the address of a user is often known to mail only
		if n.Recipients[i].Channel != notify.Email && n.Recipients[i].UserID != "" {
			n.Recipients[i].Email = ""
		}
	}
	send := k.accept(s, n)
	k.accept(s, k.traveling(w, "ann", "bob"))
	mails, inboxes := map[string]notify.Message{}, map[string]notify.Message{}
	for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 100)) {
		switch m.Channel {
		case notify.Email:
			mails[m.UserID+m.Email] = m
		case notify.Inbox:
			inboxes[m.UserID] = m
		}
	}
	claimed := value[[]notify.Claimed](k)(s.Claim(k.ctx, "w", 100, time.Minute, notify.Inbox))
	k.equal("claimed", len(claimed), 5)
	for _, user := range []string{"ann", "bob"} {
		m := inboxes[user]
		k.must(s.AddNotifications(k.ctx, "shop", []notify.Notification{{Number: m.Number, Owner: notify.Owner{
			ClientID: "shop", UserID: user}, KindID: "kind", Title: "t", Created: k.clock.Now()}}))
		k.finish(s, notify.Delivered, m.Number)
	}
	read := true
	_, err := s.ChangeNotification(k.ctx, notify.Owner{ClientID: "shop", UserID: "ann"}, inboxes["ann"].Number,
		notify.NotificationChange{Read: &read})
	k.must(err)
	k.finish(s, notify.Failed, inboxes["cid"].Number)

	var of []notify.Message
	for _, m := range mails {
		of = append(of, m)
	}
	ask := func(who string) map[notify.ChannelID]notify.Progress {
		k.Helper()
		all := value[map[int64]map[notify.ChannelID]notify.Progress](k)(s.Progress(k.ctx, of))
		return all[mails[who].Number]
	}
	inbox := func(p notify.Progress) map[notify.ChannelID]notify.Progress {
		return map[notify.ChannelID]notify.Progress{notify.Inbox: p}
	}
	k.equal("read", ask("annann@example.com"), inbox(notify.Progress{Status: notify.Delivered, Read: true}))
	k.equal("not read", ask("bobbob@example.com"), inbox(notify.Progress{Status: notify.Delivered}))
	k.equal("failed", ask("cidcid@example.com"), inbox(notify.Progress{Status: notify.Failed}))
	k.equal("an address", len(ask("a@example.com")), 0)
	k.must(s.DeleteNotification(k.ctx, notify.Owner{ClientID: "shop", UserID: "bob"}, inboxes["bob"].Number))
	k.equal("deleted by the user", ask("bobbob@example.com"), inbox(notify.Progress{Status: notify.Delivered, Read: true}))
	k.equal("nothing", len(value[map[int64]map[notify.ChannelID]notify.Progress](k)(s.Progress(k.ctx, nil))), 0)
}

// testTimeline reads what became of a recipient on all channels, with the attempts that failed.
func testTimeline(k *kit) {
	s := k.store()
	_, err := s.Timeline(k.ctx, notify.MessageNumber(1<<20, 0))
	k.wantErr(err, notify.ErrNotFound)
	w := k.workflow(`{"steps":[{"channel":"inbox"},{"channel":"email"},{"channel":"chat"}]}`)
	send := k.accept(s, k.traveling(w, "ann", "bob"))
	names := func(of string, number int64) {
		k.Helper()
		t := value[notify.Timeline](k)(s.Timeline(k.ctx, number))
		var list []string
		for _, e := range t.Events() {
			name := string(e.Name)
			if e.Message != 0 {
				name += " " + e.Channel.String()
			}
			list = append(list, name)
		}
		k.equal("timeline", strings.Join(list, ", "), of)
		k.equal("its send", []any{t.Send.Number, t.Send.Workflow}, []any{send.Number, w})
	}
	var mail, in int64
	for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 100)) {
		if m.UserID == "bob" && m.Channel == notify.Email {
			mail = m.Number
		}
		if m.UserID == "bob" && m.Channel == notify.Inbox {
			in = m.Number
		}
	}
	names("accepted, waiting email, waiting inbox, waiting chat", mail)
	for range 2 {
		k.clock.Advance(time.Minute)
		k.claim(s, "w", 10)
		k.finish(s, notify.Retry, mail)
	}
	k.clock.Advance(time.Minute)
	k.finish(s, notify.Delivered, mail)
	k.clock.Advance(time.Second)
	k.must(s.AddNotifications(k.ctx, "shop", []notify.Notification{{Number: in, Owner: notify.Owner{ClientID: "shop",
		UserID: "bob"}, Created: k.clock.Now()}}))
	k.finish(s, notify.Delivered, in)
	k.clock.Advance(time.Second)
	yes := true
	_, err = s.ChangeNotification(k.ctx, notify.Owner{ClientID: "shop", UserID: "bob"}, in,
		notify.NotificationChange{Read: &yes})
	k.must(err)
	want := "accepted, waiting chat, attempt_failed email, attempt_failed email, delivered email, delivered inbox, " +
		"read inbox"
	names(want, mail)
	names(want, in)
	t := value[notify.Timeline](k)(s.Timeline(k.ctx, mail))
	k.equal("attempts", len(t.Passages[0].Attempts)+len(t.Passages[1].Attempts), 2)

	k.clock.Advance(time.Hour)
	purged := value[int](k)(s.Purge(k.ctx, k.clock.Now()))
	k.equal("purged", purged, 2)
	_, err = s.Timeline(k.ctx, mail)
	k.wantErr(err, notify.ErrNotFound)
}
