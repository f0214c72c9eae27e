package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestNotificationSeed tests each statement of the notification service's first
// description, one after another, on one server.
func TestNotificationSeed(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	ann, bob := p.createUser(t, p.admin, "ann", "p"), p.createUser(t, p.admin, "bob", "p")
	const annAt, bobAt = "ann@example.org", "bob@example.org"
	message := func(kind, subject string) object {
		return object{"kind_id": kind, "text": "the text", "html": "<p>the <b>html</b></p>", "subject": subject,
			"reply_to": "me@example.org"}
	}
	do := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, f) {
			t.FailNow() // each depends on the one before
		}
	}

	do("a client is made with authorized_grant_types as a string, by an administrator", func(t *testing.T) {
		p.call(t, http.MethodPost, "/oauth/clients", p.token, object{"client_id": "x", "client_secret": "y"}).
			want(t, http.StatusForbidden)
		if got := p.newSender(t, "made", "notifications.write").want(t, http.StatusCreated).
			object(t); fmt.Sprint(got["authorized_grant_types"]) != "[client_credentials]" {
			t.Errorf("grant types: %v", got["authorized_grant_types"])
		}
	})
	do("its token comes by the client credentials grant", func(t *testing.T) {
		var got tokens
		p.askToken(t, "my-sender", "my-secret", url.Values{"grant_type": {"client_credentials"}}).want(t, http.StatusOK).
			into(t, &got)
		if !sameWords(strings.Fields(got.Scope), sendingAuthorities) {
			t.Errorf("scopes: %s", got.Scope)
		}
	})
	do("every call needs a token", func(t *testing.T) {
		for _, path := range []string{"/everyone", "/users/" + ann, "/templates"} {
			p.call(t, http.MethodPost, p.base+path, "", object{}).want(t, http.StatusUnauthorized)
		}
	})
	do("a kind must be registered before it is sent", func(t *testing.T) {
		r := p.ask(t, http.MethodPost, "/users/"+ann, message("news", "too early")).want(t, http.StatusUnprocessableEntity)
		contains(t, r.String(), "news", "not registered")
	})
	do("registration", func(t *testing.T) {
		p.register(t, "news", "fire-alarm")
		got := p.ask(t, http.MethodGet, "/notifications", nil).want(t, http.StatusOK).String()
		contains(t, got, "My Source", `"news"`, `"fire-alarm"`, "The kind news")
	})
	do("request bodies are JSON", func(t *testing.T) {
		for _, body := range []any{url.Values{"kind_id": {"news"}, "text": {"x"}}, []string{"news"}, "news"} {
			if r := p.ask(t, http.MethodPost, "/everyone", body); r.Status != http.StatusBadRequest &&
				r.Status != http.StatusUnsupportedMediaType {
				t.Errorf("answer to %v is %s, want 400 or 415", body, r)
			}
		}
	})
	do("each operation needs its own scope", func(t *testing.T) {
		kinds := object{"source_name": "S", "notifications": object{"k": object{"description": "d", "critical": false}}}
		for _, operation := range []struct {
			scope, method, path string
			body                any
		}{
			{"notifications.manage", http.MethodPut, "/notifications", kinds},
			{"notifications.manage", http.MethodPut, "/clients/my-sender/notifications/news/template",
				object{"template": "default"}},
			{"notification_templates.write", http.MethodPost, "/templates", object{"name": "n", "html": "h"}},
			{"notification_templates.read", http.MethodGet, "/templates", nil},
			{"notifications.write", http.MethodPost, "/everyone", message("news", "never sent")},
		} {
			others := slices.DeleteFunc(slices.Clone(sendingAuthorities), func(s string) bool { return s == operation.scope })
			var less tokens
			p.askToken(t, "my-sender", "my-secret", url.Values{"grant_type": {"client_credentials"},
				"scope": {strings.Join(others, " ")}}).want(t, http.StatusOK).into(t, &less)
			p.call(t, operation.method, p.base+operation.path, less.Access, operation.body).want(t, http.StatusForbidden)
		}
		if got := p.messages(t, "never sent"); len(got) > 0 {
			t.Errorf("sent without the scope: %+v", got)
		}
	})
	do("a kind belongs to the client that registered it", func(t *testing.T) {
		p.newSender(t, "stranger", "notifications.write", "notifications.manage").want(t, http.StatusCreated)
		stranger := *p
		stranger.token = p.clientToken(t, "stranger", "my-secret")
		stranger.ask(t, http.MethodPost, "/users/"+ann, message("news", "not his")).want(t, http.StatusUnprocessableEntity)
		p.ask(t, http.MethodPut, "/clients/stranger/notifications/news/template", object{"template": "default"}).
			want(t, http.StatusNotFound)
	})
	do("users cannot unsubscribe from a critical kind, and can from another", func(t *testing.T) {
		for kind, want := range map[string]int{"fire-alarm": http.StatusUnprocessableEntity, "news": http.StatusNoContent} {
			for _, wanted := range []bool{false, true} {
				r := p.ask(t, http.MethodPatch, "/user_preferences/"+ann,
					object{"clients": object{"my-sender": object{kind: object{"email": wanted}}}})
				if !wanted && r.Status != want {
					t.Errorf("%s: answer is %s, want %d", kind, r, want)
				}
			}
		}
	})
	do("a critical kind needs critical_notifications.write, to register and to send", func(t *testing.T) {
		p.newSender(t, "plain", "notifications.write", "notifications.manage").want(t, http.StatusCreated)
		plain := *p
		plain.token = p.clientToken(t, "plain", "my-secret")
		kinds := func(critical bool) object {
			return object{"source_name": "Plain", "notifications": object{"k": object{"description": "d", "critical": critical}}}
		}
		plain.ask(t, http.MethodPut, "/notifications", kinds(true)).want(t, http.StatusUnprocessableEntity)
		plain.ask(t, http.MethodPut, "/notifications", kinds(false)).want(t, http.StatusNoContent)
		plain.ask(t, http.MethodPost, "/users/"+ann, message("k", "by plain")).want(t, http.StatusOK)
		p.receive(t, "by plain", annAt)
		var less tokens
		p.askToken(t, "my-sender", "my-secret", url.Values{"grant_type": {"client_credentials"},
			"scope": {"notifications.write"}}).want(t, http.StatusOK).into(t, &less)
		p.call(t, http.MethodPost, p.base+"/users/"+ann, less.Access, message("fire-alarm", "x")).
			want(t, http.StatusUnprocessableEntity)
		plain.ask(t, http.MethodPost, "/templates", object{"name": "n", "html": "h"}).want(t, http.StatusForbidden)
		plain.ask(t, http.MethodGet, "/templates", nil).want(t, http.StatusForbidden)
	})
	do("without a template the default one is used", func(t *testing.T) {
		p.ask(t, http.MethodPost, "/users/"+ann, message("news", "with default")).want(t, http.StatusOK)
		l := p.receive(t, "with default", annAt)[0]
		contains(t, l.Text, "the text")
		contains(t, l.HTML, "<b>html</b>")
		contains(t, l.Header.Get("Reply-To"), "me@example.org")
	})

	var templateID string
	do("POST /templates answers with template-id and nothing else", func(t *testing.T) {
		got := p.ask(t, http.MethodPost, "/templates", object{
			"name": "Mine", "subject": "[mine] {{.Subject}}", "text": "Dear all, {{.Text}}",
			"html": "<div class=mine>{{.HTML}}</div>",
		}).want(t, http.StatusCreated).object(t)
		templateID, _ = got["template-id"].(string)
		if len(got) != 1 || templateID == "" {
			t.Errorf("answer is %v, want a template-id only", got)
		}
	})
	do("templates are listed", func(t *testing.T) {
		contains(t, p.ask(t, http.MethodGet, "/templates", nil).want(t, http.StatusOK).String(), templateID, "Mine")
	})
	do("a template is associated with a notification, and fills in .Subject, .Text and .HTML", func(t *testing.T) {
		p.ask(t, http.MethodPut, "/clients/my-sender/notifications/news/template", object{"template": templateID}).
			want(t, http.StatusNoContent)
		p.ask(t, http.MethodPost, "/users/"+ann, message("news", "with mine")).want(t, http.StatusOK)
		l := p.receive(t, "with mine", annAt)[0]
		if l.Subject != "[mine] with mine" {
			t.Errorf("subject %q", l.Subject)
		}
		contains(t, l.Text, "Dear all, the text")
		contains(t, l.HTML, "mine", "<b>html</b>")
		p.ask(t, http.MethodPost, "/users/"+ann, message("fire-alarm", "another kind")).want(t, http.StatusOK)
		if l := p.receive(t, "another kind", annAt)[0]; !strings.HasSuffix(l.Subject, ": another kind") {
			t.Errorf("a template of one kind is used for another: %q", l.Subject)
		}
	})
	do("to all users", func(t *testing.T) {
		p.ask(t, http.MethodPost, "/everyone", message("news", "for everyone")).want(t, http.StatusOK)
		p.receive(t, "for everyone", annAt, bobAt, "admin@localhost")
	})
	space, org := p.newSpace(t, ann)
	do("to a space", func(t *testing.T) {
		p.ask(t, http.MethodPost, "/spaces/"+space, message("news", "for the space")).want(t, http.StatusOK)
		p.receive(t, "for the space", annAt)
		p.ask(t, http.MethodPost, "/spaces/nowhere", message("news", "x")).want(t, http.StatusNotFound)
	})
	do("to an org", func(t *testing.T) {
		p.role(t, "organization_manager", bob, "organization", org)
		p.ask(t, http.MethodPost, "/organizations/"+org, message("news", "for the org")).want(t, http.StatusOK)
		p.receive(t, "for the org", annAt, bobAt)
		body := message("news", "for managers")
		body["role"] = "OrgManager"
		p.ask(t, http.MethodPost, "/organizations/"+org, body).want(t, http.StatusOK)
		p.receive(t, "for managers", bobAt)
	})
	do("to an authorization scope", func(t *testing.T) {
		p.call(t, http.MethodPost, "/Groups", p.admin, object{"displayName": "my.scope",
			"members": []object{{"value": bob, "type": "USER", "origin": "uaa"}}}).want(t, http.StatusCreated)
		p.ask(t, http.MethodPost, "/uaa_scopes/my.scope", message("news", "for the scope")).want(t, http.StatusOK)
		p.receive(t, "for the scope", bobAt)
	})
	do("to an e-mail address", func(t *testing.T) {
		body := message("news", "for an address")
		body["to"] = "eve@example.net"
		p.ask(t, http.MethodPost, "/emails", body).want(t, http.StatusOK)
		p.receive(t, "for an address", "eve@example.net")
	})
	do("version 2 is chosen by a header", func(t *testing.T) { p.secondVersion(t, ann) })
	do("what became of a message can be asked for", func(t *testing.T) {
		var sent []struct {
			ID string `json:"notification_id"`
		}
		p.ask(t, http.MethodPost, "/users/"+bob, message("news", "followed")).want(t, http.StatusOK).into(t, &sent)
		testkit.Eventually(t, "it is delivered", func() bool {
			return strings.Contains(p.ask(t, http.MethodGet, "/messages/"+sent[0].ID, nil).want(t, http.StatusOK).String(),
				"delivered")
		})
	})
	if v := p.sink.Violations(); len(v) > 0 {
		t.Errorf("violations of SMTP: %v", v)
	}
}

