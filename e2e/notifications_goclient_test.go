package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"ingot/clients/notifications"
	"ingot/internal/base/testkit"
)

// TestNotificationsGoClient uses the Go client package with a real service: everything
// that it offers, and the errors.
func TestNotificationsGoClient(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := newMailFixture(t, options{Args: []string{"--allow-networks", "127.0.0.0/8"}})
	ann := p.createUser(t, p.admin, "ann", "p")
	c := got(notifications.FromVCAP(fmt.Sprintf(`{"notifications": [{"name": "mail", "credentials": {"url": %q,
		"auth_url": %q, "client_id": "my-sender", "client_secret": "my-secret"}}]}`, p.base, p.API), ""))(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Register(ctx, notifications.Registration{Name: "Shop", Kinds: map[string]notifications.Kind{
		"news": {Description: "News"}, "recall": {Description: "Recalls", Critical: true}}}))
	must(c.SetSchema(ctx, "news", []byte(`{"type": "object", "required": ["name"]}`)))
	must(c.SetWorkflow(ctx, "recall", []byte(`{"steps": [{"channel": "email"}]}`)))
	must(c.SetWorkflow(ctx, "recall", nil))
	must(c.SetDigest(ctx, "news", &notifications.Digest{Window: "15m", Key: "name", Channels: []string{"email"}}))
	must(c.SetDigest(ctx, "news", nil))
	must(c.SetThrottle(ctx, "news", &notifications.Throttle{Limit: 3, Window: "1h"}))
	must(c.SetThrottle(ctx, "news", nil))
	must(c.SetRetention(ctx, "news", "30d"))
	must(c.SetRetention(ctx, "news", ""))

	template := got(c.CreateTemplate(ctx, notifications.Template{Name: "T", Subject: "[shop] {{.Subject}}",
		HTML: "<p>{{.HTML}}</p>", Text: "Dear {{.Data.name}}: {{.Text}}"}))(t)
	must(c.SetVariant(ctx, template, "de", notifications.Variant{Text: "Liebe {{.Data.name}}: {{.Text}}"}))
	must(c.AssignTemplate(ctx, "my-sender", "news", template))
	if names := got(c.Templates(ctx))(t); names[template] != "T" {
		t.Errorf("templates are %v", names)
	}
	text := got(c.Template(ctx, template))(t)
	text.Name = "Shop"
	must(c.UpdateTemplate(ctx, template, text))

	// The webhook's calls are verified with its secret.
	calls := make(chan notifications.Event, 16)
	var hook notifications.Webhook
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		events, err := notifications.Events(r, hook.Secret)
		if err != nil {
			t.Error(err)
		}
		for _, e := range events {
			calls <- e
		}
	}))
	defer receiver.Close()
	hook = got(c.CreateWebhook(ctx, receiver.URL, "delivered"))(t)

	send := notifications.Send{KindID: "news", Subject: "spring", Text: "it is spring", IdempotencyKey: "order-1",
		Recipients: []notifications.Recipient{{User: ann, Data: map[string]string{"name": "Ann"}},
			{Email: "bea@example.org", Locale: "de-CH", Data: map[string]string{"name": "Bea"}}}}
	sent := got(c.Send(ctx, send))(t)
	if again := got(c.Send(ctx, send))(t); again.ID != sent.ID || sent.Recipients != 2 {
		t.Errorf("the same again is %+v, was %+v", again, sent)
	}
	const annAt, beaAt = "ann@example.org", "bea@example.org"
	mails := p.receive(t, "[shop] spring", annAt, beaAt)
	for _, m := range mails {
		contains(t, m.Text, map[string]string{annAt: "Dear Ann: it", beaAt: "Liebe Bea: it"}[m.To])
	}
	for range 2 {
		if e := <-calls; e.Status != "delivered" || e.SendID != sent.ID || e.KindID != "news" {
			t.Errorf("the webhook heard %+v", e)
		}
	}
	must(c.DeleteWebhook(ctx, hook.ID))
	testkit.Eventually(t, "the send is completed", func() bool {
		s := got(c.SendStatus(ctx, sent.ID))(t)
		return s.Status == "completed" && s.Counts["delivered"] == 2 && s.CompletedAt != nil
	})
	for m, err := range c.Messages(ctx, notifications.MessageQuery{UserID: ann, Since: time.Now().Add(-time.Hour)}) {
		must(err)
		if m.Status != "delivered" || m.SendID != sent.ID {
			t.Errorf("the user's message is %+v", m)
		}
	}

	// A long list, in a stream; then a wrong line, of which nothing is sent.
	list := func(wrong int) func(yield func(notifications.Recipient) bool) {
		return func(yield func(notifications.Recipient) bool) {
			for i := range 2500 {
				r := notifications.Recipient{Email: fmt.Sprintf("r%d@example.org", i), Data: map[string]int{"name": i}}
				if i == wrong {
					r.Email = "nobody"
				}
				if !yield(r) {
					return
				}
			}
		}
	}
	later := notifications.Send{KindID: "news", Text: "t", SendAt: time.Now().Add(time.Hour)}
	many := got(c.SendList(ctx, later, list(-1)))(t)
	if many.Status != "scheduled" || many.Recipients != 2500 {
		t.Errorf("the list is %+v", many)
	}
	if s := got(c.Cancel(ctx, many.ID))(t); s.Status != "canceled" {
		t.Errorf("the canceled send is %+v", s)
	}
	if _, err := c.SendList(ctx, later, list(2000)); err == nil {
		t.Error("a wrong recipient is accepted")
	} else {
		contains(t, err.Error(), "nobody")
	}
	_, err := c.Send(ctx, notifications.Send{KindID: "news", Text: "t", Audience: notifications.User(ann)})
	if err == nil {
		t.Error("data against the schema is accepted")
	} else {
		contains(t, err.Error(), "name")
	}
	got(c.Send(ctx, notifications.Send{KindID: "recall", Subject: "recall", Text: "t",
		Audience: notifications.Everyone()}))(t)
	p.receive(t, "recall", "ann@example.org", "admin@localhost")
	token := got(c.InboxToken(ctx, ann, time.Minute))(t)
	if token.Token == "" || time.Until(token.ExpiresAt) > time.Hour {
		t.Errorf("the inbox's token is %+v", token)
	}
	must(c.DeleteTemplate(ctx, template))
	if _, err := c.Template(ctx, template); !notifications.IsNotFound(err) {
		t.Errorf("the template after it was deleted: %v", err)
	}
}
