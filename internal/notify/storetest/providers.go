package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingot/internal/notify"
)

func testProviders(k *kit) {
	s := k.store()
	_, err := s.Provider(k.ctx, "shop", "twilio")
	k.wantErr(err, notify.ErrNotFound)
	k.equal("none", value[[]notify.Provider](k)(s.Providers(k.ctx, "shop")), []notify.Provider{})
	provider := func(owner, name string) notify.Provider {
		return notify.Provider{Owner: owner, Name: name, Channel: notify.SMS,
			ProviderDefinition: notify.ProviderDefinition{
				Method: "POST", URL: "https://sms.example.com/ü", Headers: map[string]string{"X-Key": `{{secret "key"}}`},
				JSON: json.RawMessage(`{"to":"{{phone}}","n":1.50}`), Form: map[string]string{"a": "b"},
				Success: &notify.AnswerRule{Status: []notify.StatusRange{{From: 200, To: 299}, {From: 301, To: 301}},
					JSON: &notify.JSONRule{Path: "a.0", Equals: json.RawMessage(`"0"`)}},
				Permanent: []notify.AnswerRule{{Status: []notify.StatusRange{{From: 400, To: 410}}}},
				Rate:      2.5, Weight: 3, MaxSegments: 2},
			Secrets: map[string]string{"key": "grün & geheim"}, Created: k.clock.Now(), Updated: k.clock.Now()}
	}
	own, reserve, shared := provider("shop", "twilio"), provider("shop", "reserve"), provider("", "twilio")
	for _, p := range []notify.Provider{own, reserve, shared} {
		k.must(s.SetProvider(k.ctx, p))
	}
	k.clock.Advance(time.Minute)
	first := own.Created
	own.URL, own.Updated, own.Created, own.Secrets = "https://2.example.com/", k.clock.Now(), k.clock.Now(),
		map[string]string{"other": "x"}
	k.must(s.SetProvider(k.ctx, own))
	own.Created = first
	s = k.store() // as after a restart
	k.equal("a changed one", value[notify.Provider](k)(s.Provider(k.ctx, "shop", "twilio")), own)
	k.equal("a shared one", value[notify.Provider](k)(s.Provider(k.ctx, "", "twilio")), shared)
	k.equal("all of a client", value[[]notify.Provider](k)(s.Providers(k.ctx, "shop")), []notify.Provider{reserve, own})

	delivering := func(what, client string, want ...notify.Provider) {
		k.Helper()
		k.equal(what, value[[]notify.Provider](k)(s.ProvidersFor(k.ctx, client, notify.SMS)),
			append([]notify.Provider{}, want...))
	}
	delivering("a client's own", "shop", reserve, own)
	delivering("the shared one", "other", shared)
	delivering("without a client", "", shared)
	k.equal("those of another channel", value[[]notify.Provider](k)(s.ProvidersFor(k.ctx, "shop", notify.Chat)),
		[]notify.Provider{})
	reserve.Disabled = true
	k.must(s.SetProvider(k.ctx, reserve))
	delivering("without the disabled one", "shop", own)
	k.must(s.DeleteProvider(k.ctx, "shop", "twilio"))
	k.wantErr(s.DeleteProvider(k.ctx, "shop", "twilio"), notify.ErrNotFound)
	delivering("with a disabled one only", "shop", shared)
	k.must(s.DeleteProvider(k.ctx, "", "twilio"))
	delivering("without any", "shop")

	for i := range notify.MaxProviders {
		k.must(s.SetProvider(k.ctx, provider("many", fmt.Sprint("p", i))))
	}
	k.wantErr(s.SetProvider(k.ctx, provider("many", "more")), notify.ErrTooMany)
	k.must(s.SetProvider(k.ctx, provider("many", "p0")))
	if err := s.SetProvider(k.ctx, provider("a\x00b", "x")); err == nil {
		k.Error("a client's id with NUL was stored")
	}
	small := k.open(Options{Now: k.clock.Now, Bounds: notify.Bounds{Definitions: 2000}})
	own.Secrets = map[string]string{"key": strings.Repeat("x", 2000)}
	k.wantFull("more than a client may have", small.SetProvider(k.ctx, own))
}

// testPhones sees that recipients without a user have messages by text beside their mail, and that both are found.
func testPhones(k *kit) {
	s := k.store()
	channels := notify.ChannelsOf(notify.Email, notify.SMS)
	n := k.sending("shop")
	n.Channels, n.Recipients = channels, channels.Messages([]notify.Recipient{{Email: "A@example.com"}, {UserID: "ann"}})
	n.Audiences, n.Expanded = []notify.Audience{{Type: notify.ToEveryone}}, false
	first := n.Recipients
	n.Recipients = nil
	send := k.accept(s, n)
	k.must(s.Extend(k.ctx, send.Number, notify.Cursor{}, first, notify.Cursor{Page: "1"}, false))
	k.must(s.Extend(k.ctx, send.Number, notify.Cursor{Page: "1"}, first, notify.Cursor{Audience: 1}, true))
	got := map[string]int{}
	for _, m := range value[[]notify.Message](k)(s.MessagesOf(k.ctx, send.Number, -1, 100)) {
		got[m.Channel.String()+" "+m.UserID+m.Email]++
	}
	k.equal("messages", got, map[string]int{"email A@example.com": 1, "sms A@example.com": 1, "email ann": 1,
		"sms ann": 1})
	texts := value[[]notify.Claimed](k)(s.Claim(k.ctx, "one", 100, time.Minute, notify.SMS))
	k.equal("texts", len(texts), 2)
	outcome := notify.Outcome{Number: texts[0].Number, Status: notify.Delivered, Reason: "accepted by twilio",
		Attempted: true, At: k.clock.Now()}
	value[[]notify.Claimed](k)(s.Finish(k.ctx, []notify.Outcome{outcome}, nil))
	m, _, err := s.Message(k.ctx, texts[0].Number)
	k.must(err)
	k.equal("who delivered it", m.Reason, "accepted by twilio")
}