// secondVersion sends a campaign.
func (p *mailFixture) secondVersion(t *testing.T, user string) {
	v2 := header{"X-NOTIFICATIONS-VERSION", "2"}
	sender := p.ask(t, http.MethodPost, "/senders", object{"name": "second"}, v2).want(t, http.StatusCreated).id()
	kind := p.ask(t, http.MethodPost, "/senders/"+sender+"/campaign_types", object{"name": "tips", "description": "Tips"},
		v2).want(t, http.StatusCreated).id()
	campaign := p.ask(t, http.MethodPost, "/senders/"+sender+"/campaigns", object{
		"send_to": object{"users": []string{user}}, "campaign_type_id": kind, "text": "the text", "subject": "by campaign",
	}, v2).want(t, http.StatusAccepted).id()
	p.receive(t, "by campaign", "ann@example.org")
	testkit.Eventually(t, "the campaign is completed", func() bool {
		return p.ask(t, http.MethodGet, "/campaigns/"+campaign+"/status", nil, v2).want(t, http.StatusOK).
			object(t)["status"] == "completed"
	})
	p.ask(t, http.MethodGet, "/senders", nil).want(t, http.StatusNotFound) // version 1 has none
	p.ask(t, http.MethodGet, "/info", nil, header{"X-NOTIFICATIONS-VERSION", "1"}).want(t, http.StatusOK)
	p.ask(t, http.MethodGet, "/info", nil, header{"X-NOTIFICATIONS-VERSION", "3"}).want(t, http.StatusNotFound)
}

