package delivery

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/template"
)

// TestLinks sees what the links of mails are for: everything only where the sender cannot learn the link. A client's
// template can put it into the address of a picture, a style sheet in its HTML can read it, and who answers the mail
// may quote it. So such mails have a link for the kind, in the header too, which is enough for one click.
// TestChatAndWebhook has that of a webhook.
func TestLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	for id, text := range map[string]string{"own": "{{.Text}} {{.UnsubscribeURL}}",
		"token": "https://x.example/?u={{.UnsubscribeID}}"} {
		testkit.Must(t, w.store.CreateTemplate(t.Context(), notify.Template{ID: id, Name: id, Subject: "x", Text: text,
			Updated: time.Now()}))
	}
	testkit.Must(t, w.store.SeedTemplate(t.Context(), template.DefaultV2()))
	w.start()
	const style = `<style>a[href*="/unsubscribe/A"]{background:url(https://evil.example/A)}</style><p>hello</p>`
	start := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	for i, tc := range []struct {
		name    string
		content notify.Content
		kind    string // the template of the kind
		only    bool
	}{
		{"text", notify.Content{Text: "t"}, "", false},
		{"text with the template of version 2", notify.Content{Text: "t"}, notify.DefaultTemplateV2, false},
		{"text that looks like HTML", notify.Content{Text: style}, "", false},
		{"HTML", notify.Content{HTML: "<p>t</p>"}, "", true},
		{"HTML with a style sheet", notify.Content{HTML: style}, "", true},
		{"HTML with the template of version 2", notify.Content{HTML: style}, notify.DefaultTemplateV2, true},
		{"text and HTML", notify.Content{Text: "t", HTML: style}, "", true},
		{"an address for answers", notify.Content{Text: "t", ReplyTo: "shop@example.com"}, "", true},
		{"HTML and an address for answers", notify.Content{HTML: style, ReplyTo: "shop@example.com"}, "", true},
		{"an invitation, which is answered", notify.Content{Text: "t", Event: &notify.Invitation{Method: notify.RequestEvent,
			UID: "e-1", Summary: "s", Start: start, End: start.Add(time.Hour)}}, "", true},
		{"a template of the client", notify.Content{Text: "t"}, "own", true},
		{"a template with the token", notify.Content{Text: "t"}, "token", true},
	} {
		testkit.Must(t, w.store.AssignTemplate(t.Context(), notify.Association{ClientID: "shop", KindID: "news"}, tc.kind))
		tc.content.Subject = "S"
		w.finish(w.send(func(r *actions.Request) { r.Content = tc.content }))
		o := w.post.all()[i]
		token := o.Unsubscribe[strings.LastIndex(o.Unsubscribe, "/")+1:]
		g, err := w.unsub.Open(token)
		if err != nil || g.UserID == "" || g.Kind.KindID != "news" || g.OnlyKind != tc.only {
			t.Errorf("%s: the link is for %+v (%v), want only the kind: %t", tc.name, g, err, tc.only)
		}
		// The link of the header replaces the mark, so no other one is in the mail.
		other := w.unsub.Make(actions.Grant{UserID: g.UserID, Kind: g.Kind, OnlyKind: !tc.only})
		text := o.Body.Text + o.Body.HTML
		has := strings.Contains(text, token) || tc.kind != "token" && strings.Contains(text, notify.UnsubscribeMark)
		if strings.Contains(text, other) || !has && tc.kind != notify.DefaultTemplateV2 {
			t.Errorf("%s: the body has not the header's link %s, or another one: %s", tc.name, token, text)
		}
	}
}
