package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

func testRegister(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c", Description: "first"}, []notify.Kind{
		{ID: "a", Description: "A"}, {ID: "b", Description: "B", Critical: true},
	}, false))
	k.must(s.Register(k.ctx, notify.Client{ID: "other", Description: "other"}, []notify.Kind{{ID: "a"}}, true))
	k.equal("client", value[notify.Client](k)(s.Client(k.ctx, "c")), notify.Client{ID: "c", Description: "first",
		TemplateID: notify.DefaultTemplate})
	_, err := s.Client(k.ctx, "nobody")
	k.wantErr(err, notify.ErrNotFound)
	for ref, want := range map[notify.KindRef][2]string{
		{ClientID: "c", KindID: "b"}: {"c", "b"}, {ClientID: "c"}: {"c", ""}, {ClientID: "c", KindID: "z"}: {"c", ""},
		{ClientID: "other", KindID: "b"}: {"other", ""}, {ClientID: "nobody", KindID: "a"}: {"", ""},
		{ClientID: "a\x00", KindID: "a\x00"}: {"", ""},
	} {
		client, kind, err := s.Registration(k.ctx, ref)
		k.must(err)
		k.equal(fmt.Sprint("registration of ", ref), [2]string{client.ID, kind.ID}, want)
	}

	// A second registration renames, changes, and keeps assigned templates.
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Name: "t"}))
	k.must(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c"}, "t"))
	k.must(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c", KindID: "a"}, "t"))
	k.must(s.Register(k.ctx, notify.Client{ID: "c", Description: "second"},
		[]notify.Kind{{ID: "a", Description: "A2", Critical: true}}, false))
	k.equal("client", value[notify.Client](k)(s.Client(k.ctx, "c")), notify.Client{ID: "c", Description: "second",
		TemplateID: "t"})
	k.equal("kinds", value[[]notify.Kind](k)(s.Kinds(k.ctx, "c")), []notify.Kind{
		{ClientID: "c", ID: "a", Description: "A2", Critical: true, TemplateID: "t"},
		{ClientID: "c", ID: "b", Description: "B", Critical: true, TemplateID: notify.DefaultTemplate},
	})

	// With prune the client's other kinds are deleted, and no others.
	k.must(s.Register(k.ctx, notify.Client{ID: "c", Description: "third"}, []notify.Kind{{ID: "new"}}, true))
	k.equal("kinds", value[[]notify.Kind](k)(s.Kinds(k.ctx, "")), []notify.Kind{
		{ClientID: "c", ID: "new", TemplateID: notify.DefaultTemplate},
		{ClientID: "other", ID: "a", TemplateID: notify.DefaultTemplate},
	})
	k.equal("number of clients", len(value[[]notify.Client](k)(s.Clients(k.ctx))), 2)
}

func testKinds(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, []notify.Kind{{ID: "a"}}, false))
	k.must(s.UpdateKind(k.ctx, notify.Kind{ClientID: "c", ID: "a", Description: "D", Critical: true, TemplateID: "t"}))
	k.must(s.UpdateKind(k.ctx, notify.Kind{ClientID: "c", ID: "a", Description: "E"}))
	ref := notify.KindRef{ClientID: "c", KindID: "a"}
	k.equal("kind", value[notify.Kind](k)(s.Kind(k.ctx, ref)), notify.Kind{ClientID: "c", ID: "a", Description: "E",
		TemplateID: "t"})
	k.wantErr(s.UpdateKind(k.ctx, notify.Kind{ClientID: "c", ID: "x"}), notify.ErrNotFound)
	_, err := s.Kind(k.ctx, notify.KindRef{ClientID: "x", KindID: "a"})
	k.wantErr(err, notify.ErrNotFound)
	k.equal("kinds of an unknown client", value[[]notify.Kind](k)(s.Kinds(k.ctx, "nobody")), []notify.Kind{})
}