// newSpace creates an org and a space with a developer.
func (p *mailFixture) newSpace(t testing.TB, developer string) (space, org string) {
	t.Helper()
	create := func(path string, body object) string {
		t.Helper()
		return p.call(t, http.MethodPost, path, p.admin, body).want(t, http.StatusCreated).object(t)["guid"].(string)
	}
	org = create("/v3/organizations", object{"name": "org"})
	space = create("/v3/spaces", object{"name": "space",
		"relationships": object{"organization": object{"data": object{"guid": org}}}})
	p.role(t, "organization_user", developer, "organization", org)
	p.role(t, "space_developer", developer, "space", space)
	return space, org
}

func (p *mailFixture) role(t testing.TB, role, user, where, guid string) {
	t.Helper()
	p.call(t, http.MethodPost, "/v3/users", p.admin, object{"guid": user}) // it may exist
	p.call(t, http.MethodPost, "/v3/roles", p.admin, object{"type": role, "relationships": object{
		"user": object{"data": object{"guid": user}}, where: object{"data": object{"guid": guid}},
	}}).want(t, http.StatusCreated)
}

// TestUnsubscribe tests users who unsubscribe.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	p.register(t, "news", "tips", "fire-alarm")
	ann := p.createUser(t, p.admin, "ann", "p")
	p.createUser(t, p.admin, "bob", "p")
	const annAt, bobAt = "ann@example.org", "bob@example.org"
	p.call(t, http.MethodPost, "/oauth/clients", p.admin, object{
		"client_id": "prefs", "client_secret": "s", "authorized_grant_types": "password",
		"scope": []string{"notification_preferences.read", "notification_preferences.write"},
	}).want(t, http.StatusCreated)
	own := func(user string) string {
		var got tokens
		p.askToken(t, "prefs", "s", url.Values{"grant_type": {"password"}, "username": {user}, "password": {"p"}}).
			want(t, http.StatusOK).into(t, &got)
		return got.Access
	}
	send := func(kind, subject string, to ...string) []message {
		t.Helper()
		p.ask(t, http.MethodPost, "/everyone", object{"kind_id": kind, "subject": subject, "text": "t"}).
			want(t, http.StatusOK)
		return p.receive(t, subject, append(to, "admin@localhost")...)
	}
	first := send("news", "news 1", annAt, bobAt)
	fire := send("fire-alarm", "fire 1", annAt, bobAt)
	if fire[0].Header.Get("List-Unsubscribe") != "" {
		t.Error("a critical mail offers to unsubscribe")
	}

	// With the mail's own headers, without a token; it is idempotent.
	at := slices.IndexFunc(first, func(l message) bool { return l.To == annAt })
	p.oneClick(t, first[at])
	p.oneClick(t, first[at])
	send("news", "news 2", bobAt)
	send("tips", "tips 2", annAt, bobAt)
	contains(t, p.call(t, http.MethodGet, p.base+"/user_preferences", own("ann"), nil).want(t, http.StatusOK).String(),
		`"news":{"email":false`)

	change := func(user string, body object) *reply {
		t.Helper()
		return p.call(t, http.MethodPatch, p.base+"/user_preferences", own(user), body)
	}
	// Users cannot unsubscribe from critical notifications.
	critical := object{"clients": object{"my-sender": object{"fire-alarm": object{"email": false}}}}
	if r := change("ann", critical); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("unsubscribing from a critical kind: %s", r)
	}
	change("bob", object{"global_unsubscribe": true}).want(t, http.StatusNoContent)
	send("tips", "tips 3", annAt)
	send("fire-alarm", "fire 2", annAt, bobAt)
	change("bob", object{"global_unsubscribe": false}).want(t, http.StatusNoContent)
	p.ask(t, http.MethodPatch, "/user_preferences/"+ann,
		object{"clients": object{"my-sender": object{"news": object{"email": true}}}}).want(t, http.StatusNoContent)
	send("news", "news 4", annAt, bobAt)
}

