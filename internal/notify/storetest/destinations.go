package storetest

import (
	"strings"
	"time"

	"ingot/internal/notify"
)

func testDestinations(k *kit) {
	s := k.store()
	_, err := s.Destination(k.ctx, "shop", notify.Chat)
	k.wantErr(err, notify.ErrNotFound)
	k.equal("none", value[[]notify.Destination](k)(s.Destinations(k.ctx, "shop")), []notify.Destination{})
	chat := notify.Destination{ClientID: "shop", Channel: notify.Chat, URL: "https://hooks.example.com/ü", Format: "slack",
		Updated: k.clock.Now()}
	called := notify.Destination{ClientID: "shop", Channel: notify.Hook, URL: "https://app.example.com/in",
		Secret: "0123456789abcdef", Updated: k.clock.Now()}
	other := chat
	other.ClientID = "other"
	for _, d := range []notify.Destination{chat, called, other} {
		k.must(s.SetDestination(k.ctx, d))
	}
	k.clock.Advance(time.Minute)
	chat.URL, chat.Format, chat.Updated = "https://hooks.example.com/2", "teams", k.clock.Now()
	k.must(s.SetDestination(k.ctx, chat))
	s = k.store() // as after a restart
	k.equal("a changed one", value[notify.Destination](k)(s.Destination(k.ctx, "shop", notify.Chat)), chat)
	k.equal("all of a client", value[[]notify.Destination](k)(s.Destinations(k.ctx, "shop")),
		[]notify.Destination{called, chat})
	k.must(s.DeleteDestination(k.ctx, "shop", notify.Chat))
	k.wantErr(s.DeleteDestination(k.ctx, "shop", notify.Chat), notify.ErrNotFound)
	k.equal("the rest", value[[]notify.Destination](k)(s.Destinations(k.ctx, "shop")), []notify.Destination{called})
	k.equal("another client's", value[notify.Destination](k)(s.Destination(k.ctx, "other", notify.Chat)), other)
	if err := s.SetDestination(k.ctx, notify.Destination{ClientID: "a\x00b", Channel: notify.Chat}); err == nil {
		k.Error("a client's id with NUL was stored")
	}
	small := k.open(Options{Now: k.clock.Now, Bounds: notify.Bounds{Definitions: 1000}})
	chat.URL += strings.Repeat("x", 2000)
	k.wantFull("more than a client may have", small.SetDestination(k.ctx, chat))
}

// testChatOnce sees that a send has one message for its chat, however many chunks its recipients come in.
func testChatOnce(k *kit) {
	s := k.store()
	channels := notify.ChannelsOf(notify.Hook, notify.Chat)
	for name, audiences := range map[string][]notify.Audience{
		"one audience":  {{Type: notify.ToEveryone}},
		"two audiences": {{Type: notify.ToSpace, ID: "a"}, {Type: notify.ToSpace, ID: "b"}},
	} {
		n := k.sending("shop")
		n.Audiences, n.Channels, n.Expanded, n.Recipients = audiences, channels, false, nil
		send := k.accept(s, n)
		first := append(people("ann", "bob"), notify.Recipient{Email: "a@example.com"})
		k.must(s.Extend(k.ctx, send.Number, notify.Cursor{}, channels.Messages(first), notify.Cursor{Page: "1"}, false))
		s = k.store()
		k.must(s.Extend(k.ctx, send.Number, notify.Cursor{Page: "1"}, channels.Messages(append(first, people("cid")...)),
			notify.Cursor{Audience: len(audiences)}, true))
		got := map[string]int{}
		for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 100)) {
			got[m.Channel.String()+" "+m.UserID+m.Email]++
		}
		k.equal("messages to "+name, got, map[string]int{"chat ": 1, "webhook annann@example.com": 1,
			"webhook bobbob@example.com": 1, "webhook a@example.com": 1, "webhook cidcid@example.com": 1})
	}
	claimed := value[[]notify.Claimed](k)(s.Claim(k.ctx, "one", 100, time.Minute, notify.Chat))
	k.equal("messages of chats", len(claimed), 2)
	k.finish(s, notify.Retry, numbersOf(claimed)...)
	k.clock.Advance(2 * time.Minute)
	again := value[[]notify.Claimed](k)(s.Claim(k.ctx, "one", 100, time.Minute, notify.Chat))
	k.equal("messages of chats that are tried again", numbersOf(again), numbersOf(claimed))
	k.equal("mail", len(k.claim(s, "one", 100)), 0)
}