func testAssignTemplate(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, []notify.Kind{{ID: "a"}}, false))
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Name: "t"}))
	k.wantErr(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c"}, "missing"), notify.ErrConflict)
	k.wantErr(s.AssignTemplate(k.ctx, notify.Association{ClientID: "x"}, "t"), notify.ErrNotFound)
	k.wantErr(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c", KindID: "x"}, "t"), notify.ErrNotFound)
	k.must(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c"}, "t"))
	k.must(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c", KindID: "a"}, "t"))
	k.equal("uses", value[[]notify.Association](k)(s.Associations(k.ctx, "t")), []notify.Association{{ClientID: "c"},
		{ClientID: "c", KindID: "a"}})
	k.must(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c"}, notify.DefaultTemplate))
	k.equal("uses", value[[]notify.Association](k)(s.Associations(k.ctx, "t")),
		[]notify.Association{{ClientID: "c", KindID: "a"}})
	_, err := s.Associations(k.ctx, "missing")
	k.wantErr(err, notify.ErrNotFound)
}

func testTemplates(k *kit) {
	s := k.store()
	at := start
	one := notify.Template{
		ID: "one", Name: "One", Subject: "{{.Subject}}", Text: "text", HTML: "<p>é😀</p>",
		Metadata: json.RawMessage(`{"a":1}`), Version: 1, Created: at, Updated: at,
	}
	two := notify.Template{ID: "two", Creator: "shop", Name: "Two", Version: 1, Created: at.Add(-time.Hour),
		Updated: at}
	v2 := notify.Template{ID: "three", Owner: "c", Name: "Three", Version: 1, Created: at, Updated: at}
	for _, t := range []notify.Template{one, two, v2} {
		k.must(s.CreateTemplate(k.ctx, t))
	}
	k.wantErr(s.CreateTemplate(k.ctx, one), notify.ErrConflict)
	k.must(s.SeedTemplate(k.ctx, notify.Template{ID: notify.DefaultTemplate, Name: "Default", Created: at}))
	k.equal("template", value[notify.Template](k)(s.Template(k.ctx, "one")), one)
	_, err := s.Template(k.ctx, "none")
	k.wantErr(err, notify.ErrNotFound)
	k.equal("templates of v1", value[[]notify.Template](k)(s.ListTemplates(k.ctx, "")), []notify.Template{two, one})
	k.equal("templates of v2", value[[]notify.Template](k)(s.ListTemplates(k.ctx, "c")), []notify.Template{v2})

	one.Name, one.Text, one.Metadata, one.Updated = "New", "", nil, at.Add(time.Second)
	one.Version = 2
	k.must(s.UpdateTemplate(k.ctx, one))
	k.equal("changed template", value[notify.Template](k)(s.Template(k.ctx, "one")), one)
	k.wantErr(s.UpdateTemplate(k.ctx, notify.Template{ID: "none"}), notify.ErrNotFound)
}

func testSeedTemplate(k *kit) {
	s := k.store()
	seed := notify.Template{ID: notify.DefaultTemplate, Name: "Default", Text: "1", Version: 1, Created: start,
		Updated: start}
	k.must(s.SeedTemplate(k.ctx, seed))
	seed.Text = "2"
	k.must(s.SeedTemplate(k.ctx, seed))
	k.equal("seeded again", value[notify.Template](k)(s.Template(k.ctx, seed.ID)), seed)
	own := seed
	own.Text, own.Overridden, own.Version = "own", true, 2
	k.must(s.UpdateTemplate(k.ctx, own))
	seed.Text = "3"
	k.must(s.SeedTemplate(k.ctx, seed))
	k.equal("overridden", value[notify.Template](k)(s.Template(k.ctx, seed.ID)), own)
}

func testDeleteTemplate(k *kit) {
	s := k.store()
	k.must(s.Register(k.ctx, notify.Client{ID: "c"}, []notify.Kind{{ID: "a"}}, false))
	k.must(s.CreateTemplate(k.ctx, notify.Template{ID: "t", Name: "t"}))
	k.must(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c"}, "t"))
	k.must(s.AssignTemplate(k.ctx, notify.Association{ClientID: "c", KindID: "a"}, "t"))
	value[notify.Sender](k)(s.CreateSender(k.ctx, notify.Sender{ID: "s", ClientID: "c", Name: "s"}))
	value[notify.CampaignType](k)(s.CreateCampaignType(k.ctx, notify.CampaignType{ID: "y", SenderID: "s", ClientID: "c",
		Name: "y", TemplateID: "t"}))
	k.must(s.DeleteTemplate(k.ctx, "t"))
	k.wantErr(s.DeleteTemplate(k.ctx, "t"), notify.ErrNotFound)
	k.equal("client's", value[notify.Client](k)(s.Client(k.ctx, "c")).TemplateID, notify.DefaultTemplate)
	k.equal("kind's", value[notify.Kind](k)(s.Kind(k.ctx, notify.KindRef{ClientID: "c", KindID: "a"})).TemplateID,
		notify.DefaultTemplate)
	k.equal("campaign type's", value[notify.CampaignType](k)(s.CampaignType(k.ctx, "y")).TemplateID, "")
}

func testSenders(k *kit) {
	s := k.store()
	a := notify.Sender{ID: "1", ClientID: "c", Name: "a"}
	k.equal("sender", value[notify.Sender](k)(s.CreateSender(k.ctx, a)), a)
	k.equal("sender created again",
		value[notify.Sender](k)(s.CreateSender(k.ctx, notify.Sender{ID: "2", ClientID: "c", Name: "a"})), a)
	b := notify.Sender{ID: "3", ClientID: "c", Name: "b"}
	other := notify.Sender{ID: "4", ClientID: "d", Name: "a"}
	value[notify.Sender](k)(s.CreateSender(k.ctx, b))
	value[notify.Sender](k)(s.CreateSender(k.ctx, other))
	k.equal("senders", value[[]notify.Sender](k)(s.Senders(k.ctx, "c")), []notify.Sender{a, b})
	k.wantErr(s.UpdateSender(k.ctx, notify.Sender{ID: "3", ClientID: "c", Name: "a"}), notify.ErrConflict)
	b.Name = "bb"
	k.must(s.UpdateSender(k.ctx, b))
	k.equal("renamed", value[notify.Sender](k)(s.Sender(k.ctx, "3")), b)
	k.wantErr(s.UpdateSender(k.ctx, notify.Sender{ID: "x"}), notify.ErrNotFound)
	k.must(s.DeleteSender(k.ctx, "3"))
	k.wantErr(s.DeleteSender(k.ctx, "3"), notify.ErrNotFound)
	_, err := s.Sender(k.ctx, "3")
	k.wantErr(err, notify.ErrNotFound)
}

func testCampaignTypes(k *kit) {
	s := k.store()
	value[notify.Sender](k)(s.CreateSender(k.ctx, notify.Sender{ID: "s", ClientID: "c", Name: "s"}))
	a := notify.CampaignType{ID: "1", SenderID: "s", ClientID: "c", Name: "a", Description: "d", Critical: true,
		TemplateID: "t"}
	k.equal("type", value[notify.CampaignType](k)(s.CreateCampaignType(k.ctx, a)), a)
	k.equal("type created again",
		value[notify.CampaignType](k)(s.CreateCampaignType(k.ctx, notify.CampaignType{ID: "2", SenderID: "s", Name: "a"})), a)
	_, err := s.CreateCampaignType(k.ctx, notify.CampaignType{ID: "5", SenderID: "none", Name: "a"})
	k.wantErr(err, notify.ErrNotFound)
	b := notify.CampaignType{ID: "3", SenderID: "s", ClientID: "c", Name: "b"}
	value[notify.CampaignType](k)(s.CreateCampaignType(k.ctx, b))
	k.equal("types", value[[]notify.CampaignType](k)(s.CampaignTypes(k.ctx, "s")), []notify.CampaignType{a, b})
	b.Name = "a"
	k.wantErr(s.UpdateCampaignType(k.ctx, b), notify.ErrConflict)
	b.Name, b.Description, b.Critical, b.TemplateID = "c", "x", true, "t"
	k.must(s.UpdateCampaignType(k.ctx, b))
	k.equal("changed", value[notify.CampaignType](k)(s.CampaignType(k.ctx, "3")), b)
	k.wantErr(s.UpdateCampaignType(k.ctx, notify.CampaignType{ID: "x"}), notify.ErrNotFound)
	k.must(s.DeleteCampaignType(k.ctx, "3"))
	k.wantErr(s.DeleteCampaignType(k.ctx, "3"), notify.ErrNotFound)
	_, err = s.CampaignType(k.ctx, "3")
	k.wantErr(err, notify.ErrNotFound)
	k.must(s.DeleteSender(k.ctx, "s"))
	_, err = s.CampaignType(k.ctx, "1")
	k.wantErr(err, notify.ErrNotFound)
}

// testTexts sees that any text comes back as it was, and that what no database
// can hold is refused with words for the caller.
func testTexts(k *kit) {
	s := k.store()
	odd := "'; DROP TABLE x; -- \" \\ % _ ? $1 \t\n\u2028 Ünïcode 日本語 👩‍👩‍👧‍👦 \U0010FFFF"
	k.must(s.Register(k.ctx, notify.Client{ID: odd, Description: odd}, []notify.Kind{{ID: odd, Description: odd}}, true))
	k.equal("kind", value[notify.Kind](k)(s.Kind(k.ctx, notify.KindRef{ClientID: odd, KindID: odd})).Description, odd)
	n := k.sending(odd, odd)
	n.KindID, n.RequestID = odd, odd
	n.Content = notify.Content{Subject: odd, Text: odd, HTML: strings.Repeat(odd, 1000), ReplyTo: odd}
	n.Audiences = []notify.Audience{{Type: notify.ToSpace, ID: odd, SpaceName: odd, OrgName: odd}}
	send := k.accept(s, n)
	got := value[notify.Send](k)(s.Send(k.ctx, send.Number))
	k.equal("content", got.Content, n.Content)
	k.equal("audiences", got.Audiences, n.Audiences)
	claimed := k.claim(s, "w", 10)
	k.equal("number of messages", len(claimed), 1)
	value[[]notify.Claimed](k)(s.Finish(k.ctx, []notify.Outcome{{Number: claimed[0].Number, Status: notify.Failed,
		Reason: odd, At: start}}, nil))
	list := value[[]notify.Message](k)(s.FindMessages(k.ctx, notify.MessageQuery{ClientID: odd, UserID: odd, Limit: 5}))
	k.equal("number of messages found", len(list), 1)
	k.equal("reason", list[0].Reason, odd)

	for name, bad := range map[string]string{"NUL": "a\x00b", "UTF-8": "a\xff"} {
		refused := func(what string, err error) {
			k.Helper()
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != fault.Unprocessable {
				k.Errorf("%s with bad %s: error is %v, want %s", what, name, err, fault.Unprocessable)
			}
		}
		n := k.sending("c", "u")
		n.Content.Text = bad
		_, _, err := s.Accept(k.ctx, n)
		refused("text", err)
		n = k.sending("c", "u", bad)
		_, _, err = s.Accept(k.ctx, n)
		refused("recipient", err)
		n = k.sending("c", "u")
		n.Idempotency = notify.Idempotency{Key: bad, Hash: "h", Until: start.Add(time.Hour)}
		_, _, err = s.Accept(k.ctx, n)
		refused("key", err)
		refused("client", s.Register(k.ctx, notify.Client{ID: bad}, nil, false))
		refused("template", s.CreateTemplate(k.ctx, notify.Template{ID: "x", Text: bad}))
		refused("suppression", s.Suppress(k.ctx, notify.Suppression{Email: bad}))
		_, err = s.Finish(k.ctx, []notify.Outcome{{Number: 1, Status: notify.Failed, Reason: bad}}, nil)
		refused("reason", err)

		_, err = s.Client(k.ctx, bad)
		k.wantErr(err, notify.ErrNotFound)
		_, err = s.Template(k.ctx, bad)
		k.wantErr(err, notify.ErrNotFound)
		k.wantErr(s.DeleteTemplate(k.ctx, bad), notify.ErrNotFound)
		k.equal("unsubscribed", k.unwanted(s,
			notify.Subscription{UserID: bad, KindRef: notify.KindRef{ClientID: "c", KindID: "k"}},
			notify.Subscription{UserID: "u", KindRef: notify.KindRef{ClientID: bad, KindID: bad}},
		), map[notify.Subscription]notify.Unwanted{})
		refused("preference", s.ChangePreferences(k.ctx, "u", notify.PreferenceChange{
			Kinds: map[notify.KindRef]bool{{ClientID: bad, KindID: "k"}: false}}))
		k.equal("suppressed", value[map[string]bool](k)(s.Suppressed(k.ctx, []string{bad})), map[string]bool{})
	}
	k.waits(s, 0)
}