// TestMailbox has no mail server: mail is shown in the mailbox.
func TestMailbox(t *testing.T) {
	t.Parallel()
	p := &mailFixture{Server: start(t, options{})}
	p.base, p.admin = p.Notifications, p.adminToken(t)
	p.newSender(t, "my-sender", sendingAuthorities...).want(t, http.StatusCreated)
	p.token = p.clientToken(t, "my-sender", "my-secret")
	p.register(t, "news")
	contains(t, p.Stdout.await(t, "What to type next"), p.Admin+"/mailbox")
	ann := p.createUser(t, p.admin, "ann", "p")
	p.ask(t, http.MethodPost, "/users/"+ann, object{"kind_id": "news", "subject": "caught", "html": "<h1>the html</h1>"}).
		want(t, http.StatusOK)
	var list struct {
		Messages []struct{ Number int }
	}
	testkit.Eventually(t, "the mail is there", func() bool {
		p.call(t, http.MethodGet, p.Admin+"/mailbox/messages?to=ann@example.org", "", nil).want(t, http.StatusOK).
			into(t, &list)
		return len(list.Messages) == 1
	})
	contains(t, p.call(t, http.MethodGet, p.Admin+"/mailbox", "", nil).want(t, http.StatusOK).String(), "caught",
		"ann@example.org")
	contains(t, p.call(t, http.MethodGet, fmt.Sprintf("%s/mailbox/messages/%d", p.Admin, list.Messages[0].Number), "",
		nil).want(t, http.StatusOK).String(), "the html", "Message-ID")
}
